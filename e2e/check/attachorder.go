package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// AttachOrder judges whether a volume was on one node at a time, as far as attaching goes: by the driver's own table
// of attachments, by what was mounted elsewhere when a call to attach ended well, and by the VolumeAttachments. A mount
// of a disk that was pulled out of its node, and shown to be, is not mounted elsewhere: such a volume is detached from
// that node more surely than by any table.
//
// Two VolumeAttachments of one volume are compared by resourceVersion, which is the order in which the API server
// stored them (KEP-5504): no clock comes into it.
func AttachOrder() Check {
	return Check{
		Name:    "attach-order",
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
	d := r.disks()
	d.judgeCalls(world.RPCAttach, world.RPCDetach, world.RPCStage, world.RPCPublish)
	d.sawMounts(d.window())
	table := map[string]*world.Call{} // By volume: the last call that told the table.
	for _, c := range d.calls.Of(world.RPCAttach, world.RPCDetach) {
		if v := d.volumes.ByHandle(c.Volume); v != nil && !v.PV.ManyNodes() {
			d.judgeAttach(v, c, table[c.Volume])
		}
		if c.End != nil {
			table[c.Volume] = c
		}
	}
	for _, v := range d.volumes.Handled() {
		if v.PV != nil && !v.PV.ManyNodes() {
			d.judgeObjects(v)
		}
	}
}

func (d *disks) judgeAttach(v *world.VolumeLife, c, before *world.Call) {
	if c.RPC != world.RPCAttach || c.Begin == nil {
		return
	}
	if c.End == nil {
		if before != nil && slices.ContainsFunc(before.Attached, func(n string) bool { return n != c.TargetNode() }) {
			d.unknown("a call to attach volume %s to node %s was cut off while it was attached to %s", v.Name,
				c.TargetNode(), strings.Join(before.Attached, " and "))
		}
		return
	}
	attached := slices.Contains(c.Attached, c.TargetNode()) || c.Took()
	if !attached {
		return
	}
	for _, other := range c.Attached {
		if other != c.TargetNode() {
			d.blameTwo(v, other, c, c.Ended(), fmt.Sprintf("Volume %s was attached to node %s at %s while it was "+
				"still attached to node %s: the driver's table had it on %s afterwards.", v.Name, c.TargetNode(),
				d.clock(c.End.Span.NotAfter), other, strings.Join(c.Attached, " and ")),
				d.lastDetach(v, other, c))
		}
	}
	for _, life := range v.Reaching(d.world.Pulls()) {
		if life.Node != c.TargetNode() && life.From <= c.Ended().NotBefore && life.To > c.Ended().NotAfter {
			d.blameTwo(v, life.Node, c, c.Ended(), fmt.Sprintf("Volume %s was attached to node %s at %s while node %s "+
				"still had it mounted, as %s.", v.Name, c.TargetNode(), d.clock(c.End.Span.NotAfter), life.Node,
				life), life.Events)
		}
	}
}

// lastDetach is the last call to detach the volume from a node that began before c ended.
func (d *disks) lastDetach(v *world.VolumeLife, node string, c *world.Call) []int64 {
	var ids []int64
	for _, d := range d.calls.Of(world.RPCDetach) {
		if d.Is(world.RPCDetach, v.Handle, node) && d.Began().NotBefore <= c.Ended().NotAfter {
			ids = d.Events()
		}
	}
	return ids
}

// blameTwo tells the first violation of each pair of nodes.
func (d *disks) blameTwo(v *world.VolumeLife, other string, c *world.Call, span history.Span, sentence string,
	more []int64) {
	if d.firstOf(v, other, c.TargetNode()) {
		d.violation(Finding{Sentence: sentence, Subject: "volume " + v.Name,
			Node: c.TargetNode(), Span: span, Events: leading(c.Events(), more), Faults: d.trial.FaultsIn(c.Lasted())})
	}
}

func (r *ruling) firstOf(v *world.VolumeLife, one, other string) bool {
	return r.first(v.Name, min(one, other), max(one, other))
}

// judgeObjects looks for two VolumeAttachments of one volume that were both attached at one resourceVersion.
func (d *disks) judgeObjects(v *world.VolumeLife) {
	var all []world.Period
	for _, at := range d.storage.Attachments {
		if at.PV == v.Name {
			all = append(all, at.Periods()...)
		}
	}
	for _, p := range all {
		for _, q := range all {
			if p.Of.Node == q.Of.Node || p.From > q.From || p.To != 0 && p.To <= q.From || p.From == q.From {
				continue
			}
			if !d.firstOf(v, p.Of.Node, q.Of.Node) {
				continue
			}
			span := q.Begin.Span
			d.violation(Finding{
				Sentence: fmt.Sprintf("Volume %s was attached to node %s at %s, by its VolumeAttachment, while "+
					"that to node %s still said that it was attached.", v.Name, q.Of.Node,
					d.clock(span.NotAfter), p.Of.Node),
				Subject: "volume " + v.Name, Node: q.Of.Node, Span: span,
				Events: []int64{p.Begin.ID, q.Begin.ID},
			})
		}
	}
}
