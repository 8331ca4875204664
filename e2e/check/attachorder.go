package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
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
		Applies: onSharedDisk,
		Judge:   judgeAttachOrder,
	}
}

// attaching judges; told has the pairs of nodes of which a volume's first breach has been told.
type attaching struct {
	*diskStory
	told map[string]bool
	out  *pulls
}

func judgeAttachOrder(h history.History) Result {
	r := newRuling("calls that attach, detach, stage and publish")
	s, err := setScene(h)
	if err != nil {
		r.unknown("%v", err)
		return r.result()
	}
	a := &attaching{readDisks(h, s, r), map[string]bool{}, readPulls(h, s)}
	a.judgeCalls(rpcAttach, rpcDetach, rpcStage, rpcPublish)
	a.ledger.judge(h, a.window(), s, r)
	table := map[string]*csiCall{} // By volume: the last call that told the table.
	for _, c := range a.log.of(rpcAttach, rpcDetach) {
		if v := a.disks[c.Volume]; v != nil && !v.pv.manyNodes() {
			a.judgeAttach(v, c, table[c.Volume])
		}
		if c.end != nil {
			table[c.Volume] = c
		}
	}
	for _, handle := range a.handles {
		if v := a.disks[handle]; v.pv != nil && !v.pv.manyNodes() {
			a.judgeObjects(v)
		}
	}
	return r.result()
}

func (a *attaching) judgeAttach(v *disk, c, before *csiCall) {
	if c.RPC != rpcAttach || c.begin == nil {
		return
	}
	if c.end == nil {
		if before != nil && slices.ContainsFunc(before.Attached, func(n string) bool { return n != c.target() }) {
			a.ruling.unknown("a call to attach volume %s to node %s was cut off while it was attached to %s", v.name,
				c.target(), strings.Join(before.Attached, " and "))
		}
		return
	}
	attached := slices.Contains(c.Attached, c.target()) || c.ok() && c.Point != "lie"
	if !attached {
		return
	}
	for _, other := range c.Attached {
		if other != c.target() {
			a.blame(v, other, c, c.ended(), fmt.Sprintf("Volume %s was attached to node %s at %s while it was still "+
				"attached to node %s: the driver's table had it on %s afterwards.", v.name, c.target(),
				a.scene.clock(c.end.Span.NotAfter), other, strings.Join(c.Attached, " and ")),
				a.lastDetach(v, other, c))
		}
	}
	for _, life := range v.lives {
		life, _ = a.out.cut(life)
		if life.node != c.target() && life.from <= c.ended().NotBefore && life.to > c.ended().NotAfter {
			a.blame(v, life.node, c, c.ended(), fmt.Sprintf("Volume %s was attached to node %s at %s while node %s "+
				"still had it mounted, as %s.", v.name, c.target(), a.scene.clock(c.end.Span.NotAfter), life.node,
				life), life.events)
		}
	}
}

// lastDetach is the last call to detach the volume from a node that began before c ended.
func (a *attaching) lastDetach(v *disk, node string, c *csiCall) []int64 {
	var ids []int64
	for _, d := range a.log.of(rpcDetach) {
		if d.is(rpcDetach, v.handle, node) && d.began().NotBefore <= c.ended().NotAfter {
			ids = d.events()
		}
	}
	return ids
}

// blame tells the first breach of each pair of nodes.
func (a *attaching) blame(v *disk, other string, c *csiCall, span history.Span, sentence string, more []int64) {
	if a.first(v, other, c.target()) {
		a.ruling.breach(Finding{Promise: AttachOrder().Promise, Sentence: sentence, Subject: "volume " + v.name,
			Node: c.target(), Span: span, Events: leading(c.events(), more), Faults: a.scene.faultsIn(c.during())})
	}
}

func (a *attaching) first(v *disk, one, other string) bool {
	pair := v.handle + "\x00" + min(one, other) + "\x00" + max(one, other)
	defer func() { a.told[pair] = true }()
	return !a.told[pair]
}

// period is a time in which a VolumeAttachment said attached, in resourceVersions; to is 0 when it was not seen to end.
type period struct {
	of       *attachment
	from, to uint64
	begin    *history.Event
	end      *history.Event
}

func (a *attachment) periods() []period {
	var all []period
	var open *period
	for _, s := range a.states {
		switch {
		case s.attached && open == nil:
			open = &period{of: a, from: s.version, begin: s.event}
		case !s.attached && open != nil:
			open.to, open.end = s.version, s.event
			all = append(all, *open)
			open = nil
		}
	}
	if open != nil {
		all = append(all, *open)
	}
	return all
}

// judgeObjects looks for two VolumeAttachments of one volume that were both attached at one resourceVersion.
func (a *attaching) judgeObjects(v *disk) {
	var all []period
	for _, at := range a.objects.attachments {
		if at.pv == v.name {
			all = append(all, at.periods()...)
		}
	}
	for _, p := range all {
		for _, q := range all {
			if p.of.node == q.of.node || p.from > q.from || p.to != 0 && p.to <= q.from || p.from == q.from {
				continue
			}
			if !a.first(v, p.of.node, q.of.node) {
				continue
			}
			span := history.Span{NotBefore: q.begin.Span.NotBefore, NotAfter: q.begin.Span.NotAfter}
			a.ruling.breach(Finding{
				Promise: AttachOrder().Promise,
				Sentence: fmt.Sprintf("Volume %s was attached to node %s at %s, by its VolumeAttachment, while "+
					"that to node %s still said that it was attached.", v.name, q.of.node,
					a.scene.clock(span.NotAfter), p.of.node),
				Subject: "volume " + v.name, Node: q.of.node, Span: span,
				Events: []int64{p.begin.ID, q.begin.ID}, Faults: a.scene.faultsIn(span),
			})
		}
	}
}
