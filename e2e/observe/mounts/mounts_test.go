package mounts

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/e2e/observe/install"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

// kept is a Recorder that keeps what it is given.
type kept struct {
	mu     sync.Mutex
	events []history.Event
}

func (k *kept) Record(e history.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events = append(k.events, e)
}

// words renders what was recorded, sorted: the files are read side by side.
func (k *kept) words() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var words []string
	for _, e := range k.events {
		word := fmt.Sprintf("%s: %s", e.Source, e.Kind)
		if e.Observer != nil {
			word += fmt.Sprintf(" %s %s", e.Observer.Name, e.Observer.State)
		}
		words = append(words, word)
	}
	slices.Sort(words)
	return words
}

func lines(t *testing.T, events ...history.Event) string {
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

// read has a tailer read nodes to their end and returns what is on record.
func read(t *testing.T, nodes ...clusters.Node) []string {
	t.Helper()
	k := &kept{}
	synctest.Test(t, func(t *testing.T) {
		tailer := Start(t.Context(), nodes, k, slog.New(slog.DiscardHandler))
		synctest.Wait()
		tailer.Stop(t.Context())
	})
	return k.words()
}

func want(t *testing.T, got []string, words ...string) {
	t.Helper()
	if diff := cmp.Diff(words, got); diff != "" {
		t.Errorf("on record (-want +got):\n%s", diff)
	}
}

func TestTheLedgerIsRead(t *testing.T) {
	t.Parallel()
	content := lines(t,
		history.Event{Kind: history.KindMount, Mount: &history.Mount{Node: "n"}},
		history.Event{Kind: history.KindProcess, Process: &history.Process{Node: "n"}},
		history.Event{Kind: history.KindHolding, Holding: &history.Holding{Node: "n"}},
		history.Event{Kind: history.KindHolding, Holding: &history.Holding{Node: "other"}},
		history.Event{Kind: history.KindCSI, CSI: &history.CSI{Node: "n"}},
		beat("holdings", "n"), beat("mounts", "n"))
	node := fileNode{name: "n", files: map[string]string{install.LedgerPath: content}}
	want(t, read(t, node),
		"ledger/n: holding", "ledger/n: mount", "ledger/n: observer holdings beat", "ledger/n: observer mounts beat",
		"ledger/n: process", "tail/n: observer mounts loss", "tail/n: observer mounts loss")
}

// TestOnlyTheObserverOfMountsSpeaksForAll has the one of processes go on where that of mounts is silent.
func TestOnlyTheObserverOfMountsSpeaksForAll(t *testing.T) {
	t.Parallel()
	content := lines(t, beat("processes", "n"))
	node := fileNode{name: "n", files: map[string]string{install.LedgerPath: content}}
	want(t, read(t, node), "ledger/n: observer processes beat", "tail/n: observer mounts gap")
	if !strings.HasPrefix(install.LedgerPath, "/var/") {
		t.Errorf("the ledger at %q is lost in a reboot", install.LedgerPath)
	}
}
