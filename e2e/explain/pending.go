package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

func (r *reasoner) unscheduled(p *pod) {
	c := p.condition("PodScheduled")
	switch {
	case c.Reason == "SchedulingGated":
		r.because(proof(p.Pod, "spec.schedulingGates"), "it has scheduling gates: %s", quote(c.Message))
		r.looks(Permanent, "it lasts until the scheduling gates are removed")
	case c.Status == "False":
		r.because(proof(p.Pod, "status.conditions[PodScheduled]"), "the scheduler finds no node for it: %s",
			quote(c.Message))
	default:
		r.because(proof(p.Pod, "status.conditions"), "the scheduler has said nothing about it")
		if age := r.k.lasted(created(r.k.Pods, p.Pod)); age < DefaultBound {
			r.looks(Transient, "it was created only %s ago", Lasting(age))
		}
	}
	for _, key := range claimsOf(p.Pod) {
		r.claim(p, key)
	}
	switch {
	case r.outlook != "":
	case strings.Contains(c.Message, "Insufficient"):
		r.looks(NotKnown, "it is scheduled when a node has room for it")
	case c.Status == "False":
		r.looks(NotKnown, "it is scheduled when a node fits, or is made to")
	default:
		r.looks(NotKnown, "the scheduler may not be running")
	}
}

// claim explains what a claim of a pod that is on no node has to do with that.
func (r *reasoner) claim(p *pod, key string) {
	c := r.k.Claims.At(key, r.k.at)
	name := key[strings.LastIndexByte(key, '/')+1:]
	if c == nil && !r.k.watched["persistentvolumeclaims"] {
		return
	}
	if c == nil {
		gone := deletedAt(r.k, r.k.Claims, key)
		r.because(absence("persistentvolumeclaims", key, gone), "PVC %s does not exist%s",
			name, r.k.since(gone))
		if r.k.lasted(p.unready()) < DefaultBound {
			r.looks(Transient, "the controller creates a missing claim of a Pending pod")
		}
		r.looks(NotKnown, "the controller creates a missing claim of a Pending pod, and has not")
		return
	}
	if c.Meta.DeletionTimestamp != nil {
		r.because(proof(c, "metadata.deletionTimestamp"), "PVC %s is being deleted (held by: %s)", name,
			strings.Join(c.Meta.Finalizers, ", "))
		r.looks(Transient, "the claim goes when no pod on a node uses it, and is recreated")
	}
	if c.Spec.VolumeName == "" || c.Status.Phase == "Pending" {
		r.unbound(c)
		return
	}
	if v := r.k.Volumes.At(c.Spec.VolumeName, r.k.at); v != nil {
		r.bound(c, v)
		return
	}
	if gone := deletedAt(r.k, r.k.Volumes, c.Spec.VolumeName); gone.Known || c.Status.Phase == "Lost" {
		r.because(append(proof(c, "spec.volumeName"), absence("persistentvolumes", c.Spec.VolumeName, gone)...),
			"PVC %s is bound to PV %s, which does not exist%s", name, c.Spec.VolumeName, r.k.since(gone))
		r.looks(Permanent, "a claim stays bound to its volume: bring the data back under that name, or delete the "+
			"claim and lose it")
	}
}

func (r *reasoner) unbound(c *world.Claim) {
	r.because(proof(c, "status.phase"), "PVC %s is not bound to a volume", c.Name())
	r.taken(c)
	if n := r.k.noticed("PersistentVolumeClaim "+c.Key(), c.UID(), "ProvisioningFailed", "FailedBinding"); n != nil {
		r.said(n, "the last message about it, at")
		r.looks(NotKnown, "it ends when a volume is made that fits")
	}
}

// taken says so if every local volume of the claim's class is taken. A released volume is: its data is still on it.
func (r *reasoner) taken(c *world.Claim) {
	class := ""
	if c.Spec.StorageClassName != nil {
		class = *c.Spec.StorageClassName
	}
	var evidence []Evidence
	phases := map[corev1.PersistentVolumePhase]int{}
	for _, v := range there(r.k, r.k.Volumes) {
		if v.Spec.Local != nil && v.Spec.StorageClassName == class {
			evidence = append(evidence, proof(v, "status.phase")...)
			phases[v.Status.Phase]++
		}
	}
	if len(evidence) == 0 || phases[corev1.VolumeAvailable] > 0 {
		return
	}
	r.because(evidence, "no local volume of its class is available: of %d, %d are bound and %d released", len(evidence),
		phases[corev1.VolumeBound], phases[corev1.VolumeReleased])
	r.looks(Permanent, "it lasts until a volume is added, or a released one is emptied and made available")
}

// bound explains what the node affinity of a bound volume leaves.
func (r *reasoner) bound(c *world.Claim, v *world.Volume) {
	all := len(there(r.k, r.k.Nodes))
	if len(terms(v)) == 0 || all == 0 {
		return
	}
	nodes := r.k.allowed(v)
	evidence := append(proof(c, "spec.volumeName"), proof(v, "spec.nodeAffinity")...)
	lost := slices.ContainsFunc(named(v), func(name string) bool { return deletedAt(r.k, r.k.Nodes, name).Known })
	if len(nodes) == 0 && !lost && !r.k.allNodes() {
		return
	}
	if len(nodes) == 0 {
		r.because(evidence, "PVC %s is bound to PV %s, which only a node may use with %s: none of the %s is one",
			c.Name(), v.Name(), asks(v), plan.Count(all, "node"))
		for _, name := range named(v) {
			if gone := deletedAt(r.k, r.k.Nodes, name); gone.Known {
				r.because(absence("nodes", name, gone), "node %s was deleted at %s", name,
					r.k.clock(gone))
			}
		}
		r.looks(Permanent, "it lasts until such a node comes back, or until PVC %s is deleted and the pod begins with "+
			"an empty volume", c.Name())
		return
	}
	var names []string
	down := 0
	for _, n := range nodes {
		names = append(names, n.Name())
		if !nodeReady(n) || len(barred(n)) > 0 || n.Spec.Unschedulable {
			down++
		}
	}
	if down < len(nodes) {
		return
	}
	r.because(evidence, "PVC %s is bound to PV %s, which only node %s may use", c.Name(), v.Name(),
		strings.Join(names, ", "))
	for _, n := range nodes {
		switch {
		case !nodeReady(n):
			r.because(proof(n, "status.conditions[Ready]"), "node %s is not Ready%s: %s", n.Name(),
				r.k.since(r.k.nodeUnready(n)), quote(world.NodeReady(n).Message))
			r.looks(NotKnown, "it ends when node %s is Ready again", n.Name())
		case n.Spec.Unschedulable:
			r.because(proof(n, "spec.unschedulable"), "node %s is cordoned%s", n.Name(), r.k.since(r.k.cordoned(n)))
			r.nodal = r.outlook == ""
			r.looks(Permanent, "it lasts until node %s is uncordoned", n.Name())
		default:
			r.because(proof(n, "spec.taints"), "node %s is tainted %s", n.Name(), strings.Join(barred(n), ", "))
			r.looks(NotKnown, "it ends when node %s loses its taints", n.Name())
		}
	}
}

func (r *reasoner) terminating(p *pod) {
	grace := time.Duration(p.grace()) * time.Second
	r.because(proof(p.Pod, "metadata.deletionTimestamp"), "deletion of %s was requested%s, with a grace period of %s",
		p.Name(), plan.Given(" at %s", r.k.clock(p.asked())), Lasting(grace))
	left := r.graceLeft(p)
	if len(p.Meta.Finalizers) > 0 {
		r.because(proof(p.Pod, "metadata.finalizers"), "it is held by %s", strings.Join(p.Meta.Finalizers, ", "))
		if p.Status.Over || left <= 0 {
			r.looks(Permanent, "it stays until the finalizers are removed")
		}
	}
	if name := p.Spec.NodeName; name != "" && r.nodeDown(name) {
		r.stranded(p, name)
		return
	}
	if f, hurt := r.active(p); left > 0 && hurt && p.Spec.NodeName == f.Node {
		r.looks(Transient, "its grace period is over in %s; node %s has to end it and say so, and step %d (%s) is "+
			"still active there", Lasting(left), f.Node, f.Step, f.Name)
		return
	}
	if left > 0 {
		r.looks(Transient, "it is killed in %s at the latest", Lasting(left))
		return
	}
	if n := p.noticed("FailedKillPod", "FailedUnmount", "FailedPreStopHook"); n != nil {
		r.said(n, "the kubelet said at")
	}
	r.looks(NotKnown, "its grace period is over; it goes when the kubelet of its node says that its containers ended")
}

// stranded says how the end of a pod looks whose node does not answer.
func (r *reasoner) stranded(p *pod, name string) {
	n := r.k.Nodes.At(name, r.k.at)
	switch {
	case r.outlook == Permanent:
	case n == nil:
		r.outlook = Transient
		r.reason = "the pod garbage collector deletes pods of a node that has not existed for 40 s"
	case world.OutOfService(n):
		r.outlook, r.reason = Transient, fmt.Sprintf("node %s is tainted out-of-service: the pod garbage collector "+
			"deletes its pods", name)
	default:
		r.outlook, r.reason = NotKnown, fmt.Sprintf("only node %s can confirm the end of %s, and a StatefulSet never "+
			"makes a second pod of a name: the node has to answer again, be tainted out-of-service, or be deleted; "+
			"until then it stays", name, p.Name())
	}
}

// graceLeft is how much of the time to end is left.
func (r *reasoner) graceLeft(p *pod) time.Duration {
	now, ok := r.k.wall()
	if !ok || p.Meta.DeletionTimestamp == nil || p.Meta.DeletionTimestamp.IsZero() {
		return 0
	}
	return time.Duration(p.Meta.DeletionTimestamp.UnixNano() - now)
}
