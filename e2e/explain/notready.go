package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/e2e/world"
)

// podEviction is how long a pod stays on a node that does not answer before its end is asked for (the default of
// tolerationSeconds, plugin/pkg/admission/defaulttolerationseconds).
const podEviction = 300 * time.Second

// forcedDetach is how long a volume stays attached to a node that is not healthy and does not say that it unmounted it
// (attachdetach, ReconcilerMaxWaitForUnmountDuration).
const forcedDetach = 6 * time.Minute

// notReady explains a pod that is not Running and Ready.
func (r *reasoner) notReady(p *pod) {
	what := "is not Ready" + r.k.since(p.unready())
	if !p.everReady() && !r.k.live {
		what = "was never Ready" + r.k.since(p.unready())
	}
	r.because(proof(p.Pod, "status.conditions[Ready]"), "%s %s; its phase is %s", p.Name(), what, p.Status.Phase)
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
		r.because(proof(p.Pod, "status.conditions[Ready].message"), "its containers are ready, its "+
			"readiness gates are not: %s", quote(c.Message))
		r.looks(NotKnown, "it becomes Ready when the conditions of its readiness gates are set")
		return
	}
	n := p.noticed("Unhealthy")
	if n != nil && r.k.told(n).At >= p.unready().At.Add(-time.Minute) {
		r.said(n, "a probe fails, last at")
		r.probing(p)
		return
	}
	if slices.ContainsFunc(p.Status.ContainerStatuses, unready) {
		r.because(proof(p.Pod, "status.containerStatuses[].ready"),
			"its containers run, and its readiness probe has not passed")
		r.probing(p)
		return
	}
	if p.Status.Phase == "Pending" {
		r.starting(p)
	}
}

func unready(c corev1.ContainerStatus) bool { return c.State.Running != nil && !c.Ready }

// usualStart is how long what a pod runs may take to start before that is no longer what is expected.
const usualStart = time.Minute

// probing says how it looks when containers run and are not ready.
func (r *reasoner) probing(p *pod) {
	restarted := slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.RestartCount > 0
	})
	age := r.k.lasted(r.k.stamped(world.Seconds(&p.Meta.CreationTimestamp)))
	if !p.everReady() && !restarted && age > 0 && age < usualStart {
		r.looks(Transient, "it was created %s ago and its containers run: it may still be starting", Lasting(age))
	}
	r.looks(NotKnown, "its containers run; it becomes Ready when its probes pass")
}

// nodeDown explains a node that is not there or does not answer, and returns false for one that is well.
func (r *reasoner) nodeDown(name string) bool {
	n := r.k.Nodes.At(name, r.k.at)
	if n == nil {
		gone := deletedAt(r.k, r.k.Nodes, name)
		if !gone.Known && !r.k.allNodes() {
			return false
		}
		r.because(absence("nodes", name, gone), "node %s does not exist%s", name,
			r.k.since(gone))
		r.looks(Transient, "the pod garbage collector deletes pods of a node that has not existed for 40 s; what "+
			"the controller makes in its place has to find another node")
		return true
	}
	stale, old := r.staleLease(name)
	if nodeReady(n) && !old {
		return false
	}
	if !nodeReady(n) {
		c := world.NodeReady(n)
		r.because(proof(n, "status.conditions[Ready]"), "node %s is not Ready%s: the condition is %s, %s",
			name, r.k.since(r.k.nodeUnready(n)), c.Status, quote(c.Message))
	}
	if old {
		r.because(proof(r.k.lease(name), "spec.renewTime"), "the kubelet of node %s last renewed its lease "+
			"%s ago", name, Lasting(stale))
	}
	r.looks(NotKnown, "it ends when the kubelet of node %s answers again; a pod is evicted when its node was "+
		"not Ready for %s, and stays until the node confirms its end", name, Lasting(podEviction))
	return true
}

// allNodes reports whether a node that was not seen is not there. A trial may have been given a part of the cluster.
func (k *known) allNodes() bool { return k.live && k.watched["nodes"] && len(there(k, k.Nodes)) > 0 }

// lease returns that of a node's kubelet, nil where it was not seen.
func (k *known) lease(node string) *world.Lease {
	return k.Leases.At(world.Key(corev1.NamespaceNodeLease, node), k.at)
}

// staleLease returns how long ago a kubelet last renewed its lease, and whether the API server was heard of after the
// lease should have been renewed: while that is away, no kubelet can renew one.
func (r *reasoner) staleLease(name string) (time.Duration, bool) {
	l := r.k.lease(name)
	now, ok := r.k.wall()
	if l == nil || !ok || l.Spec.RenewTime.IsZero() || l.Spec.LeaseDurationSeconds == nil {
		return 0, false
	}
	lasts := time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
	ago := time.Duration(now - l.Spec.RenewTime.UnixNano())
	// A kubelet renews it four times as often as it runs out.
	return ago, lasts > 0 && ago-r.k.at.Sub(r.k.alive) > lasts/2
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
		r.because(proof(p.Pod, field+"["+c.Name+"].state.waiting"), "container %s waits: %s%s", c.Name, w.Reason,
			message)
		r.waiting(p, c, field)
		return true
	}
	for _, c := range p.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil && !p.Status.Over {
			r.because(proof(p.Pod, "status.containerStatuses["+c.Name+"].state.terminated"),
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
		if n := p.noticed("Failed"); n != nil && strings.Contains(n.Spec.Message, "pull") {
			r.said(n, "the kubelet said at")
		}
		r.looks(Permanent, "the image cannot be pulled until it, its name, its registry or its secret is "+
			"corrected; the kubelet retries by itself")
	case "InvalidImageName", "ErrImageNeverPull", "ImageInspectError":
		r.looks(Permanent, "correct the name of the image, or load it on the node")
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		r.looks(Permanent, "correct what the container refers to; the kubelet retries by itself")
	case "CrashLoopBackOff":
		if t := c.LastTerminationState.Terminated; t != nil {
			r.because(proof(p.Pod, field+"["+c.Name+"].lastState.terminated"),
				"it has ended %s, last with exit code %d (%s)", times(c.RestartCount), t.ExitCode, t.Reason)
		}
		if !p.everReady() && c.RestartCount >= manyRestarts {
			r.looks(Permanent, "it has ended %s and was never Ready: what it runs, or what it runs with, is broken",
				times(c.RestartCount))
		}
		r.looks(NotKnown, "the kubelet starts it again, after at most 5 minutes")
	default:
		r.looks(NotKnown, "the kubelet retries by itself")
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
	for _, c := range p.claims() {
		if c.Spec.VolumeName != "" && r.elsewhere(p, c) {
			return
		}
	}
	if n := p.noticed("FailedAttachVolume", "FailedMount", "FailedMapVolume", "FailedCreatePodSandBox"); n != nil {
		r.said(n, "its volumes or its sandbox are not ready, last said at")
		r.looks(NotKnown, "the kubelet retries by itself")
		return
	}
	r.because(proof(p.Pod, "status.containerStatuses"), "the kubelet of node %s has not started its containers, "+
		"and gives no reason", p.Spec.NodeName)
	r.looks(Transient, "it has been on its node%s, and starting takes a while", r.k.since(created(r.k.Pods, p.Pod)))
}

// elsewhere explains a volume that is attached to another node and may not be on two.
func (r *reasoner) elsewhere(p *pod, c *world.Claim) bool {
	if v := r.k.Volumes.At(c.Spec.VolumeName, r.k.at); v != nil && world.ManyNodes(v.Spec.AccessModes) {
		return false
	}
	for _, a := range there(r.k, r.k.Attachments) {
		other := a.Spec.NodeName
		if pv := a.Spec.Source.PersistentVolumeName; pv == nil || *pv != c.Spec.VolumeName || other == p.Spec.NodeName {
			continue
		}
		r.because(proof(a, "spec.nodeName"), "PV %s, of PVC %s, is still attached to node %s "+
			"(VolumeAttachment %s), and may be on one node only", c.Spec.VolumeName, c.Name(), other, a.Name())
		if e := a.Status.DetachError; e != nil && e.Message != "" {
			r.because(proof(a, "status.detachError"), "detaching it fails: %s", quote(e.Message))
		}
		if n := p.noticed("FailedAttachVolume"); n != nil {
			r.because(proof(n, "message"), "attaching it to node %s fails: %s", p.Spec.NodeName,
				quote(n.Spec.Message))
		}
		for _, q := range there(r.k, r.k.Pods) {
			if q.UID() != p.UID() && q.Spec.NodeName == other && slices.Contains(claimsOf(q), c.Key()) {
				r.because(proof(q, "spec.nodeName"), "pod %s on node %s uses it", q.Name(), other)
			}
		}
		if r.nodeDown(other) {
			r.outlook, r.reason = Transient, fmt.Sprintf("a volume is detached by force from a node that is not "+
				"healthy after %s, or at once when the node is tainted out-of-service", Lasting(forcedDetach))
			if r.k.Nodes.At(other, r.k.at) == nil {
				r.reason = "the attach/detach controller detaches volumes from a node that does not exist"
			}
		}
		r.looks(NotKnown, "it is detached when node %s has unmounted it", other)
		return true
	}
	return false
}
