// Package nodeagent is the client of the agent, the program that runs on every node for Seatrial.
package nodeagent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// CSICallsPath is where the node service of the disk's CSI driver writes its calls down.
const CSICallsPath = undo.DiskStates + "node/calls.jsonl"

// The bounds of what a node does at once when nothing is wrong with it.
const (
	armedBound = 20 * time.Second // To begin to wait.
	stopBound  = 10 * time.Second // To wait no longer; after that the command's connection is cut.
)

// TriggerEvent is one line of what the agent says: first that it waits, then what it did.
type TriggerEvent struct {
	Waits bool         `json:"waits,omitempty"`
	Call  history.Time `json:"call,omitempty"` // When the call began or ended, as the driver tells it.
	Seen  history.Time `json:"seen,omitempty"` // When the agent had read of it.
	Done  history.Time `json:"done,omitempty"` // When the command had ended.
	Error string       `json:"error,omitempty"`
}

// Trigger is a node that waits. It ends with its command, with Stop, and with the harness: the agent waits no longer
// than its standard input is open.
type Trigger struct {
	node   string
	when   plan.Await
	volume string
	input  *io.PipeWriter
	cut    context.CancelFunc
	lines  chan TriggerEvent
	ended  chan error // Holds one value, and is closed.
}

// StartTrigger has node wait for the nth call for the volume, as the plan says, and for the delay after it, and then
// run argv. It returns when the node waits.
func StartTrigger(
	ctx context.Context,
	node clusters.Node,
	when plan.Await,
	volume string,
	argv ...string,
) (*Trigger, error) {
	on := "begin"
	if when.For == plan.AwaitCSIEnd {
		on = "end"
	}
	input, held := io.Pipe()
	out, written := io.Pipe()
	running, cut := context.WithCancel(context.WithoutCancel(ctx)) // It outlives ctx, which is that of one stage.
	t := &Trigger{
		node: node.Name(), when: when, volume: volume, input: held, cut: cut, lines: make(chan TriggerEvent),
		ended: make(chan error, 1),
	}
	command := []string{undo.AgentPath, "trigger", "--rpc", when.RPC, "--volume", volume, "--on", on}
	if when.Count > 1 {
		command = append(command, "--count", strconv.Itoa(when.Count))
	}
	if when.Delay > 0 {
		command = append(command, "--delay", when.Delay.String())
	}
	command = append(append(command, CSICallsPath, "--"), argv...)
	go func() {
		_, err := node.Exec(running, clusters.Command{Argv: command, Stdin: input, Stdout: written})
		_ = written.Close() // Never fails.
		t.ended <- err
		close(t.ended)
	}()
	go t.read(out)
	said, err := t.next(ctx, armedBound)
	if err == nil && !said.Waits {
		err = fmt.Errorf("it said %+v first", said)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("have node %q wait for %s: %w", t.node, when.RPC, err), t.Stop())
	}
	return t, nil
}

// read hands on what the agent says, until it ends.
func (t *Trigger) read(out *io.PipeReader) {
	defer close(t.lines)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var said TriggerEvent
		if err := json.Unmarshal(lines.Bytes(), &said); err != nil {
			said.Error = fmt.Sprintf("it said %.80q", lines.Text())
		}
		t.lines <- said
	}
}

func (t *Trigger) next(ctx context.Context, bound time.Duration) (TriggerEvent, error) {
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case said, ok := <-t.lines:
		switch {
		case !ok:
			return said, errors.Join(errors.New("the agent ended"), <-t.ended)
		case said.Error != "":
			return said, errors.New(said.Error)
		}
		return said, nil
	case <-timer.C:
		return TriggerEvent{}, fmt.Errorf("it said nothing for %s", bound)
	case <-ctx.Done():
		return TriggerEvent{}, context.Cause(ctx)
	}
}

// Volume is the handle of the volume that the call is for.
func (t *Trigger) Volume() string { return t.volume }

// Wait waits until the command was carried out and returns when what happened. The error says what was waited for. The
// delay that the plan wants is not counted into the bound.
func (t *Trigger) Wait(ctx context.Context, bound time.Duration) (TriggerEvent, error) {
	said, err := t.next(ctx, bound+t.when.Delay.D())
	if err != nil {
		return said, fmt.Errorf("wait for node %q to act on %s (%s): %w", t.node, t.when.RPC, t.when.For, err)
	}
	return said, nil
}

// Stop has the node wait no longer. What was carried out stays.
func (t *Trigger) Stop() error {
	defer t.cut()
	_ = t.input.Close() // Never fails.
	defer time.AfterFunc(stopBound, t.cut).Stop()
	for range t.lines {
		continue // What it still says is of no interest.
	}
	if err, open := <-t.ended; open && err != nil {
		return fmt.Errorf("stop the trigger on node %q: %w", t.node, err)
	}
	return nil
}

// String tells how soon the command followed the call.
func (s TriggerEvent) String() string {
	return fmt.Sprintf("read of it %s later, done %s after it", s.Seen.Sub(s.Call).Round(10*time.Microsecond),
		s.Done.Sub(s.Call).Round(10*time.Microsecond))
}
