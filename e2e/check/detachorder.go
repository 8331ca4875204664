package check

import (
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// DetachOrder judges every call that detaches a volume from a node against the mounts on that node at that time, of the
// node itself or within a container.
//
// A call detaches if it succeeds, or if the driver's table of attachments no longer has the node afterwards. A mount
// counts if it certainly existed throughout the time in which the call began: the driver may act at any time after
// that. If the ledger leaves it open, an earlier successful NodeUnstageVolume or NodeUnpublishVolume decides.
//
// A storage that pulls the disk out of the node on detach still breaks the order. The pull saves the disk from a second
// writer (see Mounts), but not the database that had it mounted.
func DetachOrder() Check {
	return Check{
		Name:    "detach-order",
		When:    Continuous,
		Promise: "No volume is detached from a node that still has it mounted.",
		Source: "CSI specification 1.11, ControllerUnpublishVolume: only after NodeUnstageVolume and " +
			"NodeUnpublishVolume have succeeded on that node; kubernetes/kubernetes issues 61832, 120328 and 121937",
		Unit:    "calls that attach, detach, stage and publish",
		Applies: onSharedDisk,
		Lacks:   ofOwn(noCalls),
		judge:   judgeDetachOrder,
	}
}

func judgeDetachOrder(r *ruling) {
	r.judgeCalls(world.RPCAttach, world.RPCDetach, world.RPCStage, world.RPCPublish)
	r.sawMounts(r.window())
	table := map[string][]string{} // By volume: the nodes that it was attached to after the last call.
	for _, c := range r.world.Calls().Of(world.RPCAttach, world.RPCDetach) {
		if c.RPC == world.RPCDetach && c.Begin != nil {
			r.judgeDetach(c, c.Detached(table[c.Volume]))
		}
		if c.End != nil {
			table[c.Volume] = c.Attached
		}
	}
}

func (r *ruling) judgeDetach(c *world.Call, detached bool) {
	v := r.world.Volumes().ByHandle(c.Volume)
	if v == nil || !detached && c.End != nil {
		return // The call did nothing.
	}
	began := c.Began()
	var certain, perhaps []*world.Mount
	for _, life := range v.Mounts {
		switch {
		case life.Node != c.TargetNode() || life.MaybeFrom > began.NotAfter || life.MaybeTo <= began.NotBefore:
		case life.From <= began.NotBefore && life.To > began.NotAfter:
			certain = append(certain, life)
		case life.Holder != "" || !r.unstaged(c, life):
			perhaps = append(perhaps, life)
		}
	}
	switch {
	case len(certain) > 0 && detached:
		r.blameDetach(v, c, certain)
	case len(certain)+len(perhaps) > 0 && !detached:
		r.unknown("a call to detach volume %s from node %s began at %s, when the node may have had it mounted, "+
			"and was cut off: whether it was detached is not known", v.Name, c.TargetNode(), r.clock(began.NotAfter))
	case len(perhaps) > 0:
		r.unknown("volume %s may still have been mounted as %s when it was detached at %s", v.Name, perhaps[0],
			r.clock(began.NotAfter))
	}
}

// unstaged reports whether the node's driver had certainly taken down a mount before a call began.
func (r *ruling) unstaged(c *world.Call, life *world.Mount) bool {
	took := func(u *world.Call) bool {
		return u.Took() && u.Began().NotBefore >= life.From && u.Ended().NotAfter < c.Began().NotBefore
	}
	calls, node := r.world.Calls(), c.TargetNode()
	return slices.ContainsFunc(calls.On(world.RPCUnstage, c.Volume, node), took) ||
		slices.ContainsFunc(calls.On(world.RPCUnpublish, c.Volume, node), func(u *world.Call) bool {
			return took(u) && slices.Contains(life.Paths, u.Target)
		})
}

func (r *ruling) blameDetach(v *world.VolumeLife, c *world.Call, mounts []*world.Mount) {
	inUse, because := r.volumesInUse(v, c.TargetNode(), c.Began().NotBefore)
	wanted, marked := r.detachWanted(v, c.TargetNode(), c.Ended().NotAfter)
	events := slices.Concat(c.Events(), because, marked)
	var names []string
	until := mounts[0].To
	for _, life := range mounts {
		until = max(until, life.To)
		events = append(events, life.Events...)
		names = append(names, life.String())
	}
	r.violation(Finding{Subject: "volume " + v.Name, Node: c.TargetNode(),
		Span:   history.Span{NotBefore: c.Began().NotBefore, NotAfter: max(until, c.Began().NotAfter)},
		Events: leading(c.Events(), events), Faults: r.trial.FaultsIn(c.Lasted())},
		"Volume %s was detached from node %s at %s while the node still had it mounted, at least until %s, as %s: "+
			"%s, %s.", v.Name, c.TargetNode(), r.clock(c.Began().NotBefore), r.clock(until),
		strings.Join(names[:min(len(names), 3)], " and as "), wanted, inUse)
}
