package check

import (
	"slices"
	"strings"

	"github.com/seatrial/seatrial/e2e/world"
)

// AttachOrder judges whether a volume was attached to one node at a time, by the driver's own table of attachments, by
// the mounts on other nodes when a call to attach succeeded, and by the VolumeAttachments. A mount of a disk that was
// provably pulled out of its node does not count: no table detaches a volume more surely.
//
// Two VolumeAttachments of one volume are compared by resourceVersion, the order in which the API server stored them
// (KEP-5504), so clocks do not matter.
func AttachOrder() Check {
	return Check{
		Name:    "attach-order",
		When:    Continuous,
		Promise: "No volume is attached to a second node before it was detached from the first.",
		Source: "Kubernetes documentation, Persistent Volumes, access mode ReadWriteOnce; CSI specification 1.11, " +
			"ControllerPublishVolume, volume published to another node; kubernetes/kubernetes pull request 124334",
		Unit:    "calls that attach, detach, stage and publish",
		Applies: onSharedDisk,
		Lacks:   ofOwn(noCalls),
		judge:   judgeAttachOrder,
	}
}

func judgeAttachOrder(r *ruling) {
	r.judgeCalls(world.RPCAttach, world.RPCDetach, world.RPCStage, world.RPCPublish)
	r.sawMounts(r.window())
	table := map[string]*world.Call{} // By volume: the last call with an end, which carries the driver's table.
	for _, c := range r.world.Calls().Of(world.RPCAttach, world.RPCDetach) {
		v := r.world.Volumes().ByHandle(c.Volume)
		if c.RPC == world.RPCAttach && c.Begin != nil && v != nil && !v.PV.ManyNodes() {
			r.judgeAttach(v, c, table[c.Volume])
		}
		if c.End != nil {
			table[c.Volume] = c
		}
	}
	for _, v := range r.world.Volumes().Handled() {
		if v.PV != nil && !v.PV.ManyNodes() {
			r.judgeObjects(v)
		}
	}
}

func (r *ruling) judgeAttach(v *world.VolumeLife, c, before *world.Call) {
	node := c.TargetNode()
	if c.End == nil {
		if before != nil && slices.ContainsFunc(before.Attached, func(n string) bool { return n != node }) {
			r.unknown("a call to attach volume %s to node %s was cut off while it was attached to %s", v.Name, node,
				strings.Join(before.Attached, " and "))
		}
		return
	}
	if !slices.Contains(c.Attached, node) && !c.Took() {
		return
	}
	at := r.clock(c.End.Span.NotAfter)
	for _, other := range c.Attached {
		if other == node || !r.firstOf(v, other, node) {
			continue
		}
		var last []int64 // Events of the last call to detach it from there.
		for _, d := range r.world.Calls().On(world.RPCDetach, v.Handle, other) {
			if d.Began().NotBefore <= c.Ended().NotAfter {
				last = d.Events()
			}
		}
		r.blameTwo(v, c, last, "Volume %s was attached to node %s at %s while it was still attached to node %s: "+
			"the driver's table had it on %s afterwards.", v.Name, node, at, other, strings.Join(c.Attached, " and "))
	}
	for _, life := range v.Reaching(r.world.Pulls()) {
		if life.Node != node && life.From <= c.Ended().NotBefore && life.To > c.Ended().NotAfter &&
			r.firstOf(v, life.Node, node) {
			r.blameTwo(v, c, life.Events, "Volume %s was attached to node %s at %s while node %s still had it "+
				"mounted, as %s.", v.Name, node, at, life.Node, life)
		}
	}
}

func (r *ruling) blameTwo(v *world.VolumeLife, c *world.Call, more []int64, format string, args ...any) {
	r.violation(Finding{Subject: "volume " + v.Name, Node: c.TargetNode(), Span: c.Ended(),
		Events: leading(c.Events(), more), Faults: r.trial.FaultsIn(c.Lasted())}, format, args...)
}

// firstOf reports whether nothing was reported yet about a volume and these two nodes.
func (r *ruling) firstOf(v *world.VolumeLife, one, other string) bool {
	return r.first(v.Name, min(one, other), max(one, other))
}

// judgeObjects reports two VolumeAttachments of one volume that were both attached at one resourceVersion.
func (r *ruling) judgeObjects(v *world.VolumeLife) {
	var all []world.Period
	for _, at := range r.world.Storage().Attachments {
		if at.PV == v.Name {
			all = append(all, at.Periods()...)
		}
	}
	for _, p := range all {
		for _, q := range all {
			if p.Of.Node == q.Of.Node || p.From >= q.From || p.To != 0 && p.To <= q.From ||
				!r.firstOf(v, p.Of.Node, q.Of.Node) {
				continue
			}
			r.violation(Finding{Subject: "volume " + v.Name, Node: q.Of.Node, Span: q.Begin.Span,
				Events: []int64{p.Begin.ID, q.Begin.ID}}, "Volume %s was attached to node %s at %s, by its "+
				"VolumeAttachment, while that to node %s still said that it was attached.", v.Name, q.Of.Node,
				r.clock(q.Begin.Span.NotAfter), p.Of.Node)
		}
	}
}
