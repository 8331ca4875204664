package check

import (
	"fmt"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// DetachOrder judges every call that detaches a volume from a node against what that node had mounted then: itself,
// or within a container.
//
// A detach is one that was answered with success, or after which the driver's table of attachments no longer has the
// node. Mounted is what was certainly there when the call certainly began: the driver may act at any time after that.
// Where the ledger leaves it open, a call of NodeUnstageVolume that ended well before settles it.
//
// That the storage pulls the disk out of the node when it is told to detach changes nothing: the order was broken when
// the call came. It saves what is on the disk from a second writer (Mounts), and not the database that had it mounted.
func DetachOrder() Check {
	return Check{
		Name:    "detach-order",
		Promise: "No volume is detached from a node that still has it mounted.",
		Source: "CSI specification 1.11, ControllerUnpublishVolume: only after NodeUnstageVolume and " +
			"NodeUnpublishVolume have succeeded on that node; kubernetes/kubernetes issues 61832, 120328 and 121937",
		Applies: onSharedDisk,
		Judge:   judgeDetachOrder,
	}
}

func judgeDetachOrder(h *world.World) Result {
	r := newRuling("calls that attach, detach, stage and publish")
	s, err := h.Trial()
	if err != nil {
		r.unknown("%v", err)
		return r.result()
	}
	d := readDisks(h, s, r)
	d.judgeCalls(world.RPCAttach, world.RPCDetach, world.RPCStage, world.RPCPublish)
	judgeLedger(d.ledger, h, d.window(), s, r)
	table := map[string][]string{} // By volume: which nodes it was attached to after the last call.
	for _, c := range d.log.Of(world.RPCAttach, world.RPCDetach) {
		if c.RPC == world.RPCDetach && c.Begin != nil {
			d.judgeDetach(c, c.Detached(table[c.Volume]))
		}
		if c.End != nil {
			table[c.Volume] = c.Attached
		}
	}
	return r.result()
}

func (d *diskStory) judgeDetach(c *world.Call, detached bool) {
	v := d.disks[c.Volume]
	if v == nil || !detached && c.End != nil {
		return // It did nothing.
	}
	began := c.Began()
	var certain, perhaps []*world.Mount
	for _, life := range v.lives {
		switch {
		case life.Node != c.TargetNode() || life.MaybeFrom > began.NotAfter || life.MaybeTo <= began.NotBefore:
		case life.From <= began.NotBefore && life.To > began.NotAfter:
			certain = append(certain, life)
		case life.Holder != "" || !d.unstaged(c, life):
			perhaps = append(perhaps, life)
		}
	}
	switch {
	case len(certain) > 0 && detached:
		d.blameDetach(v, c, certain)
	case len(certain)+len(perhaps) > 0 && !detached:
		d.ruling.unknown("a call to detach volume %s from node %s began at %s, when the node may have had it mounted, "+
			"and was cut off: whether it was detached is not known", v.name, c.TargetNode(),
			d.scene.Clock(began.NotAfter))
	case len(perhaps) > 0:
		d.ruling.unknown("volume %s may still have been mounted as %s when it was detached at %s", v.name, perhaps[0],
			d.scene.Clock(began.NotAfter))
	}
}

// unstaged reports that the node's driver had taken a mount down before a call began.
func (d *diskStory) unstaged(c *world.Call, life *world.Mount) bool {
	return slices.ContainsFunc(d.log.Of(world.RPCUnstage, world.RPCUnpublish), func(u *world.Call) bool {
		return u.Volume == c.Volume && u.TargetNode() == c.TargetNode() && u.Ok() && u.Point != "lie" &&
			u.Began().NotBefore >= life.From && u.Ended().NotAfter < c.Began().NotBefore
	})
}

func (d *diskStory) blameDetach(v *disk, c *world.Call, mounts []*world.Mount) {
	inUse, because := d.volumesInUse(v, c.TargetNode(), c.Began().NotBefore)
	wanted, marked := d.detachWanted(v, c.TargetNode(), c.Ended().NotAfter)
	events := slices.Concat(c.Events(), because, marked)
	paths := ""
	until := mounts[0].To
	for i, life := range mounts {
		until = max(until, life.To)
		events = append(events, life.Events...)
		switch {
		case i == 0:
			paths = life.String()
		case i < 3:
			paths += " and as " + life.String()
		}
	}
	span := history.Span{NotBefore: c.Began().NotBefore, NotAfter: max(until, c.Began().NotAfter)}
	d.ruling.breach(Finding{
		Promise: DetachOrder().Promise,
		Sentence: fmt.Sprintf("Volume %s was detached from node %s at %s while the node still had it mounted, at "+
			"least until %s, as %s: %s, %s.", v.name, c.TargetNode(), d.scene.Clock(c.Began().NotBefore),
			d.scene.Clock(until), paths, wanted, inUse),
		Subject: "volume " + v.name, Node: c.TargetNode(), Span: span, Events: leading(c.Events(), events),
		Faults: d.scene.FaultsIn(c.Lasted()),
	})
}

// leading returns events of which the first few are kept as proof, those that must not be missing among them.
func leading(first, rest []int64) []int64 {
	out := slices.Clone(first)
	for _, id := range rest {
		if len(out) < maxProof && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}
