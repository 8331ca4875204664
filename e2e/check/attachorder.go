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
		judge:   judgeAttachOrder,
	}
}

// attaching judges; told has the pairs of nodes of which a volume's first violation has been told.
type attaching struct {
	*disks
	told map[string]bool
	out  *world.Pulls
}

func judgeAttachOrder(r *ruling) {
	a := &attaching{r.disks(), map[string]bool{}, r.world.Pulls()}
	a.judgeCalls(world.RPCAttach, world.RPCDetach, world.RPCStage, world.RPCPublish)
	a.sawMounts(a.window())
	table := map[string]*world.Call{} // By volume: the last call that told the table.
	for _, c := range a.calls.Of(world.RPCAttach, world.RPCDetach) {
		if v := a.volumes.ByHandle(c.Volume); v != nil && !v.PV.ManyNodes() {
			a.judgeAttach(v, c, table[c.Volume])
		}
		if c.End != nil {
			table[c.Volume] = c
		}
	}
	for _, v := range a.volumes.Handled() {
		if v.PV != nil && !v.PV.ManyNodes() {
			a.judgeObjects(v)
		}
	}
}

func (a *attaching) judgeAttach(v *world.VolumeLife, c, before *world.Call) {
	if c.RPC != world.RPCAttach || c.Begin == nil {
		return
	}
	if c.End == nil {
		if before != nil && slices.ContainsFunc(before.Attached, func(n string) bool { return n != c.TargetNode() }) {
			a.unknown("a call to attach volume %s to node %s was cut off while it was attached to %s", v.Name,
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
			a.blame(v, other, c, c.Ended(), fmt.Sprintf("Volume %s was attached to node %s at %s while it was still "+
				"attached to node %s: the driver's table had it on %s afterwards.", v.Name, c.TargetNode(),
				a.clock(c.End.Span.NotAfter), other, strings.Join(c.Attached, " and ")),
				a.lastDetach(v, other, c))
		}
	}
	for _, life := range v.Reaching(a.out) {
		if life.Node != c.TargetNode() && life.From <= c.Ended().NotBefore && life.To > c.Ended().NotAfter {
			a.blame(v, life.Node, c, c.Ended(), fmt.Sprintf("Volume %s was attached to node %s at %s while node %s "+
				"still had it mounted, as %s.", v.Name, c.TargetNode(), a.clock(c.End.Span.NotAfter), life.Node,
				life), life.Events)
		}
	}
}

// lastDetach is the last call to detach the volume from a node that began before c ended.
func (a *attaching) lastDetach(v *world.VolumeLife, node string, c *world.Call) []int64 {
	var ids []int64
	for _, d := range a.calls.Of(world.RPCDetach) {
		if d.Is(world.RPCDetach, v.Handle, node) && d.Began().NotBefore <= c.Ended().NotAfter {
			ids = d.Events()
		}
	}
	return ids
}

// blame tells the first violation of each pair of nodes.
func (a *attaching) blame(v *world.VolumeLife, other string, c *world.Call, span history.Span, sentence string,
	more []int64) {
	if a.first(v, other, c.TargetNode()) {
		a.violation(Finding{Sentence: sentence, Subject: "volume " + v.Name,
			Node: c.TargetNode(), Span: span, Events: leading(c.Events(), more), Faults: a.trial.FaultsIn(c.Lasted())})
	}
}

func (a *attaching) first(v *world.VolumeLife, one, other string) bool {
	pair := v.Name + "\x00" + min(one, other) + "\x00" + max(one, other)
	defer func() { a.told[pair] = true }()
	return !a.told[pair]
}

// judgeObjects looks for two VolumeAttachments of one volume that were both attached at one resourceVersion.
func (a *attaching) judgeObjects(v *world.VolumeLife) {
	var all []world.Period
	for _, at := range a.storage.Attachments {
		if at.PV == v.Name {
			all = append(all, at.Periods()...)
		}
	}
	for _, p := range all {
		for _, q := range all {
			if p.Of.Node == q.Of.Node || p.From > q.From || p.To != 0 && p.To <= q.From || p.From == q.From {
				continue
			}
			if !a.first(v, p.Of.Node, q.Of.Node) {
				continue
			}
			span := history.Span{NotBefore: q.Begin.Span.NotBefore, NotAfter: q.Begin.Span.NotAfter}
			a.violation(Finding{
				Sentence: fmt.Sprintf("Volume %s was attached to node %s at %s, by its VolumeAttachment, while "+
					"that to node %s still said that it was attached.", v.Name, q.Of.Node,
					a.clock(span.NotAfter), p.Of.Node),
				Subject: "volume " + v.Name, Node: q.Of.Node, Span: span,
				Events: []int64{p.Begin.ID, q.Begin.ID},
			})
		}
	}
}
