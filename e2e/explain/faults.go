package explain

import (
	"fmt"
	"slices"
	"time"
)

// faultsOn adds the faults that were at work on the pod or on its node when it began to block.
func (r *reasoner) faultsOn(b blocker) {
	since := r.view.tell(b).since
	nodes := r.nodesOf(b.pod)
	for _, f := range r.o.Faults {
		hits := f.Victim == b.pod.name() || slices.Contains(nodes, f.Node)
		if !hits && !(b.pod.Spec.NodeName == "" && r.hurtsControl(f)) {
			continue
		}
		if since.Known && f.Injected.At > since.At.Add(time.Second) && f.Healed.Known ||
			f.Healed.Known && since.Known && f.Healed.At < since.At {
			continue
		}
		r.fault(f)
		if !f.Healed.Known && (r.outlook == NotKnown || r.outlook == Permanent && r.nodal) {
			r.outlook, r.reason = Transient, fmt.Sprintf("as far as the fault of step %d (%s) is the cause: it is "+
				"still at work and will be healed", f.Step, f.Name)
		}
		if ago := r.o.lasted(f.Healed); f.Healed.Known && ago < usualStart && r.outlook == NotKnown {
			r.outlook, r.reason = Transient, fmt.Sprintf("step %d (%s) was healed only %s ago, and what it hurt takes "+
				"a while to come back; should it not: %s", f.Step, f.Name, Lasting(ago), r.reason)
		}
	}
}

// hurtsControl reports that a fault takes what the controllers run on or talk to, or is on a node that they run on.
func (r *reasoner) hurtsControl(f Fault) bool {
	if n := r.o.nodes[f.Node]; n != nil {
		if _, ok := n.Meta.Labels["node-role.kubernetes.io/control-plane"]; ok {
			return true
		}
	}
	return f.TakesControl()
}

// atWork returns a fault that is at work on the pod or its node, and false where there is none.
func (r *reasoner) atWork(p *pod) (Fault, bool) {
	for _, f := range r.o.Faults {
		if !f.Healed.Known && (f.Victim == p.name() || f.Node != "" && f.Node == p.Spec.NodeName) {
			return f, true
		}
	}
	return Fault{}, false
}

// nodesOf returns the node of a pod, or the nodes that its volumes bind it to.
func (r *reasoner) nodesOf(p *pod) []string {
	if p.Spec.NodeName != "" {
		return []string{p.Spec.NodeName}
	}
	var names []string
	for _, key := range p.claims() {
		if c := r.o.claims[key]; c != nil {
			if v := r.o.volumes[c.Spec.VolumeName]; v != nil && len(v.terms()) > 0 {
				names = append(names, v.named()...)
			}
		}
	}
	return names
}

func (r *reasoner) fault(f Fault) {
	on := f.Node
	if on != "" {
		on = " on node " + on
	}
	end := "is still at work"
	if f.Healed.Known {
		end = "was healed at " + r.o.clock(f.Healed)
	}
	var evidence []Evidence
	for _, id := range f.injectedEvents {
		evidence = append(evidence, Evidence{Event: id})
	}
	if f.Healed.Event != 0 {
		evidence = append(evidence, Evidence{Event: f.Healed.Event})
	}
	r.because(evidence, "step %d, %s, was carried out%s at %s and %s", f.Step, f.Name, on, r.o.clock(f.Injected), end)
}
