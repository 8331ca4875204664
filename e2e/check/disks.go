package check

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// disks is what the judges of attached volumes have to know: what the API said, what the drivers did, what the kernels
// had mounted.
type disks struct {
	*ruling
	storage    *world.Storage
	calls      *world.Calls
	ledger     *world.Ledger
	containers *world.Containers
	volumes    *world.Volumes
}

func (r *ruling) disks() *disks {
	w := r.world
	return &disks{r, w.Storage(), w.Calls(), w.Ledger(), w.Containers(), w.Volumes()}
}

// onSharedDisk reports that the plan puts the workload on disks that are attached.
func onSharedDisk(w *world.World) bool {
	return planned(func(p plan.Plan) bool { return p.Workload.StorageName() == plan.StorageSharedDisk })(w)
}

// window is from when anything of a driver's volume was first seen to when the observers stopped.
func (d *disks) window() history.Span {
	var moments []history.Time
	for _, c := range d.calls.Of(world.RPCAttach, world.RPCDetach, world.RPCStage, world.RPCUnstage, world.RPCPublish,
		world.RPCUnpublish) {
		if c.Begin != nil {
			moments = append(moments, c.Begin.Span.NotBefore)
		}
	}
	for _, v := range d.volumes.Handled() {
		for _, m := range v.Mounts {
			moments = append(moments, m.From)
		}
	}
	return d.since(moments...)
}

// podWindow is from when a volume was first seen mounted for a pod to when the observers stopped.
func (d *disks) podWindow() history.Span {
	var moments []history.Time
	for _, m := range d.ledger.Lives {
		if m.Place.Pod != "" {
			moments = append(moments, m.From)
		}
	}
	return d.since(moments...)
}

// judgeCalls counts the calls as evidence and holds that none can have been missed.
func (d *disks) judgeCalls(rpcs ...string) {
	for _, c := range d.calls.Of(rpcs...) {
		if c.Begin == nil {
			d.unknown("a call of %s for volume %s on node %s has an end and no begin", c.RPC, c.Volume, c.TargetNode())
			continue
		}
		if c.Volume == "" || c.TargetNode() == "" {
			d.unknown("a call of %s at %s does not say for which volume and node it was", c.RPC,
				d.clock(c.Begin.Span.NotBefore))
			continue
		}
		d.evidence++
		d.looked("volume " + d.name(c))
	}
	if len(d.volumes.Handled()) == 0 {
		d.unknown("no volume of a CSI driver was seen, and the plan has the workload on such ones")
	}
	if attaches := d.calls.Of(world.RPCAttach, world.RPCDetach); len(attaches) == 0 {
		d.note("no ControllerPublishVolume or ControllerUnpublishVolume was called: " +
			"a driver that attaches nothing has no order of attaching and detaching to keep")
	}
	d.sawCalls(d.window())
}

// name is that of the volume that a call is for.
func (d *disks) name(c *world.Call) string {
	if v := d.volumes.ByHandle(c.Volume); v != nil {
		return v.Name
	}
	return c.Volume
}

// uniqueName is what a node's status calls a volume of a CSI driver.
func uniqueName(v *world.VolumeLife) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName("kubernetes.io/csi/" + v.PV.Driver + "^" + v.Handle)
}

// volumesInUse says in words whether a node's status named the volume as in use at a moment, and by which event.
func (d *disks) volumesInUse(v *world.VolumeLife, node string, at history.Time) (string, []int64) {
	var n *world.Node
	for _, v := range d.world.Objects().Nodes.ByKey[node] {
		if v.Event.Span.NotAfter <= at {
			n = v // Of a node that is deleted, what it said last.
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
func (d *disks) detachWanted(v *world.VolumeLife, node string, by history.Time) (string, []int64) {
	var mark *world.Attachment
	for _, a := range d.storage.Attachments {
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
	return "its VolumeAttachment was deleted by " + d.clock(mark.Event.Span.NotAfter), []int64{mark.Event.ID}
}
