package nodefacts

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// fileNode is a node that has files and lets them be followed.
type fileNode struct {
	clusters.Node
	name  string
	role  clusters.Role
	files map[string]string
}

func (n fileNode) Name() string        { return n.name }
func (n fileNode) Role() clusters.Role { return n.role }

func (n fileNode) Exec(ctx context.Context, cmd clusters.Command) (clusters.Result, error) {
	content, ok := n.files[cmd.Argv[len(cmd.Argv)-1]]
	if ok && slices.Contains(cmd.Argv, "0") { // From its begin.
		if _, err := io.WriteString(cmd.Stdout, content); err != nil {
			return clusters.Result{}, err
		}
	}
	if cmd.Stdin != nil {
		_, _ = io.Copy(io.Discard, cmd.Stdin)
	}
	return clusters.Result{}, ctx.Err()
}

// words renders what was recorded, sorted: the files are read side by side.
func (k *kept) words() []string {
	var words []string
	for _, e := range k.copy() {
		word := fmt.Sprintf("%s: %s", e.Source, e.Kind)
		if e.Observer != nil {
			word += fmt.Sprintf(" %s %s", e.Observer.Name, e.Observer.State)
		}
		words = append(words, word)
	}
	slices.Sort(words)
	return words
}

func textOf(t *testing.T, events ...history.Event) string {
	t.Helper()
	var buf bytes.Buffer
	for _, e := range events {
		if err := history.Append(&buf, e); err != nil {
			t.Fatal(err)
		}
	}
	return buf.String()
}

func beat(name, node string) history.Event {
	return history.Event{
		Kind: history.KindObserver, Span: history.At(bootclock.Now().Add(time.Hour)),
		Observer: &history.Observer{Name: name, Node: node, State: history.ObserverBeat},
	}
}

// read has a tailer read nodes to their end and returns what is on record, with the CSI driver's files or without.
func read(t *testing.T, csi bool, nodes ...clusters.Node) []string {
	t.Helper()
	k := &kept{}
	synctest.Test(t, func(t *testing.T) {
		tailer := Start(t.Context(), Config{Cluster: oneKernel(), Nodes: nodes, CSI: csi, Recorder: k,
			Log: slog.New(slog.DiscardHandler)})
		synctest.Wait()
		tailer.Stop(t.Context())
	})
	return slices.DeleteFunc(k.words(), func(word string) bool {
		return csi && strings.Contains(word, "observer mounts") // The nodes of these tests keep no ledger.
	})
}

func want(t *testing.T, got []string, words ...string) {
	t.Helper()
	if diff := cmp.Diff(words, got); diff != "" {
		t.Errorf("on record (-want +got):\n%s", diff)
	}
}

func call(node string) history.Event {
	return history.Event{Kind: history.KindCSI, CSI: &history.CSI{Node: node, RPC: "Probe"}}
}

// TestPullsAreTheNodesOwn holds that a node's own driver tells of the disks that were pulled out of it, and that nobody
// else is believed.
func TestPullsAreTheNodesOwn(t *testing.T) {
	t.Parallel()
	pull := history.Event{Kind: history.KindPull, Pull: &history.Pull{Node: "c", Volume: "v"}}
	control := fileNode{name: "c", role: clusters.RoleControlPlane, files: map[string]string{
		csiNodePath:       textOf(t, pull, beat("csi", "c")),
		csiControllerPath: textOf(t, pull, beat("csi", "c")),
	}}
	want(t, read(t, true, control),
		"csi-controller/c: observer csi-controller beat", "csi/c: observer csi beat", "csi/c: pull",
		"tail/c: observer csi-controller loss")
}

func TestTheServicesAreToldApart(t *testing.T) {
	t.Parallel()
	control := fileNode{name: "c", role: clusters.RoleControlPlane, files: map[string]string{
		csiNodePath:       textOf(t, call("c"), beat("csi", "c")),
		csiControllerPath: textOf(t, call("c"), call("w"), beat("csi", "c")),
	}}
	worker := fileNode{name: "w", role: clusters.RoleWorker, files: map[string]string{
		csiNodePath: textOf(t, call("w"), beat("csi", "w"),
			history.Event{Kind: history.KindMount, Mount: &history.Mount{Node: "w"}}),
		csiControllerPath: textOf(t, call("w")), // It has none: this is not read.
	}}
	want(t, read(t, true, control, worker),
		"csi-controller/c: csi", "csi-controller/c: observer csi-controller beat",
		"csi/c: csi", "csi/c: observer csi beat", "csi/w: csi", "csi/w: observer csi beat",
		"tail/c: observer csi-controller loss", "tail/w: observer csi loss")
}

func TestADriverThatIsSilentIsAGap(t *testing.T) {
	t.Parallel()
	control := fileNode{name: "c", role: clusters.RoleControlPlane, files: map[string]string{
		csiNodePath: textOf(t, call("c"), beat("csi", "c")),
	}}
	want(t, read(t, true, control),
		"csi/c: csi", "csi/c: observer csi beat", "tail/c: observer csi-controller gap")
	if strings.Contains(csiNodePath, "controller") || !strings.HasPrefix(csiControllerPath, "/var/") {
		t.Errorf("paths %q and %q", csiNodePath, csiControllerPath)
	}
}

func TestTheLedgerIsRead(t *testing.T) {
	t.Parallel()
	content := textOf(t,
		history.Event{Kind: history.KindMount, Mount: &history.Mount{Node: "n"}},
		history.Event{Kind: history.KindProcess, Process: &history.Process{Node: "n"}},
		history.Event{Kind: history.KindHolding, Holding: &history.Holding{Node: "n"}},
		history.Event{Kind: history.KindHolding, Holding: &history.Holding{Node: "other"}},
		history.Event{Kind: history.KindCSI, CSI: &history.CSI{Node: "n"}},
		beat("holdings", "n"), beat("mounts", "n"))
	node := fileNode{name: "n", files: map[string]string{LedgerPath: content}}
	want(t, read(t, false, node),
		"ledger/n: holding", "ledger/n: mount", "ledger/n: observer holdings beat", "ledger/n: observer mounts beat",
		"ledger/n: process", "tail/n: observer holdings loss", "tail/n: observer holdings loss",
		"tail/n: observer mounts loss", "tail/n: observer mounts loss",
		"tail/n: observer processes loss", "tail/n: observer processes loss")
}

// TestOnlyTheObserverOfMountsSpeaksForAll has the one of processes go on where that of mounts is silent.
func TestOnlyTheObserverOfMountsSpeaksForAll(t *testing.T) {
	t.Parallel()
	content := textOf(t, beat("processes", "n"))
	node := fileNode{name: "n", files: map[string]string{LedgerPath: content}}
	want(t, read(t, false, node), "ledger/n: observer processes beat", "tail/n: observer mounts gap")
	if !strings.HasPrefix(LedgerPath, "/var/") {
		t.Errorf("the ledger at %q is lost in a reboot", LedgerPath)
	}
}
