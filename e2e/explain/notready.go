package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// podEviction is how long a pod stays on a node that does not answer before its end is asked for (the default of
// tolerationSeconds, plugin/pkg/admission/defaulttolerationseconds).
const podEviction = 300 * time.Second

// forcedDetach is how long a volume stays attached to a node that is not healthy and does not say that it unmounted it
// (attachdetach, ReconcilerMaxWaitForUnmountDuration).
const forcedDetach = 6 * time.Minute

// notReady explains a pod that is not Running and Ready.
func (r *reasoner) notReady(p *pod) {
	what := "is not Ready" + r.o.since(p.unready)
	if !p.everReady && !r.o.Live {
		what = "was never Ready, and is there" + r.o.since(p.unready)
	}
	r.because(proof(&p.head, "status.conditions[Ready]"), "%s %s; its phase is %s", p.name(), what, p.Status.Phase)
	if p.Spec.NodeName == "" {
		r.unscheduled(p)
		return
	}
	down := r.nodeDown(p.Spec.NodeName)
	if r.containers(p) || down {
		return
	}
	c := p.condition("Ready")
	if c.Reason == "ReadinessGatesNotReady" {
		r.because(proof(&p.head, "status.conditions[Ready].message"), "its containers are ready, its "+
			"readiness gates are not: %s", quote(c.Message))
		r.looks(NotKnown, "whoever sets the conditions of the readiness gates has to")
		return
	}
	if n := r.o.noticed("Pod", p.key, p.uid, "Unhealthy"); n != nil && n.last.At >= p.unready.At.Add(-time.Minute) {
		r.because(proof(&n.head, "message"), "a probe fails, last at %s: %s", r.o.clock(n.last), quote(n.Message))
		r.probing(p)
		return
	}
	if slices.ContainsFunc(p.Status.ContainerStatuses, unready) {
		r.because(proof(&p.head, "status.containerStatuses[].ready"),
			"its containers run, and its readiness probe has not passed")
		r.probing(p)
		return
	}
	if p.Status.Phase == "Pending" {
		r.starting(p)
	}
}

// unready reports that a container runs and is not ready.
func unready(c corev1.ContainerStatus) bool { return c.State.Running != nil && !c.Ready }

// usualStart is how long what a pod runs may take to start before that is no longer what is expected.
const usualStart = time.Minute

// probing says how it looks when containers run and are not ready.
func (r *reasoner) probing(p *pod) {
	restarted := slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.RestartCount > 0
	})
	age := r.o.lasted(r.o.stamped(p.created))
	if !p.everReady && !restarted && age > 0 && age < usualStart {
		r.looks(Transient, "it was made %s ago and its containers run: it may only be starting", Lasting(age))
	}
	r.looks(NotKnown, "its containers run; it becomes Ready when its probes pass")
}

// nodeDown explains a node that is not there or does not answer, and returns false for one that is well.
func (r *reasoner) nodeDown(name string) bool {
	n := r.o.nodes[name]
	if n == nil {
		gone, known := r.o.gone["nodes "+name]
		if !known && (r.o.unseen["nodes"] || len(r.o.nodes) == 0) {
			return false
		}
		r.because([]Evidence{{Event: gone.Event, Object: "nodes " + name}}, "node %s does not exist%s", name,
			r.o.since(gone))
		r.looks(Transient, "the pod garbage collector deletes pods of a node that has not existed for 40 s; what "+
			"the controller makes in its place has to find another node")
		return true
	}
	stale, old := r.staleLease(name)
	if n.ready() && !old {
		return false
	}
	if !n.ready() {
		c := n.condition()
		r.because(proof(&n.head, "status.conditions[Ready]"), "node %s is not Ready%s: the condition is %s, %s",
			name, r.o.since(n.unready), c.Status, quote(c.Message))
	}
	if old {
		r.because(proof(&r.o.leases[name].head, "spec.renewTime"), "the kubelet of node %s last renewed its lease "+
			"%s ago", name, Lasting(stale))
	}
	r.looks(NotKnown, "it ends when the kubelet of node %s answers again; a pod is told to go when its node was "+
		"not Ready for %s, and stays until the node confirms its end", name, Lasting(podEviction))
	return true
}

// staleLease returns how long ago a kubelet last renewed its lease, and whether that is longer than it lasts.
func (r *reasoner) staleLease(name string) (time.Duration, bool) {
	l := r.o.leases[name]
	now, ok := r.o.wall(r.o.At)
	if l == nil || !ok || l.Spec.RenewTime.IsZero() || l.Spec.LeaseDurationSeconds == nil {
		return 0, false
	}
	lasts := time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
	ago := time.Duration(now - l.Spec.RenewTime.UnixNano())
	// A kubelet renews it four times as often as it runs out.
	return ago, lasts > 0 && ago > lasts/2
}

// containers explains what a container waits for; false when none does that says why.
func (r *reasoner) containers(p *pod) bool {
	for i, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		field := "status.containerStatuses"
		if i < len(p.Status.InitContainerStatuses) {
			field = "status.initContainerStatuses"
		}
		w := c.State.Waiting
		if w == nil || w.Reason == "ContainerCreating" || w.Reason == "PodInitializing" || w.Reason == "" {
			continue
		}
		message := ""
		if w.Message != "" {
			message = ": " + quote(w.Message)
		}
		r.because(proof(&p.head, field+"["+c.Name+"].state.waiting"), "container %s waits: %s%s", c.Name, w.Reason,
			message)
		r.waiting(p, c, field)
		return true
	}
	for _, c := range p.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil && !p.Status.Over {
			r.because(proof(&p.head, "status.containerStatuses["+c.Name+"].state.terminated"),
				"container %s has ended with exit code %d (%s)", c.Name, t.ExitCode, t.Reason)
			r.looks(NotKnown, "the kubelet starts it again where the pod's restart policy says so")
			return true
		}
	}
	return false
}

// manyRestarts is how many ends of a container that never was ready are no accident.
const manyRestarts = 3

func (r *reasoner) waiting(p *pod, c corev1.ContainerStatus, field string) {
	switch c.State.Waiting.Reason {
	case "ErrImagePull", "ImagePullBackOff":
		if n := r.o.noticed("Pod", p.key, p.uid, "Failed"); n != nil && strings.Contains(n.Message, "pull") {
			r.because(proof(&n.head, "message"), "the kubelet said at %s: %s", r.o.clock(n.last), quote(n.Message))
		}
		r.looks(Permanent, "the image cannot be pulled until it, its name, its registry or its secret is put "+
			"right; the kubelet tries again by itself")
	case "InvalidImageName", "ErrImageNeverPull", "ImageInspectError":
		r.looks(Permanent, "the image has to be named otherwise, or be put on the node")
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		r.looks(Permanent, "what the container refers to has to be put right; the kubelet tries again by itself")
	case "CrashLoopBackOff":
		if t := c.LastTerminationState.Terminated; t != nil {
			r.because(proof(&p.head, field+"["+c.Name+"].lastState.terminated"),
				"it has ended %s, last with exit code %d (%s)", times(c.RestartCount), t.ExitCode, t.Reason)
		}
		if !p.everReady && c.RestartCount >= manyRestarts {
			r.looks(Permanent, "it has ended %s and was never Ready: what it runs, or what it runs with, is broken",
				times(c.RestartCount))
		}
		r.looks(NotKnown, "the kubelet starts it again, after at most 5 minutes")
	default:
		r.looks(NotKnown, "the kubelet tries again by itself")
	}
}

func times(n int32) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// starting explains a pod that is on a node and none of whose containers was started.
func (r *reasoner) starting(p *pod) {
	for _, key := range p.claims() {
		c := r.o.claims[key]
		if c == nil || c.Spec.VolumeName == "" {
			continue
		}
		if r.elsewhere(p, c) {
			return
		}
	}
	if n := r.o.noticed("Pod", p.key, p.uid, "FailedAttachVolume", "FailedMount", "FailedMapVolume",
		"FailedCreatePodSandBox"); n != nil {
		r.because(proof(&n.head, "message"), "its volumes or its sandbox are not ready, last said at %s: %s",
			r.o.clock(n.last), quote(n.Message))
		r.looks(NotKnown, "the kubelet tries again by itself")
		return
	}
	r.because(proof(&p.head, "status.containerStatuses"), "the kubelet of node %s has not started its containers, "+
		"and says no more", p.Spec.NodeName)
	r.looks(Transient, "it has been on its node%s, and starting takes a while", r.o.since(p.first))
}

// elsewhere explains a volume that is attached to another node and may not be on two.
func (r *reasoner) elsewhere(p *pod, c *claim) bool {
	if v := r.o.volumes[c.Spec.VolumeName]; v != nil && v.shared() {
		return false
	}
	for _, name := range keysOf(r.o.attached) {
		a := r.o.attached[name]
		other := a.Spec.NodeName
		if a.volume() != c.Spec.VolumeName || other == p.Spec.NodeName {
			continue
		}
		r.because(proof(&a.head, "spec.nodeName"), "PV %s, of PVC %s, is still attached to node %s "+
			"(VolumeAttachment %s), and may be on one node only", c.Spec.VolumeName, c.name(), other, name)
		if e := a.Status.DetachError; e != nil && e.Message != "" {
			r.because(proof(&a.head, "status.detachError"), "detaching it fails: %s", quote(e.Message))
		}
		if n := r.o.noticed("Pod", p.key, p.uid, "FailedAttachVolume"); n != nil {
			r.because(proof(&n.head, "message"), "attaching it to node %s fails: %s", p.Spec.NodeName,
				quote(n.Message))
		}
		for _, key := range keysOf(r.o.pods) {
			q := r.o.pods[key]
			if q.uid != p.uid && q.Spec.NodeName == other && slices.Contains(q.claims(), c.key) {
				r.because(proof(&q.head, "spec.nodeName"), "pod %s on node %s uses it", q.name(), other)
			}
		}
		if r.nodeDown(other) {
			r.outlook, r.reason = Transient, fmt.Sprintf("a volume is detached by force from a node that is not "+
				"healthy after %s, or at once when the node is tainted out-of-service", Lasting(forcedDetach))
			if n := r.o.nodes[other]; n == nil {
				r.reason = "the attach/detach controller detaches volumes from a node that does not exist"
			}
		}
		r.looks(NotKnown, "it is detached when node %s has unmounted it", other)
		return true
	}
	return false
}
