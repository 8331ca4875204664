package check

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/e2e/world"
)

// informed is how long a node must have listed a volume for the controller to know: its watch lags by milliseconds. A
// volume that is listed at the moment in which it is detached is a race that the kubelet loses.
const informed = 10 * time.Second

// DetachInUse judges every VolumeAttachment that was marked for deletion against what its node said last, by
// resourceVersion, which is the order in which the API server stored them (KEP-5504): no clock comes into it.
//
// A node that is not Ready, that is gone or that has the out-of-service taint is detached by force: that is documented,
// and what it does to the data is for Mounts and DetachOrder to judge.
func DetachInUse() Check {
	return Check{
		Name:    "detach-in-use",
		Promise: "No VolumeAttachment is deleted while its node, which is Ready, lists the volume in volumesInUse.",
		Source: "Kubernetes, pkg/controller/volume/attachdetach/reconciler: a volume is not detached while it is " +
			"mounted by its node, unless by force; test/e2e/storage/detach_mounted.go",
		Unit:    "states of VolumeAttachments",
		Applies: onSharedDisk,
		Lacks:   ofOwn(noCalls),
		judge:   judgeDetachInUse,
	}
}

const attachmentsObserver = "api/volumeattachments"

func judgeDetachInUse(r *ruling) {
	d := r.disks()
	watch := d.world.Watch()
	for _, name := range []string{world.NodesObserver, attachmentsObserver} {
		if !watch.On(name) {
			d.unknown("the observer %s was never on: what it would have told is missing", name)
		}
	}
	for _, gap := range watch.Gaps[attachmentsObserver] {
		if bound := d.trial.Plan.Bounds.BlindGap.D(); gap.Length() > bound && gap.NotBefore < d.trial.LookedUntil() {
			d.unknown("the observer %s was blind for %s from %s, longer than the bound of %s", attachmentsObserver,
				gap.Length(), d.clock(gap.NotBefore), bound)
		}
	}
	for _, v := range d.volumes.Handled() {
		for _, a := range d.storage.Attachments {
			if v.PV != nil && a.PV == v.Name {
				d.evidence += len(a.States)
				d.looked("volume " + v.Name)
				d.judgeMark(v, a, watch)
			}
		}
	}
}

// judgeMark judges the first state of a VolumeAttachment in which it is marked for deletion.
func (d *disks) judgeMark(v *world.VolumeLife, a *world.AttachmentLife, watch *world.Watch) {
	i := slices.IndexFunc(a.States, (*world.Attachment).Deleting)
	if i < 0 || !slices.ContainsFunc(a.States[:i], world.Attached) {
		return // What was not attached, the node cannot have had in use.
	}
	mark := a.States[i]
	node, since := d.listing(v, a.Node, mark)
	if node == nil {
		return
	}
	if watch.Blind(node.Event.Span.NotBefore, mark.Event.Span.NotAfter, world.NodesObserver, attachmentsObserver) {
		d.unknown("whether node %s had volume %s in use when its VolumeAttachment was deleted, by %s, is not known: "+
			"the watch was blind before", a.Node, v.Name, d.clock(mark.Event.Span.NotAfter))
		return
	}
	if mark.Event.Span.NotBefore.Sub(since.Event.Span.NotAfter) < informed {
		d.note("node %s listed volume %s in volumesInUse for less than %s when its VolumeAttachment was deleted",
			a.Node, v.Name, informed)
		return
	}
	d.violation(Finding{
		Sentence: fmt.Sprintf("The VolumeAttachment of volume %s to node %s was deleted by %s while the node, which "+
			"was Ready, had the volume in use: it was in volumesInUse, without a break since %s.", v.Name, a.Node,
			d.clock(mark.Event.Span.NotAfter), d.clock(since.Event.Span.NotAfter)),
		Subject: "volume " + v.Name, Node: a.Node, Span: mark.Event.Span,
		Events: []int64{mark.Event.ID, node.Event.ID, since.Event.ID},
	})
}

// listing returns the state that a node had when a VolumeAttachment was marked, and the first of the states without a
// break in which it listed the volume; nil if it did not list it then, or may be detached from by force.
func (d *disks) listing(v *world.VolumeLife, name string, mark *world.Attachment) (now, since *world.Node) {
	states := d.world.Objects().Nodes.ByKey[name]
	i := len(states) - 1
	for i >= 0 && states[i].Version > mark.Version {
		i--
	}
	if i < 0 || states[i].Deleted() || !sound(states[i]) {
		return nil, nil
	}
	first := i + 1
	for first > 0 && slices.Contains(states[first-1].Status.VolumesInUse, uniqueName(v)) {
		first--
	}
	if first > i {
		return nil, nil
	}
	return states[i], states[first]
}

// sound reports whether a node is Ready and not out of service: nothing is detached from it by force.
func sound(n *world.Node) bool {
	ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	return ready && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeOutOfService
	})
}
