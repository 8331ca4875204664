package check

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// onSharedDisk reports that the plan puts the workload on disks that are attached.
func onSharedDisk(w *world.World) bool {
	return planned(func(p plan.Plan) bool { return p.Workload.StorageName() == plan.StorageSharedDisk })(w)
}

// window is from when anything of a driver's volume was first seen to when the observers stopped.
func (r *ruling) window() history.Span {
	var moments []history.Time
	for _, c := range r.world.Calls().Of(world.RPCAttach, world.RPCDetach, world.RPCStage, world.RPCUnstage,
		world.RPCPublish, world.RPCUnpublish) {
		if c.Begin != nil {
			moments = append(moments, c.Begin.Span.NotBefore)
		}
	}
	for _, v := range r.world.Volumes().Handled() {
		for _, m := range v.Mounts {
			moments = append(moments, m.From)
		}
	}
	return r.since(moments...)
}

// podWindow is from when a volume was first seen mounted for a pod to when the observers stopped.
func (r *ruling) podWindow() history.Span {
	var moments []history.Time
	for _, m := range r.world.Ledger().Lives {
		if m.Place.Pod != "" {
			moments = append(moments, m.From)
		}
	}
	return r.since(moments...)
}

// judgeCalls counts the calls as evidence and holds that none can have been missed.
func (r *ruling) judgeCalls(rpcs ...string) {
	for _, c := range r.world.Calls().Of(rpcs...) {
		switch {
		case c.Begin == nil:
			r.unknown("a call of %s for volume %s on node %s has an end and no begin", c.RPC, c.Volume, c.TargetNode())
		case c.Volume == "" || c.TargetNode() == "":
			r.unknown("a call of %s at %s does not say for which volume and node it was", c.RPC,
				r.clock(c.Begin.Span.NotBefore))
		default:
			r.evidence++
			r.looked("volume " + r.name(c))
		}
	}
	if len(r.world.Volumes().Handled()) == 0 {
		r.unknown("no volume of a CSI driver was seen, and the plan has the workload on such ones")
	}
	if len(r.world.Calls().Of(world.RPCAttach, world.RPCDetach)) == 0 {
		r.note("no ControllerPublishVolume or ControllerUnpublishVolume was called: " +
			"a driver that attaches nothing has no order of attaching and detaching to keep")
	}
	r.sawCalls(r.window())
}

// name is that of the volume that a call is for.
func (r *ruling) name(c *world.Call) string {
	if v := r.world.Volumes().ByHandle(c.Volume); v != nil {
		return v.Name
	}
	return c.Volume
}

// uniqueName is what a node's status calls a volume of a CSI driver.
func uniqueName(v *world.VolumeLife) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName("kubernetes.io/csi/" + v.PV.Driver + "^" + v.Handle)
}

// volumesInUse says whether a node's last status by a moment listed the volume as in use, and by which event.
func (r *ruling) volumesInUse(v *world.VolumeLife, node string, at history.Time) (string, []int64) {
	var n *world.Node
	for _, state := range r.world.Objects().Nodes.ByKey[node] {
		if state.Event.Span.NotAfter <= at {
			n = state // The last status of a deleted node counts.
		}
	}
	switch {
	case n == nil || v.PV == nil:
		return "whether the node's volumesInUse named it is not known", nil
	case slices.Contains(n.Status.VolumesInUse, uniqueName(v)):
		return "the node's volumesInUse still named it", []int64{n.Event.ID}
	}
	return "the node's volumesInUse did not name it", []int64{n.Event.ID}
}

// detachWanted says when the volume's VolumeAttachment to a node was marked for deletion, the last time up to a moment.
func (r *ruling) detachWanted(v *world.VolumeLife, node string, by history.Time) (string, []int64) {
	var mark *world.Attachment
	for _, a := range r.world.Storage().Attachments {
		if a.PV != v.Name || a.Node != node {
			continue
		}
		i := slices.IndexFunc(a.States, (*world.Attachment).Deleting)
		if i >= 0 && a.States[i].Event.Span.NotBefore <= by &&
			(mark == nil || cmp.Less(mark.Version, a.States[i].Version)) {
			mark = a.States[i]
		}
	}
	if mark == nil {
		return "no VolumeAttachment was seen to be deleted", nil
	}
	return "its VolumeAttachment was deleted by " + r.clock(mark.Event.Span.NotAfter), []int64{mark.Event.ID}
}
