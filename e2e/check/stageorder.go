package check

import (
	"fmt"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// StageOrder judges in which order a volume comes onto a node: attached, then staged, then published.
//
// A step stands on the one before it if a call of that one ended well before the step began, and no call that undoes
// it came in between. What is staged is forgotten when the node boots; what is attached is not. A driver that attaches
// nothing, or stages nothing, has that much less of an order to keep, and the result says so.
func StageOrder() Check {
	return Check{
		Name:    "stage-order",
		Promise: "A volume is staged on a node only once it is attached there, and published only once it is staged.",
		Source: "CSI specification 1.11, Volume Lifecycle: NodeStageVolume after ControllerPublishVolume, " +
			"NodePublishVolume after NodeStageVolume, each for that node",
		Unit:    "calls that stage and publish",
		Applies: onSharedDisk,
		Lacks:   ofOwn(noCalls),
		judge:   judgeStageOrder,
	}
}

func judgeStageOrder(r *ruling) {
	d := r.disks()
	d.judgeCalls(world.RPCStage, world.RPCPublish)
	attaches, stages := len(d.calls.Of(world.RPCAttach)) > 0, len(d.calls.Of(world.RPCStage)) > 0
	if !stages {
		r.note("no NodeStageVolume was called: a driver that stages nothing only publishes")
	}
	for _, c := range d.calls.Of(world.RPCStage, world.RPCPublish) {
		switch {
		case c.Begin == nil:
		case c.RPC == world.RPCStage && attaches:
			d.judgeStep(c, world.RPCAttach, world.RPCDetach, d.calls.Controller)
		case c.RPC == world.RPCPublish && stages:
			d.judgeStep(c, world.RPCStage, world.RPCUnstage, d.calls.Driver)
		case c.RPC == world.RPCPublish && attaches:
			d.judgeStep(c, world.RPCAttach, world.RPCDetach, d.calls.Controller)
		}
	}
}

// stands says of a precondition whether it was met.
type stands int

const (
	standsNot stands = iota
	standsPerhaps
	standsSurely
)

// judgeStep holds that the call c stands on one of method do that no call of method undo took away.
func (d *disks) judgeStep(c *world.Call, do, undo string, w *world.Coverage) {
	state, last := d.standing(c, do, undo)
	name, began := d.name(c), c.Began()
	if state == standsNot && d.blindBefore(c, w) {
		state = standsPerhaps
	}
	switch state {
	case standsPerhaps:
		d.unknown("%s of volume %s on node %s began at %s: whether %s had ended well before is not known", c.RPC,
			name, c.TargetNode(), d.clock(began.NotAfter), do)
	case standsNot:
		state, events := "no "+do+" had ended well for it there", c.Events()
		if last != nil {
			state = fmt.Sprintf("%s had undone that at %s", last.RPC, d.clock(last.Ended().NotAfter))
			events = leading(events, last.Events())
		}
		d.violation(Finding{
			Sentence: fmt.Sprintf("%s of volume %s on node %s began at %s although %s.", c.RPC, name, c.TargetNode(),
				d.clock(began.NotAfter), state),
			Subject: "volume " + name, Node: c.TargetNode(), Span: c.Lasted(), Events: events,
			Faults: d.trial.FaultsIn(began),
		})
	}
}

// standing says whether a call of method do holds when c begins, and which call undid it if not.
func (d *disks) standing(c *world.Call, do, undo string) (stands, *world.Call) {
	state := standsNot
	var by *world.Call
	for _, p := range d.calls.Of(do) {
		if p.Volume != c.Volume || p.TargetNode() != c.TargetNode() || do == world.RPCStage && p.Boot != c.Boot ||
			p.Ended().NotBefore > c.Began().NotAfter || p.End != nil && !p.Succeeded() {
			continue
		}
		surely := p.Succeeded() && p.Ended().NotAfter <= c.Began().NotBefore
		undone := false
		for _, u := range d.calls.Of(undo) {
			if u.Volume != c.Volume || u.TargetNode() != c.TargetNode() || u.End != nil && !u.Succeeded() ||
				u.Ended().NotAfter < p.Began().NotBefore || u.Began().NotBefore > c.Began().NotAfter {
				continue
			}
			surely = false
			if u.Succeeded() && u.Began().NotBefore >= p.Ended().NotAfter && u.Ended().NotAfter <= c.Began().NotBefore {
				undone, by = true, u
			}
		}
		switch {
		case surely:
			return standsSurely, nil
		case !undone:
			state = standsPerhaps
		}
	}
	return state, by
}

// blindBefore reports that the observer whose calls c stands on was blind at some time before c.
func (d *disks) blindBefore(c *world.Call, w *world.Coverage) bool {
	window := history.Span{NotBefore: d.trial.Start, NotAfter: c.Began().NotBefore}
	for node := range w.Sessions {
		if (w != d.calls.Driver || node == c.Node) && len(w.Holes(node, window, d.trial)) > 0 {
			return true
		}
	}
	return len(w.Sessions) == 0 || w == d.calls.Driver && !w.On(c.Node)
}
