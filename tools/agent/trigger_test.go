package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// ownNode is a node that is this process: what would be run on it is the agent, with another file of calls.
type ownNode struct{ calls string }

func (ownNode) Name() string                                    { return "here" }
func (ownNode) Role() clusters.Role                             { return clusters.RoleWorker }
func (ownNode) Addresses(context.Context) ([]netip.Addr, error) { return nil, errors.ErrUnsupported }
func (ownNode) Dial(context.Context, string) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}
func (h ownNode) Exec(ctx context.Context, c clusters.Command) (clusters.Result, error) {
	args := slices.Clone(c.Argv[2:])
	args[slices.Index(args, nodeagent.CSICallsPath)] = h.calls
	std := stdio{in: c.Stdin, out: c.Stdout, err: io.Discard, log: slog.New(slog.DiscardHandler)}
	return clusters.Result{}, runTrigger(ctx, std, args)
}

// write appends a call to the file.
func (h ownNode) write(t *testing.T, call history.CSI) {
	t.Helper()
	line, err := json.Marshal(history.Event{Kind: history.KindCSI, Span: history.At(bootclock.Now()), CSI: &call})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(h.calls, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	half := len(line) / 2 // In two pieces: a line is read when it is whole.
	for _, part := range []string{string(line[:half]), string(line[half:]) + "\n"} {
		if _, err := f.WriteString(part); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

const waitBound = 20 * time.Second

func TestTriggerActsOnItsCallAndOnNoOther(t *testing.T) {
	node := ownNode{filepath.Join(t.TempDir(), "calls.jsonl")}
	mine := history.CSI{RPC: "NodeUnpublishVolume", Volume: "v", End: true, Code: "OK"}
	node.write(t, mine) // Before it waits: that is another time.
	done := filepath.Join(t.TempDir(), "done")
	when := plan.Await{For: plan.AwaitCSIEnd, RPC: mine.RPC}
	tr, err := nodeagent.On(node).Trigger(t.Context(), when, "v", "touch", done)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*history.CSI){
		func(c *history.CSI) { c.RPC = "NodeUnstageVolume" },
		func(c *history.CSI) { c.Volume = "w" },
		func(c *history.CSI) { c.End, c.Code = false, "" },
		func(c *history.CSI) { c.Code = "Internal" },
	} {
		other := mine
		change(&other)
		node.write(t, other)
	}
	if said, err := tr.Wait(t.Context(), 100*time.Millisecond); err == nil {
		t.Errorf("it acted on another call: %s", said)
	}
	if _, err := os.Stat(done); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the command was run: %v", err)
	}
	before := bootclock.Now()
	node.write(t, mine)
	said, err := tr.Wait(t.Context(), waitBound)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(done); err != nil {
		t.Error(err)
	}
	if said.Call < before || said.Seen < said.Call || said.Done < said.Seen {
		t.Errorf("out of order: written after %s, %+v", before, said)
	}
	t.Logf("the command was %s", said)
	if err := tr.Stop(); err != nil {
		t.Error(err)
	}
}

func TestTriggerStopsAndLeavesNothing(t *testing.T) {
	node := ownNode{filepath.Join(t.TempDir(), "calls.jsonl")} // Not there yet.
	done := filepath.Join(t.TempDir(), "done")
	when := plan.Await{For: plan.AwaitCSIBegin, RPC: "NodeStageVolume"}
	tr, err := nodeagent.On(node).Trigger(t.Context(), when, "v", "touch", done)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Stop(); err != nil {
		t.Error(err)
	}
	node.write(t, history.CSI{RPC: "NodeStageVolume", Volume: "v"})
	if _, err := os.Stat(done); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after it was stopped, the command was run: %v", err)
	}
}

// TestTriggerCountsAndPutsOff has it act on the second call, and some time after it.
func TestTriggerCountsAndPutsOff(t *testing.T) {
	node := ownNode{filepath.Join(t.TempDir(), "calls.jsonl")}
	delay := 50 * time.Millisecond
	when := plan.Await{For: plan.AwaitCSIBegin, RPC: "NodeStageVolume", Count: 2, Delay: plan.Duration(delay)}
	tr, err := nodeagent.On(node).Trigger(t.Context(), when, "v", "true")
	if err != nil {
		t.Fatal(err)
	}
	call := history.CSI{RPC: "NodeStageVolume", Volume: "v"}
	node.write(t, call)
	between := bootclock.Now()
	node.write(t, call)
	said, err := tr.Wait(t.Context(), waitBound)
	if err != nil {
		t.Fatal(err)
	}
	if said.Call < between || said.Done < said.Seen.Add(delay) {
		t.Errorf("the first call was over at %s, and it acted so: %+v", between, said)
	}
	if err := tr.Stop(); err != nil {
		t.Error(err)
	}
}

func TestTriggerTellsOfACommandThatFails(t *testing.T) {
	node := ownNode{filepath.Join(t.TempDir(), "calls.jsonl")}
	when := plan.Await{For: plan.AwaitCSIBegin, RPC: "NodeStageVolume"}
	tr, err := nodeagent.On(node).Trigger(t.Context(), when, "v", "false")
	if err != nil {
		t.Fatal(err)
	}
	node.write(t, history.CSI{RPC: "NodeStageVolume", Volume: "v"})
	if _, err := tr.Wait(t.Context(), waitBound); err == nil || !strings.Contains(err.Error(), `run "false"`) {
		t.Errorf("got %v", err)
	}
	if err := tr.Stop(); err != nil {
		t.Error(err)
	}
}

func TestTriggerRefusesArguments(t *testing.T) {
	for _, args := range [][]string{
		nil,
		{"--rpc", "NodeStageVolume", "file", "--", "true"},
		{"--rpc", "NodeStageVolume", "--volume", "v", "--on", "middle", "file", "--", "true"},
		{"--rpc", "NodeStageVolume", "--volume", "v", "--count", "0", "file", "--", "true"},
		{"--rpc", "NodeStageVolume", "--volume", "v", "--delay", "-1s", "file", "--", "true"},
		{"--rpc", "NodeStageVolume", "--volume", "v", "file", "true"},
		{"--rpc", "NodeStageVolume", "--volume", "v", "file", "--"},
	} {
		var bad *argumentError
		std := stdio{in: strings.NewReader(""), out: io.Discard}
		if err := runTrigger(t.Context(), std, args); !errors.As(err, &bad) {
			t.Errorf("%q: got %v", args, err)
		}
	}
}
