package check

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// StageOrder judges the order in which a volume comes onto a node: attached, then staged, then published.
//
// The kubelet learns from its Node that a volume is attached: it waits until it has reported the volume in
// volumesInUse, which keeps the attach/detach controller from detaching it, and until that controller lists it in
// volumesAttached. So some status of the node that was in effect since the volume was last unstaged there, or detached,
// must list it, in each. A kubelet that attaches by itself asks no controller and waits for neither list.
//
// Each step needs a call of the previous step that succeeded before it began and that no call undid in between. A boot
// of the node undoes staging, but not attaching. For a driver that never attaches, or never stages, that step is left
// out of the order, and the result says so.
func StageOrder() Check {
	return Check{
		Name: "stage-order",
		When: Continuous,
		Promise: "A volume is staged on a node only once it is attached there and the node's status lists it as " +
			"attached and in use, and published only once it is staged.",
		Source: "CSI specification 1.11, Volume Lifecycle: NodeStageVolume after ControllerPublishVolume, " +
			"NodePublishVolume after NodeStageVolume, each for that node; Kubernetes, " +
			"pkg/volume/util/operationexecutor, GenerateVerifyControllerAttachedVolumeFunc",
		Unit:    "calls that stage and publish",
		Applies: onSharedDisk,
		Lacks:   ofOwn(noCalls),
		judge:   judgeStageOrder,
	}
}

func judgeStageOrder(r *ruling) {
	calls := r.world.Calls()
	r.judgeCalls(world.RPCStage, world.RPCPublish)
	attaches, stages := len(calls.Of(world.RPCAttach)) > 0, len(calls.Of(world.RPCStage)) > 0
	if !stages {
		r.note("no NodeStageVolume was called: a driver that stages nothing only publishes")
	}
	if len(calls.Of(world.RPCPublish)) > 0 {
		r.sawPublished()
	}
	for _, c := range calls.Of(world.RPCStage, world.RPCPublish) {
		switch {
		case c.Begin == nil:
		case r.foreign(c): // Its volume may have been attached before the trial began.
		case c.RPC == world.RPCPublish && stages:
			r.judgeStep(c, world.RPCStage, world.RPCUnstage, calls.Driver)
		case attaches:
			r.judgeStep(c, world.RPCAttach, world.RPCDetach, calls.Controller)
			if c.RPC == world.RPCStage && r.trial.Plan.Workload.Attacher == "" {
				r.judgeListed(c)
			}
		}
	}
}

// sawPublished adds a reason for each pod that became Ready although no call was seen that published its volume on its
// node: without this, a record that misses the calls for a volume would pass.
func (r *ruling) sawPublished() {
	calls := r.world.Calls()
	for _, pod := range r.world.Pods().All {
		if pod.First.Event.Object.Verb != history.VerbAdded ||
			!slices.ContainsFunc(pod.States, (*world.PodState).Healthy) {
			continue
		}
		missing := ""
		for _, name := range r.world.Storage().VolumesOf(pod) {
			v := r.world.Volumes().ByName[name]
			if v == nil || v.Handle == "" {
				continue
			}
			if len(calls.On(world.RPCPublish, v.Handle, pod.Node)) > 0 {
				missing = "" // A pod has one claim here; if that was made again, it has one of two volumes.
				break
			}
			missing = name
		}
		if missing != "" {
			r.unknown("no %s of volume %s on node %s was seen, though pod %s, which uses it, was Ready there",
				world.RPCPublish, missing, pod.Node, pod.Name)
		}
	}
}

// judgeListed demands that the status of the node listed the volume of a call that stages it.
func (r *ruling) judgeListed(c *world.Call) {
	v, node, began := r.world.Volumes().ByHandle(c.Volume), c.TargetNode(), c.Began()
	if v == nil || v.PV == nil {
		return // Its name in the status of a node is not known.
	}
	since, after := history.Time(0), "" // When it was last unstaged there, or detached.
	for _, u := range r.world.Calls().Of(world.RPCUnstage, world.RPCDetach) {
		if u.Volume == c.Volume && u.TargetNode() == node && undid(u) && u.Ended().NotAfter <= began.NotBefore &&
			u.Ended().NotBefore >= since {
			since, after = u.Ended().NotBefore, fmt.Sprintf(" since %s at %s", u.RPC, r.clock(u.Ended().NotAfter))
		}
	}
	inUse, attached := false, false
	states := r.world.Objects().Nodes.ByKey[node]
	for i, n := range states {
		if n.Deleted() || n.Event.Span.NotBefore > began.NotAfter ||
			i+1 < len(states) && states[i+1].Event.Span.NotAfter < since {
			continue
		}
		inUse = inUse || slices.Contains(n.Status.VolumesInUse, uniqueName(v))
		attached = attached || slices.ContainsFunc(n.Status.VolumesAttached,
			func(a corev1.AttachedVolume) bool { return a.Name == uniqueName(v) })
	}
	for _, list := range []struct {
		name string
		has  bool
	}{{"volumesAttached", attached}, {"volumesInUse", inUse}} {
		switch {
		case list.has:
		case len(states) == 0 || r.world.Watch().Blind(since, began.NotAfter, world.NodesObserver):
			r.unknown("%s of volume %s on node %s began at %s: whether the node had listed it in %s is not known",
				c.RPC, r.name(c), node, r.clock(began.NotAfter), list.name)
		default:
			r.violation(Finding{Subject: "volume " + v.Name, Node: node, Span: c.Lasted(), Events: c.Events(),
				Faults: r.trial.FaultsIn(began)}, "%s of volume %s on node %s began at %s although no status of the "+
				"node had listed it in %s%s.", c.RPC, v.Name, node, r.clock(began.NotAfter), list.name, after)
		}
	}
}

// judgeStep demands that a call of method do was in effect when c began; w covers the calls of do and undo.
func (r *ruling) judgeStep(c *world.Call, do, undo string, w *world.Coverage) {
	certain, perhaps, by := r.inEffect(c, do, undo)
	name, node, began := r.name(c), c.TargetNode(), c.Began()
	switch {
	case certain:
	case perhaps || r.blindBefore(c, w):
		r.unknown("%s of volume %s on node %s began at %s: whether %s had ended well before is not known", c.RPC,
			name, node, r.clock(began.NotAfter), do)
	default:
		state, events := "no "+do+" had ended well for it there", c.Events()
		if by != nil {
			state = fmt.Sprintf("%s had undone that at %s", by.RPC, r.clock(by.Ended().NotAfter))
			events = leading(events, by.Events())
		}
		r.violation(Finding{Subject: "volume " + name, Node: node, Span: c.Lasted(), Events: events,
			Faults: r.trial.FaultsIn(began)}, "%s of volume %s on node %s began at %s although %s.", c.RPC, name, node,
			r.clock(began.NotAfter), state)
	}
}

// inEffect reports whether a call of method do was certainly or perhaps in effect when c began: it had succeeded, and
// no call of method undo had undone it. If it certainly was not, by is the call that undid it, nil if there was none.
func (r *ruling) inEffect(c *world.Call, do, undo string) (certain, perhaps bool, by *world.Call) {
	calls := r.world.Calls()
	undos := calls.On(undo, c.Volume, c.TargetNode())
	for _, p := range calls.On(do, c.Volume, c.TargetNode()) {
		if do == world.RPCStage && p.Boot != c.Boot || p.Ended().NotBefore > c.Began().NotAfter ||
			p.End != nil && !p.Succeeded() {
			continue
		}
		holds, undone := p.Succeeded() && p.Ended().NotAfter <= c.Began().NotBefore, false
		for _, u := range undos {
			if u.End != nil && !undid(u) || u.Ended().NotAfter < p.Began().NotBefore ||
				u.Began().NotBefore > c.Began().NotAfter {
				continue
			}
			holds = false
			if undid(u) && u.Began().NotBefore >= p.Ended().NotAfter && u.Ended().NotAfter <= c.Began().NotBefore {
				undone, by = true, u
			}
		}
		if holds {
			return true, false, nil
		}
		perhaps = perhaps || !undone
	}
	return false, perhaps, by
}

// undid reports whether a call that undoes another ended and did its work, even if it answered an error.
func undid(u *world.Call) bool {
	return u.End != nil && (u.Succeeded() || u.Point == "late" ||
		u.RPC == world.RPCDetach && u.Point != "fail" && !slices.Contains(u.Attached, u.TargetNode()))
}

// blindBefore reports whether w was blind at some time before c.
func (r *ruling) blindBefore(c *world.Call, w *world.Coverage) bool {
	window := history.Span{NotBefore: r.trial.Start, NotAfter: c.Began().NotBefore}
	for node := range w.Sessions {
		if (w != r.world.Calls().Driver || node == c.Node) && len(w.Holes(node, window, r.trial)) > 0 {
			return true
		}
	}
	return len(w.Sessions) == 0 || w == r.world.Calls().Driver && !w.On(c.Node)
}
