package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// ClockStep steps the wall clock of the victim's node. The boot clock, which timers use, does not change, and the undo
// restores the wall clock from it.
//
// The nodes of a kind cluster share the host's kernel and wall clock, so a plan for kind is refused. The fault also
// refuses nodes with the same boot id. It has run on the fake cluster only.
func ClockStep() fault.Definition {
	return fault.Define(fault.Definition{
		Name:    "clock-step",
		Summary: "Sets the wall clock of the victim's node forward or back.",
		Shown: "The wall clock differs by the offset from the boot clock and from the other nodes' wall clocks, " +
			"which are unchanged.",
		Healed:   "The wall clock is set back by the boot clock, and agrees with those of the other nodes.",
		Needs:    []string{"clock", "systemd"},
		Takes:    []plan.Part{plan.PartClock},
		Upstream: "client-go#448",
		Example:  plan.Params{"offset": plan.Duration(time.Hour)},
	}, func(p clockStepParams, _ plan.Fault, env fault.Env) (fault.Fault, error) {
		return &clockStep{Env: env, by: p.Offset.D()}, nil
	})
}

type clockStepParams struct {
	Offset plan.Duration `json:"offset"` // Added to the clock; a negative offset sets it back.
}

// The limits of a step: larger than the clocks' usual difference, smaller than the lifetime of certificates.
const (
	minOffset = 2 * time.Second
	maxOffset = 12 * time.Hour
)

func (p clockStepParams) Validate(plan.Setting) (errs plan.FieldErrors) {
	if by := p.Offset.D(); by < -maxOffset || by > maxOffset || by > -minOffset && by < minOffset {
		errs.Add("offset", fmt.Sprintf("use %s to %s, or as much with a minus", minOffset, maxOffset),
			"%s is out of range", p.Offset)
	}
	return errs
}

// clockSlack is how far apart synchronized clocks may be: the time between two readings and the error of NTP.
const clockSlack = 500 * time.Millisecond

// clockBound is how long all clocks may take to agree after the heal.
const clockBound = 20 * time.Second

type clockStep struct {
	fault.Env
	by    time.Duration
	mine  probe.Clock            // Before the step.
	other map[string]probe.Clock // Before the step, by node name.
}

// others returns the other nodes; it is an error if there is none.
func (c *clockStep) others(ctx context.Context) ([]clusters.Node, error) {
	others, err := c.Others(ctx)
	if err == nil && len(others) == 0 {
		err = errors.New("list nodes: there is no other node to compare clocks with")
	}
	return others, err
}

// clocks reads the clocks of the other nodes, by name.
func (c *clockStep) clocks(ctx context.Context) (map[string]probe.Clock, error) {
	others, err := c.others(ctx)
	if err != nil {
		return nil, err
	}
	clocks := map[string]probe.Clock{}
	for _, n := range others {
		if clocks[n.Name()], err = nodeagent.On(n).Clock(ctx); err != nil {
			return nil, err
		}
	}
	return clocks, nil
}

// Undo records all clocks, and fails if the victim shares its clock with another node.
func (c *clockStep) Undo(ctx context.Context) ([]undo.Task, error) {
	var err error
	if c.mine, err = nodeagent.On(c.Node).Clock(ctx); err != nil {
		return nil, err
	}
	if c.other, err = c.clocks(ctx); err != nil {
		return nil, err
	}
	for name, read := range c.other {
		if read.Boot == c.mine.Boot {
			return nil, fmt.Errorf("step the clock of node %q: it shares its kernel, and so its clock, with node %q "+
				"(boot %s)", c.Node.Name(), name, read.Boot)
		}
	}
	return c.Here(undo.Command(undo.SetClock(c.mine.Ahead(), c.mine.Boot)...)), nil
}

// Inject checks that the clocks agree, then steps the victim's.
func (c *clockStep) Inject(ctx context.Context) error {
	if _, err := c.off(0)(ctx); err != nil {
		return fmt.Errorf("the clocks must agree before the step: %w", err)
	}
	_, err := clusters.Run(ctx, c.Node, undo.SetClock(c.mine.Ahead()+c.by, c.mine.Boot)...)
	return err
}

// off checks that the victim's wall clock differs by want from every other node's, each read before and after it.
func (c *clockStep) off(want time.Duration) fault.Show {
	return func(ctx context.Context) ([]fault.Fact, error) {
		others, err := c.others(ctx)
		if err != nil {
			return nil, err
		}
		var facts []fault.Fact
		for _, n := range others {
			begin := c.Clock()
			var read [3]probe.Clock
			for i, node := range []clusters.Node{n, c.Node, n} {
				if read[i], err = nodeagent.On(node).Clock(ctx); err != nil {
					return facts, err
				}
			}
			least, most := time.Duration(read[1].Wall-read[2].Wall), time.Duration(read[1].Wall-read[0].Wall)
			text := fmt.Sprintf("its wall clock is between %s and %s off that of node %q", round(least), round(most),
				n.Name())
			if least > want+clockSlack || most < want-clockSlack {
				return facts, fault.NotYet("%s", text)
			}
			facts = append(facts, c.Saw(begin, "%s", text)...)
		}
		return facts, nil
	}
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }

// Confirm shows that the victim's clock was stepped, and no other.
func (c *clockStep) Confirm(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx, c.stepped, c.Held)
}

// stepped shows by how much the victim's clock was stepped. It is an error if another node's was.
func (c *clockStep) stepped(ctx context.Context) ([]fault.Fact, error) {
	begin := c.Clock()
	now, err := nodeagent.On(c.Node).Clock(ctx)
	if err != nil {
		return nil, err
	}
	stepped := now.Ahead() - c.mine.Ahead()
	if (stepped - c.by).Abs() > clockSlack {
		return nil, fmt.Errorf("the wall clock was set by %s, not by %s", round(stepped), c.by)
	}
	facts := c.Saw(begin, "the wall clock was set by %s, to %s", round(stepped), now.Time().Format(time.RFC3339))
	others, err := c.clocks(ctx)
	if err != nil {
		return facts, err
	}
	for name, read := range others {
		if moved := read.Ahead() - c.other[name].Ahead(); moved.Abs() > clockSlack {
			return facts, fmt.Errorf("the wall clock of node %q was set by %s as well", name, round(moved))
		}
	}
	return facts, nil
}

// Held checks that the clock is still off: the node's time service may have corrected it.
func (c *clockStep) Held(ctx context.Context) ([]fault.Fact, error) { return c.off(c.by)(ctx) }

func (c *clockStep) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	return fault.Until(ctx, "the wall clocks of all nodes to agree", time.Second, clockBound, c.off(0))
}
