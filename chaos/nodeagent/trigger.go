package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

// DiskPath is the shared disk's program on nodes that have its CSI driver. DiskStates holds the driver's state: one
// directory for its node service, one for its controller.
const (
	DiskPath   = "/usr/local/bin/seatrial-disk"
	DiskStates = "/var/lib/seatrial/disk/"
)

// CSICallsPath is where the node service of the disk's CSI driver records its calls.
const CSICallsPath = DiskStates + "node/calls.jsonl"

// armedBound is how long a node may take to arm.
const armedBound = 20 * time.Second

// TriggerEvent is a line of the agent's output: first that it waits, then what it did.
type TriggerEvent struct {
	Waits bool         `json:"waits,omitempty"`
	Call  history.Time `json:"call,omitempty" clock:"from"` // When the call began or ended, recorded by the driver.
	Seen  history.Time `json:"seen,omitempty" clock:"to"`   // When the agent had read that.
	Done  history.Time `json:"done,omitempty" clock:"to"`   // When the command had ended.
	Error string       `json:"error,omitempty"`
}

// String describes the delay between the call and the command.
func (s TriggerEvent) String() string {
	return fmt.Sprintf("read of it %s later, done %s after it", s.Seen.Sub(s.Call).Round(10*time.Microsecond),
		s.Done.Sub(s.Call).Round(10*time.Microsecond))
}

// Trigger is a node that waits for a CSI call and then runs a command. It ends with the command, with Stop, or with the
// harness.
type Trigger struct {
	*Stream[TriggerEvent]
	node   string
	when   plan.Await
	Volume string // The handle of the volume that the call is for.
}

// Trigger makes the node wait for the plan's nth call for the volume and the delay after it, and then run argv. It
// returns once the node waits.
func (a Agent) Trigger(ctx context.Context, when plan.Await, volume string, argv ...string) (*Trigger, error) {
	on := "begin"
	if when.For == plan.AwaitCSIEnd {
		on = "end"
	}
	args := []string{"trigger", "--rpc", when.RPC, "--volume", volume, "--on", on}
	if when.Count > 1 {
		args = append(args, "--count", strconv.Itoa(when.Count))
	}
	if when.Delay > 0 {
		args = append(args, "--delay", when.Delay.String())
	}
	args = append(append(args, CSICallsPath, "--"), argv...)
	t := &Trigger{Stream: start[TriggerEvent](ctx, a, true, args...), node: a.Node.Name(), when: when, Volume: volume}
	event, err := t.within(ctx, armedBound)
	if err == nil && !event.Waits {
		err = fmt.Errorf("it said %+v first", event)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("arm trigger on node %q for %s: %w", t.node, when.RPC, err), t.Stop())
	}
	return t, nil
}

// within returns the next event and the error in it.
func (t *Trigger) within(ctx context.Context, bound time.Duration) (TriggerEvent, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("it said nothing for %s", bound))
	defer cancel()
	event, err := t.Next(ctx)
	if err == nil && event.Error != "" {
		err = errors.New(event.Error)
	}
	return event, err
}

// Wait waits until the command has run and returns when. The bound does not include the plan's delay.
func (t *Trigger) Wait(ctx context.Context, bound time.Duration) (TriggerEvent, error) {
	event, err := t.within(ctx, bound+t.when.Delay.D())
	if err != nil {
		return event, fmt.Errorf("wait for node %q to act on %s (%s): %w", t.node, t.when.RPC, t.when.For, err)
	}
	return event, nil
}

// Stop ends the wait. It does not undo the command.
func (t *Trigger) Stop() error {
	if err := t.Stream.Stop(); err != nil {
		return fmt.Errorf("stop the trigger on node %q: %w", t.node, err)
	}
	return nil
}
