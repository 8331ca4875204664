package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// ClockStep returns the fault that puts the wall clock of the victim's node forward, or back.
//
// What: the wall clock is set by so much, at once. The boot clock, by which timers run, goes on.
//
// Shown: the victim's wall clock is ahead of its boot clock by that much more than before, and is that much off the
// wall clocks of the other nodes, which are still where they were.
//
// Healed: the wall clock is put as far ahead of the boot clock as it was; it agrees with those of the other nodes. A
// timer on the node does it when nobody heals; timers run by the boot clock.
//
// It needs nodes with a clock of their own. All nodes of a kind cluster share the kernel of the host, and so its wall
// clock: there a plan is refused. Whatever the plan says, nodes that tell the same boot id are left alone. It was seen
// on the model of a cluster alone.
//
// Upstream: TimeChaos and PhysicalMachineChaos clock; kubernetes/client-go#448, leases when clocks are apart.
func ClockStep() fault.Definition {
	return fault.Define(fault.Definition{
		Name:    "clock-step",
		Summary: "Puts the wall clock of the victim's node forward, or back.",
		Shown: "The wall clock is off its boot clock, and off the wall clocks of the other nodes, by what was " +
			"planned; theirs are where they were.",
		Healed:   "The wall clock is put back by the boot clock, and agrees with those of the other nodes.",
		Needs:    []string{"clock", "systemd"},
		Takes:    []plan.Part{plan.PartClock},
		Upstream: "client-go#448",
		Example:  plan.Params{"offset": plan.Duration(time.Hour)},
	}, func(p clockStepParams, _ plan.Fault, step int, env fault.Env) (fault.Fault, error) {
		c := &clockStep{env: env, armed: newArmed(step, env), by: p.Offset.D()}
		return c, c.owner.Check()
	})
}

type clockStepParams struct {
	Offset plan.Duration `json:"offset"` // By how much the clock is put forward, or back when it is negative.
}

// The limits of a step: it is told from what clocks differ by, and certificates outlive it.
const (
	minOffset = 2 * time.Second
	maxOffset = 12 * time.Hour
)

// Validate implements fault.Validator.
func (p clockStepParams) Validate(plan.Setting) (errs plan.FieldErrors) {
	if by := p.Offset.D(); by < -maxOffset || by > maxOffset || by > -minOffset && by < minOffset {
		errs.Add("offset", fmt.Sprintf("use %s to %s, or as much with a minus", minOffset, maxOffset),
			"%s is out of range", p.Offset)
	}
	return errs
}

// clockSlack is what clocks that agree may be apart: what two readings take, and what their time service lets pass.
const clockSlack = 500 * time.Millisecond

// clockBound is how long it may take until all clocks agree after the heal.
const clockBound = 20 * time.Second

type clockStep struct {
	env fault.Env
	armed
	by    time.Duration
	mine  probe.Clock            // Before.
	other map[string]probe.Clock // Before, by the name of the node.
}

// readClock asks a node for its clocks.
func readClock(ctx context.Context, n clusters.Node) (probe.Clock, error) {
	out, err := clusters.Run(ctx, n, undo.AgentPath, "clock")
	if err != nil {
		return probe.Clock{}, fmt.Errorf("read the clocks of node %q: %w", n.Name(), err)
	}
	var read probe.Clock
	if err := json.Unmarshal([]byte(out), &read); err != nil {
		return read, fmt.Errorf("read the clocks of node %q: decode answer %.80q: %w", n.Name(), out, err)
	}
	return read, nil
}

// others returns the other nodes.
func (c *clockStep) others(ctx context.Context) ([]clusters.Node, error) {
	nodes, err := c.env.Cluster.Nodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var others []clusters.Node
	for _, n := range nodes {
		if n.Name() != c.env.Node.Name() {
			others = append(others, n)
		}
	}
	if len(others) == 0 {
		return nil, errors.New("list nodes: there is none that could tell the time")
	}
	return others, nil
}

// Undo notes the clocks, and sees that they are the nodes' own.
func (c *clockStep) Undo(ctx context.Context) ([]undo.Task, error) {
	others, err := c.others(ctx)
	if err != nil {
		return nil, err
	}
	if c.mine, err = readClock(ctx, c.env.Node); err != nil {
		return nil, err
	}
	c.other = map[string]probe.Clock{}
	for _, n := range others {
		read, err := readClock(ctx, n)
		if err != nil {
			return nil, err
		}
		if read.Boot == c.mine.Boot {
			return nil, fmt.Errorf("step the clock of node %q: it shares its kernel, and so its clock, with node %q "+
				"(boot %s)", c.env.Node.Name(), n.Name(), read.Boot)
		}
		c.other[n.Name()] = read
	}
	return c.undoBy(undo.Command(undo.SetClock(c.mine.Ahead(), c.mine.Boot)...)), nil
}

// Inject sees that the clocks agree, and sets the victim's.
func (c *clockStep) Inject(ctx context.Context) error {
	_, state, err := c.compare(ctx, 0)
	if err == nil && state != "" {
		err = fmt.Errorf("a clock that is off cannot be shown to be put off: %s", state)
	}
	if err != nil {
		return err
	}
	_, err = clusters.Run(ctx, c.env.Node, undo.SetClock(c.mine.Ahead()+c.by, c.mine.Boot)...)
	return err
}

// off returns how far the victim's wall clock is off that of another node, at least and at most: the other is read
// before and after.
func (c *clockStep) off(ctx context.Context, n clusters.Node) (least, most time.Duration, err error) {
	before, err := readClock(ctx, n)
	if err != nil {
		return 0, 0, err
	}
	mine, err := readClock(ctx, c.env.Node)
	if err != nil {
		return 0, 0, err
	}
	after, err := readClock(ctx, n)
	return time.Duration(mine.Wall - after.Wall), time.Duration(mine.Wall - before.Wall), err
}

// compare looks once whether the victim's wall clock is that much off those of the others. A state that is not empty
// says how far it is off which.
func (c *clockStep) compare(ctx context.Context, want time.Duration) ([]fault.Fact, string, error) {
	others, err := c.others(ctx)
	if err != nil {
		return nil, "", err
	}
	var facts []fault.Fact
	for _, n := range others {
		begin := c.env.Clock()
		least, most, err := c.off(ctx, n)
		if err != nil {
			return facts, "", err
		}
		text := fmt.Sprintf("its wall clock is between %s and %s off that of node %q", round(least), round(most),
			n.Name())
		if least > want+clockSlack || most < want-clockSlack {
			return facts, text, nil
		}
		facts = append(facts, fault.Fact{Span: history.Between(begin, c.env.Clock()), Sentence: text})
	}
	return facts, "", nil
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }

// Confirm shows that the victim's clock, and no other, was set.
func (c *clockStep) Confirm(ctx context.Context) ([]fault.Fact, error) {
	begin := c.env.Clock()
	now, err := readClock(ctx, c.env.Node)
	if err != nil {
		return nil, err
	}
	stepped := now.Ahead() - c.mine.Ahead()
	if (stepped - c.by).Abs() > clockSlack {
		return nil, fmt.Errorf("the wall clock was set by %s, not by %s", round(stepped), c.by)
	}
	facts := []fault.Fact{{Span: history.Between(begin, c.env.Clock()),
		Sentence: fmt.Sprintf("the wall clock was set by %s, to %s", round(stepped), now.Time().Format(time.RFC3339))}}
	others, err := c.others(ctx)
	if err != nil {
		return facts, err
	}
	for _, n := range others {
		read, err := readClock(ctx, n)
		if err != nil {
			return facts, err
		}
		if moved := read.Ahead() - c.other[n.Name()].Ahead(); moved.Abs() > clockSlack {
			return facts, fmt.Errorf("the wall clock of node %q was set by %s as well", n.Name(), round(moved))
		}
	}
	seen, state, err := c.compare(ctx, c.by)
	if err == nil && state != "" {
		err = errors.New(state)
	}
	return append(facts, seen...), err
}

// Held shows that it is still off: a time service of the node may have mended it.
func (c *clockStep) Held(ctx context.Context) ([]fault.Fact, error) {
	facts, state, err := c.compare(ctx, c.by)
	if err == nil && state != "" {
		err = errors.New(state)
	}
	return facts, err
}

// Heal puts back a clock that bears our mark.
func (c *clockStep) Heal(ctx context.Context) error {
	return undo.CarryOut(ctx, undo.On(c.env.Node), c.owner)
}

// ConfirmHealed shows that all clocks agree.
func (c *clockStep) ConfirmHealed(ctx context.Context) (facts []fault.Fact, err error) {
	err = await.Until(ctx, "the wall clocks of all nodes to agree", time.Second, clockBound,
		func(ctx context.Context) (bool, string, error) {
			seen, state, err := c.compare(ctx, 0)
			facts = seen
			return err == nil && state == "", state, err
		})
	return facts, err
}
