package nodefacts

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/fake"
)

func onLine(t *testing.T) string {
	t.Helper()
	var buf bytes.Buffer
	for _, name := range []string{"processes", "mounts"} {
		if err := history.Append(&buf, history.Event{
			Kind: history.KindObserver, Source: "ledger/c-worker",
			Observer: &history.Observer{Name: name, Node: "c-worker", State: history.ObserverOn, Detail: "fanotify"},
		}); err != nil {
			t.Fatal(err)
		}
	}
	return buf.String()
}

// scripted returns a node that keeps files, and the files.
func scripted(t *testing.T) (*fake.Node, map[string]string) {
	t.Helper()
	files := map[string]string{}
	node := fake.NewCluster("c", 1).Node("worker")
	on := func(do func(argv []string, stdin string) (clusters.Result, error), pattern ...string) {
		answer := func(_ context.Context, c clusters.Command, stdin string) (clusters.Result, error) {
			return do(c.Argv, stdin)
		}
		node.On(pattern, fake.Reply{Do: answer})
	}
	on(func(argv []string, stdin string) (clusters.Result, error) {
		files[strings.TrimPrefix(argv[1], "of=")] = stdin
		return clusters.Result{}, nil
	}, "dd", "...")
	on(func(argv []string, _ string) (clusters.Result, error) {
		content, ok := files[argv[1]]
		if !ok {
			return clusters.Result{ExitCode: 1}, &clusters.ExitError{Node: "c-worker", Argv: argv, ExitCode: 1}
		}
		sum := sha256.Sum256([]byte(content))
		return clusters.Result{Stdout: []byte(hex.EncodeToString(sum[:]) + "  x\n")}, nil
	}, "sha256sum", "*")
	on(func(argv []string, _ string) (clusters.Result, error) {
		files[argv[3]] = files[argv[2]]
		delete(files, argv[2])
		return clusters.Result{}, nil
	}, "mv", "-f", "*", "*")
	node.On([]string{"chmod", "..."})
	on(func(argv []string, stdin string) (clusters.Result, error) {
		if sum := sha256.Sum256([]byte(files[argv[4]])); hex.EncodeToString(sum[:]) != argv[5] {
			return clusters.Result{}, &clusters.ExitError{Argv: argv, ExitCode: otherProgram}
		}
		files[argv[6]] = stdin
		return clusters.Result{Stdout: []byte(onLine(t))}, nil
	}, "sh", "-c", Script, "...")
	return node, files
}

func binary(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestInstall(t *testing.T) {
	t.Parallel()
	node, files := scripted(t)
	path := binary(t, "one")
	for _, copied := range []bool{true, false} {
		done, err := Install(t.Context(), node, path)
		if err != nil {
			t.Fatal(err)
		}
		if done.Copied != copied || done.On.Observer.Name != "mounts" {
			t.Errorf("Install = %+v, want copied %t", done, copied)
		}
	}
	if files[clusters.AgentPath] != "one" || len(files) != 2 {
		t.Errorf("files %q", files)
	}
	unit := files[unitPath]
	for _, line := range []string{
		"Type=notify", "Before=containerd.service kubelet.service", "WantedBy=multi-user.target",
		"Restart=always", "DefaultDependencies=no",
		"ExecStart=@/usr/local/bin/seatrial-agent @seatrial-agent " +
			"ledger --node c-worker --file /var/lib/seatrial/ledger/ledger.jsonl",
	} {
		if !strings.Contains(unit, line+"\n") {
			t.Errorf("unit lacks %q:\n%s", line, unit)
		}
	}
	done, err := Install(t.Context(), node, binary(t, "two"))
	if err != nil || !done.Copied || files[clusters.AgentPath] != "two" {
		t.Errorf("another binary: %+v (%v)", done, err)
	}
}

func TestInstallFails(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, want string
		script     func(n *fake.Node)
	}{
		{"copy differs", "sha256", func(n *fake.Node) {
			n.On([]string{"dd", "..."})
			n.On([]string{"sha256sum", "*"}, fake.Reply{Stdout: strings.Repeat("0", 64) + "  x\n"})
		}},
		{"disk full", "No space left", func(n *fake.Node) {
			n.On([]string{"dd", "..."}, fake.Reply{ExitCode: 1, Stderr: "dd: No space left on device"})
		}},
		{"unit fails", `begin ledger on node "c-worker": exit code 1: Job failed.`, func(n *fake.Node) {
			n.On([]string{"sh", "..."}, fake.Reply{ExitCode: 1, Stderr: "Job failed.\nmark: not permitted\n"})
		}},
		{"ledger says nothing", "does not say that the ledger is on", func(n *fake.Node) {
			n.On([]string{"sh", "..."}, fake.Reply{})
		}},
		{"strange hash", "answer is", func(n *fake.Node) {
			n.On([]string{"sha256sum", "*"}, fake.Reply{Stdout: "ab c"})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			node, _ := scripted(t)
			tt.script(node)
			_, err := Install(t.Context(), node, binary(t, "one"))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Install: %v, want %q", err, tt.want)
			}
		})
	}
	node, _ := scripted(t)
	if _, err := Install(t.Context(), node, "/nowhere"); err == nil {
		t.Error("no binary: no error")
	}
}

func TestUnitFileRefusesStrangeNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "a b", "a\nExecStart=/bin/sh", "%n", "-a", "A", strings.Repeat("a", 300)} {
		if _, err := unitFile(name); err == nil {
			t.Errorf("node name %q: no error", name)
		}
	}
}
