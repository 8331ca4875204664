package check

import (
	"fmt"

	"github.com/seatrial/seatrial/chaos/history"
)

// StageOrder judges the way of a volume onto a node: attached, then staged, then published.
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
		Applies: onSharedDisk,
		Judge:   judgeStageOrder,
	}
}

func judgeStageOrder(h history.History) Result {
	r := newRuling("calls that stage and publish")
	s, err := setScene(h)
	if err != nil {
		r.unknown("%v", err)
		return r.result()
	}
	d := readDisks(h, s, r)
	d.judgeCalls(rpcStage, rpcPublish)
	attaches, stages := len(d.log.of(rpcAttach)) > 0, len(d.log.of(rpcStage)) > 0
	if !stages {
		r.note("no NodeStageVolume was called: a driver that stages nothing only publishes")
	}
	for _, c := range d.log.of(rpcStage, rpcPublish) {
		switch {
		case c.begin == nil:
		case c.RPC == rpcStage && attaches:
			d.judgeStep(c, rpcAttach, rpcDetach, d.log.controller)
		case c.RPC == rpcPublish && stages:
			d.judgeStep(c, rpcStage, rpcUnstage, d.log.driver)
		case c.RPC == rpcPublish && attaches:
			d.judgeStep(c, rpcAttach, rpcDetach, d.log.controller)
		}
	}
	return r.result()
}

// stands says of a precondition whether it was met.
type stands int

const (
	standsNot stands = iota
	standsPerhaps
	standsSurely
)

// judgeStep holds that the call c stands on one of method do that no call of method undo took away.
func (d *diskStory) judgeStep(c *csiCall, do, undo string, w *sight) {
	state, last := d.standing(c, do, undo)
	name := c.Volume
	if v := d.disks[c.Volume]; v != nil {
		name = v.name
	}
	began := c.began()
	if state == standsNot && d.blindBefore(c, w) {
		state = standsPerhaps
	}
	switch state {
	case standsPerhaps:
		d.ruling.unknown("%s of volume %s on node %s began at %s: whether %s had ended well before is not known", c.RPC,
			name, c.target(), d.scene.clock(began.NotAfter), do)
	case standsNot:
		state, events := "no "+do+" had ended well for it there", c.events()
		if last != nil {
			state = fmt.Sprintf("%s had undone that at %s", last.RPC, d.scene.clock(last.ended().NotAfter))
			events = leading(events, last.events())
		}
		d.ruling.breach(Finding{
			Promise: StageOrder().Promise,
			Sentence: fmt.Sprintf("%s of volume %s on node %s began at %s although %s.", c.RPC, name, c.target(),
				d.scene.clock(began.NotAfter), state),
			Subject: "volume " + name, Node: c.target(), Span: c.during(), Events: events,
			Faults: d.scene.faultsIn(began),
		})
	}
}

// standing says whether a call of method do holds when c begins, and which call undid it if not.
func (d *diskStory) standing(c *csiCall, do, undo string) (stands, *csiCall) {
	state := standsNot
	var by *csiCall
	for _, p := range d.log.of(do) {
		if p.Volume != c.Volume || p.target() != c.target() || do == rpcStage && p.Boot != c.Boot ||
			p.ended().NotBefore > c.began().NotAfter || p.end != nil && !p.ok() {
			continue
		}
		surely := p.ok() && p.ended().NotAfter <= c.began().NotBefore
		undone := false
		for _, u := range d.log.of(undo) {
			if u.Volume != c.Volume || u.target() != c.target() || u.end != nil && !u.ok() ||
				u.ended().NotAfter < p.began().NotBefore || u.began().NotBefore > c.began().NotAfter {
				continue
			}
			surely = false
			if u.ok() && u.began().NotBefore >= p.ended().NotAfter && u.ended().NotAfter <= c.began().NotBefore {
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
func (d *diskStory) blindBefore(c *csiCall, w *sight) bool {
	window := history.Span{NotBefore: d.scene.start, NotAfter: c.began().NotBefore}
	for node := range w.runs {
		if (w != d.log.driver || node == c.Node) && len(w.holes(node, window, d.scene)) > 0 {
			return true
		}
	}
	return len(w.runs) == 0 || w == d.log.driver && !w.on(c.Node)
}
