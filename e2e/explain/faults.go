package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// faultsOn adds the faults that were active on the pod or on its node when it began to block.
func (r *reasoner) faultsOn(b blocker) {
	since := b.since()
	nodes := r.nodesOf(b.pod)
	for _, f := range r.k.faults {
		hits := f.Victim == b.pod.Name() || slices.Contains(nodes, f.Node)
		if !hits && !(b.pod.Spec.NodeName == "" && r.hurtsControl(f)) {
			continue
		}
		end, began := healed(f), f.Facts[history.StageInjected].Span.NotBefore
		if end.Known && since.Known && (began > since.At.Add(time.Second) || end.At < since.At) {
			continue
		}
		r.fault(f)
		if !end.Known && (r.outlook == NotKnown || r.outlook == Permanent && r.nodal) {
			r.outlook, r.reason = Transient, fmt.Sprintf("as far as the fault of step %d (%s) is the cause: it is "+
				"still active and will be healed", f.Step, f.Name)
		}
		if ago := r.k.lasted(end); end.Known && ago < usualStart && r.outlook == NotKnown {
			r.outlook, r.reason = Transient, fmt.Sprintf("step %d (%s) was healed only %s ago, and recovery "+
				"takes a while; if it does not recover: %s", f.Step, f.Name, Lasting(ago), r.reason)
		}
	}
}

// limited adds the faults that limit what the namespace may have.
func (r *reasoner) limited() {
	for _, f := range r.k.faults {
		if !healed(f).Known && slices.Contains(f.Takes, plan.PartQuota) {
			r.fault(f)
			r.looks(Transient, "as far as the fault of step %d (%s) is the cause: it is still active and will be "+
				"healed", f.Step, f.Name)
		}
	}
}

// hurtsControl reports that a fault takes what the controllers run on or talk to, or is on a node that they run on.
func (r *reasoner) hurtsControl(f world.Fault) bool {
	n := r.k.Nodes.At(f.Node, r.k.at)
	return f.TakesControl() || n != nil && world.IsControlPlane(n.Meta.Labels)
}

// active returns a fault that is active on the pod or its node, and false where there is none.
func (r *reasoner) active(p *pod) (world.Fault, bool) {
	for _, f := range r.k.faults {
		if !healed(f).Known && (f.Victim == p.Name() || f.Node != "" && f.Node == p.Spec.NodeName) {
			return f, true
		}
	}
	return world.Fault{}, false
}

// nodesOf returns the node of a pod, or the nodes that its volumes bind it to.
func (r *reasoner) nodesOf(p *pod) []string {
	if p.Spec.NodeName != "" {
		return []string{p.Spec.NodeName}
	}
	var names []string
	for _, c := range p.claims() {
		if v := r.k.Volumes.At(c.Spec.VolumeName, r.k.at); v != nil {
			names = append(names, named(v)...)
		}
	}
	return names
}

func (r *reasoner) fault(f world.Fault) {
	injected := f.Facts[history.StageInjected]
	evidence, end := []Evidence{{Event: injected.ID}}, "is still active"
	if e := f.Facts[history.StageConfirmed]; e != nil {
		evidence = append(evidence, Evidence{Event: e.ID})
	}
	if at := healed(f); at.Known {
		evidence, end = append(evidence, Evidence{Event: at.Event}), "was healed at "+r.k.clock(at)
	}
	r.because(evidence, "step %d, %s, was carried out%s at %s and %s", f.Step, f.Name,
		plan.Given(" on node %s", f.Node), r.k.clock(atTime(injected.Span.NotBefore)), end)
}
