package trial

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

// The resources of which the feed keeps what it saw.
const (
	claims = "persistentvolumeclaims"
	pods   = "pods"
)

// sighting is one state of a pod or a claim, as far as a step may wait for it.
type sighting struct {
	at   history.Time // When the harness had it.
	span history.Span
	verb history.Verb

	resource, name, uid string
	deleting            bool // It has a deletionTimestamp, or is deleted.
	deleted             bool
	node                string // Where a pod is.
	phase               corev1.PodPhase
	ready               bool
	begun               bool // A pod's containers were started, or it was found out that they cannot be.
	unschedulable       bool // The scheduler found no node for a pod.
	revision            string
}

// sightOf reads a sighting off a fact; ok is false for all others.
func sightOf(e history.Event) (s sighting, ok bool) {
	if e.Kind != history.KindObject || e.Object == nil || e.Object.Resource != pods && e.Object.Resource != claims {
		return s, false
	}
	o := e.Object
	if o.Resource == pods && len(o.Raw) > 0 {
		var pod corev1.Pod
		if json.Unmarshal(o.Raw, &pod) != nil {
			return s, false // The checks read it too, and say so.
		}
		s = sightOfPod(pod)
	}
	s.span, s.verb, s.resource, s.name, s.uid = e.Span, o.Verb, o.Resource, o.Name, o.UID
	s.deleted = o.Verb == history.VerbDeleted
	s.deleting = s.deleting || s.deleted
	return s, true
}

func sightOfPod(pod corev1.Pod) sighting {
	s := sighting{
		resource: pods, name: pod.Name, uid: string(pod.UID), deleting: pod.DeletionTimestamp != nil,
		node: pod.Spec.NodeName, phase: pod.Status.Phase, revision: pod.Annotations[plan.RevisionAnnotation],
	}
	if s.revision == "" {
		s.revision = plan.RevisionFirst
	}
	for _, c := range pod.Status.Conditions {
		switch c.Type {
		case corev1.PodReady:
			s.ready = c.Status == corev1.ConditionTrue
		case corev1.PodScheduled:
			s.unschedulable = c.Status == corev1.ConditionFalse
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		stuck := c.State.Waiting != nil && c.State.Waiting.Reason != "ContainerCreating" &&
			c.State.Waiting.Reason != "PodInitializing"
		s.begun = s.begun || stuck || c.State.Running != nil || c.State.Terminated != nil
	}
	return s
}

// String says what was seen, for an error.
func (s sighting) String() string {
	switch {
	case s.name == "":
		return "never seen"
	case s.deleted:
		return fmt.Sprintf("%s (uid %s) deleted", s.name, s.uid)
	case s.resource == claims:
		return fmt.Sprintf("%s (uid %s) there", s.name, s.uid)
	}
	return fmt.Sprintf("%s (uid %s) %s on node %q, revision %q, ready %t, terminating %t", s.name, s.uid, s.phase,
		s.node, s.revision, s.ready, s.deleting)
}

// is reports that a pod or a claim is in the state that a moment brings about.
func (s sighting) is(moment, revision string) bool {
	switch moment {
	case plan.AwaitClaimGone, plan.AwaitGone:
		return s.deleted
	case plan.AwaitTerminating:
		return s.deleting
	}
	if s.deleted {
		return false
	}
	switch moment {
	case plan.AwaitCreated:
		return true
	case plan.AwaitScheduled:
		return s.node != ""
	case plan.AwaitPending:
		return s.unschedulable
	case plan.AwaitReady:
		return s.ready && !s.deleting
	case plan.AwaitUnready:
		return s.begun && !s.ready && !s.deleting
	case plan.AwaitUpdated:
		return s.ready && !s.deleting && s.revision == revision
	}
	return false
}
