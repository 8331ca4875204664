package check

import (
	"slices"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// minListed is how long a node must have listed a volume for the attach-detach controller to know: its watch lags by
// milliseconds. A volume that is first listed as it is detached is a race that the kubelet loses.
const minListed = 10 * time.Second

// DetachInUse judges every VolumeAttachment that was marked for deletion against its node's last status before, by
// resourceVersion, the order in which the API server stored them (KEP-5504), so clocks do not matter.
//
// Kubernetes force-detaches from a node that is not Ready, is gone or has the out-of-service taint. That is documented;
// Mounts and DetachOrder judge what it does to the data.
func DetachInUse() Check {
	return Check{
		Name:    "detach-in-use",
		When:    Continuous,
		Promise: "No VolumeAttachment is deleted while its node, which is Ready, lists the volume in volumesInUse.",
		Source: "Kubernetes, pkg/controller/volume/attachdetach/reconciler: a volume is not detached while it is " +
			"mounted by its node, unless by force; test/e2e/storage/detach_mounted.go",
		Unit: "states of VolumeAttachments",
		Applies: func(p plan.Plan) bool {
			return onSharedDisk(p) && p.Workload.Fencing != plan.FencingUnattached && p.Workload.Attacher == ""
		},
		Lacks: ofOwn(noCalls),
		judge: judgeDetachInUse,
	}
}

const attachmentsObserver = "api/volumeattachments"

func judgeDetachInUse(r *ruling) {
	watch := r.world.Watch()
	r.watched("what it would have told is missing", world.NodesObserver, attachmentsObserver)
	for _, gap := range watch.Gaps[attachmentsObserver] {
		if bound := r.trial.Plan.Bounds.BlindGap.D(); gap.Length() > bound && gap.NotBefore < r.trial.LookedUntil() {
			r.unknown("the observer %s was blind for %s from %s, longer than the bound of %s", attachmentsObserver,
				gap.Length(), r.clock(gap.NotBefore), bound)
		}
	}
	for _, v := range r.world.Volumes().Handled() {
		for _, a := range r.world.Storage().Attachments {
			if v.PV != nil && a.PV == v.Name {
				for range a.States {
					r.judged("volume " + v.Name)
				}
				r.judgeMark(v, a, watch)
			}
		}
	}
}

// judgeMark judges the first state of a VolumeAttachment in which it is marked for deletion.
func (r *ruling) judgeMark(v *world.VolumeLife, a *world.AttachmentLife, watch *world.Watch) {
	i := slices.IndexFunc(a.States, (*world.Attachment).Deleting)
	if i < 0 || !slices.ContainsFunc(a.States[:i], world.Attached) {
		return // A volume that was never attached cannot be in use.
	}
	mark, nodes := a.States[i].Event, r.world.Objects().Nodes.ByKey[a.Node]
	nodes = nodes[:sort.Search(len(nodes), func(k int) bool { return nodes[k].Version > a.States[i].Version })]
	if len(nodes) == 0 {
		return
	}
	now := nodes[len(nodes)-1]
	// A list after a gap shows the state after the gap only.
	blind := func(before, after *history.Event, observer string) bool {
		return watch.Blind(before.Span.NotAfter+1, after.Span.NotAfter, observer)
	}
	if blind(now.Event, mark, world.NodesObserver) || blind(a.States[i-1].Event, mark, attachmentsObserver) {
		r.unknown("whether node %s had volume %s in use when its VolumeAttachment was deleted, by %s, is not known: "+
			"the watch was blind before", a.Node, v.Name, r.clock(mark.Span.NotAfter))
		return
	}
	lists := func(n *world.Node) bool {
		return !n.Deleted() && slices.Contains(n.Status.VolumesInUse, uniqueName(v))
	}
	if !lists(now) || world.NodeReady(now).Status != corev1.ConditionTrue || world.OutOfService(now) {
		return
	}
	for _, n := range slices.Backward(nodes) { // The controller may not have known yet that the node is Ready again.
		if !n.Deleted() && world.NodeReady(n).Status != corev1.ConditionTrue || world.OutOfService(n) {
			return
		}
		if mark.Span.NotBefore.Sub(n.Event.Span.NotAfter) >= world.CacheLag {
			break
		}
	}
	since := now.Event // The first of the unbroken row of states that list it.
	for _, n := range slices.Backward(nodes[:len(nodes)-1]) {
		if !lists(n) || blind(n.Event, since, world.NodesObserver) {
			break
		}
		since = n.Event
	}
	if mark.Span.NotBefore.Sub(since.Span.NotAfter) < minListed {
		r.note("node %s listed volume %s in volumesInUse for less than %s when its VolumeAttachment was deleted",
			a.Node, v.Name, minListed)
		return
	}
	r.violation(Finding{Subject: "volume " + v.Name, Node: a.Node, Span: mark.Span,
		Events: []int64{mark.ID, now.Event.ID, since.ID}}, "The VolumeAttachment of volume %s to node %s was deleted "+
		"by %s while the node, which was Ready, had the volume in use: it was in volumesInUse, without a break since "+
		"%s.", v.Name, a.Node, r.clock(mark.Span.NotAfter), r.clock(since.Span.NotAfter))
}
