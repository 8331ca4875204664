package check

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// onSharedDisk reports whether the plan puts the workload on storage shared-disk, whose disks are attached to nodes.
func onSharedDisk(p plan.Plan) bool { return p.Workload.StorageName() == plan.StorageSharedDisk }

// window returns the span from the first call for, or mount of, a driver's volume to when the observers stopped.
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

// podWindow returns the span from the first mount of a volume for a pod to when the observers stopped.
func (r *ruling) podWindow() history.Span {
	var moments []history.Time
	for _, m := range r.world.Ledger().Lives {
		if m.Place.Pod != "" {
			moments = append(moments, m.From)
		}
	}
	return r.since(moments...)
}

// foreign reports whether a call is for a volume that is claimed in another namespace.
func (r *ruling) foreign(c *world.Call) bool {
	v := r.world.Volumes().ByHandle(c.Volume)
	return v != nil && ofOthers(r.trial, v.PV)
}

// judgeCalls counts the calls as evidence and demands that none can have been missed.
func (r *ruling) judgeCalls(rpcs ...string) {
	for _, c := range r.world.Calls().Of(rpcs...) {
		switch {
		case c.Begin == nil:
			r.unknown("a call of %s for volume %s on node %s has an end and no begin", c.RPC, c.Volume, c.TargetNode())
		case c.Volume == "" || c.TargetNode() == "":
			r.unknown("a call of %s at %s does not say for which volume and node it was", c.RPC,
				r.clock(c.Begin.Span.NotBefore))
		case !r.foreign(c):
			r.judged("volume " + r.name(c))
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

// name returns the name of a call's volume, or its handle if it has none.
func (r *ruling) name(c *world.Call) string {
	if v := r.world.Volumes().ByHandle(c.Volume); v != nil {
		return v.Name
	}
	return c.Volume
}

// uniqueName returns the name of a CSI volume in a node's status.
func uniqueName(v *world.VolumeLife) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName("kubernetes.io/csi/" + v.PV.Driver + "^" + v.Handle)
}

// volumesInUse says whether a node's last status up to a time listed the volume in volumesInUse, and by which event.
func (r *ruling) volumesInUse(v *world.VolumeLife, node string, at history.Time) (string, []int64) {
	if r.trial.Plan.Workload.Attacher != "" {
		return "its kubelet attaches by itself, so no controller asks what the node has in use", nil
	}
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

// detachWanted says when the volume's VolumeAttachment to a node was last marked for deletion up to a time.
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
	if mark == nil && r.trial.Plan.Workload.Attacher != "" {
		return "no controller detaches it", nil
	}
	if mark == nil {
		return "no VolumeAttachment was seen to be deleted", nil
	}
	return "its VolumeAttachment was deleted by " + r.clock(mark.Event.Span.NotAfter), []int64{mark.Event.ID}
}

// since returns the span from the first of some times to when the observers stopped.
func (r *ruling) since(moments ...history.Time) history.Span {
	return history.Span{NotBefore: slices.Min(append(moments, world.Forever)), NotAfter: r.trial.LookedUntil()}
}

// sawNodes demands that the observer of each of the nodes saw all of window, except for holes within the bound.
func (r *ruling) sawNodes(c *world.Coverage, nodes []string, window history.Span) {
	if len(nodes) == 0 {
		r.unknown("the observer %s was never on on any node: what happened there is not known", c.Name)
	}
	for _, node := range nodes {
		if !c.On(node) {
			r.unknown("the observer %s was never on on node %s: what happened there is not known", c.Name, node)
			continue
		}
		r.sawNode(c, node, window, "the observer "+c.Name+" of node "+node)
	}
}

// sawNode is sawNodes for one node whose observer ran; who names that observer.
func (r *ruling) sawNode(c *world.Coverage, node string, window history.Span, who string) {
	hole := c.Longest(node, window, r.trial)
	if bound := r.trial.Plan.Bounds.BlindGap.D(); hole.Length() > bound {
		r.unknown("%s was blind for %s from %s, longer than the bound of %s", who, hole.Length(),
			r.clock(hole.NotBefore), bound)
	}
}

// sawMounts demands that the mount ledger of every node of the cluster saw all of window, except for holes within the
// bound.
//
// A mount that could not be identified, because it was gone at once, is a hole for as long as it may have existed: it
// can have been a volume for no longer. One whose end was not seen is a hole to the end.
func (r *ruling) sawMounts(window history.Span) {
	if len(r.world.Nodes()) == 0 {
		r.unknown("no node of the cluster is in the history: whose ledgers are missing is not known")
	}
	ledger := r.world.Ledger()
	for _, node := range ledger.Everywhere(r.world) {
		if !ledger.On(node) {
			r.unknown("node %s kept no mount ledger: what was mounted there is not known", node)
			continue
		}
		for _, s := range ledger.Sessions[node] {
			if !s.BootKnown {
				r.unknown("node %s: when boot %q began is not known", node, s.Boot)
			}
		}
		r.sawNode(ledger.Coverage, node, window, "the mount ledger of node "+node)
	}
}

// sawCalls demands that the drivers were watched throughout window: on every node, and where the controller runs. A
// control-plane node needs no observer if no call targets it.
func (r *ruling) sawCalls(window history.Span) {
	calls := r.world.Calls()
	nodes := slices.DeleteFunc(r.world.NodesUsed(), func(node string) bool {
		return !calls.Driver.On(node) && r.world.IsControlPlane(node) &&
			!slices.ContainsFunc(calls.Calls, func(c *world.Call) bool { return c.TargetNode() == node })
	})
	r.sawNodes(calls.Driver, nodes, window)
	at := slices.DeleteFunc(keys(calls.Controller.Sessions),
		func(node string) bool { return !calls.Controller.On(node) })
	r.sawNodes(calls.Controller, at, window)
}

// hasData reports whether the plan's workload is a database that clients write to.
func hasData(p plan.Plan) bool { return !p.Workload.Light }
