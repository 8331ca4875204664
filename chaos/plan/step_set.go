package plan

import (
	"fmt"
	"maps"
	"slices"
)

// What a change of the StatefulSet waits for.
const (
	// WaitSettled waits until the StatefulSet is as requested: it has exactly its pods, all Ready and available, on the
	// revisions of strategy and partition; or it is gone, with what its deletion cascades to.
	WaitSettled = "settled"
	// WaitObserved waits until the controller has observed the change.
	WaitObserved = "observed"
)

// Update is a new revision of the pod template.
type Update struct {
	Revision string `json:"revision"` // Its name; the template bears it as the annotation RevisionAnnotation.
	// Broken is what keeps its pods from being Ready: "image", "readiness" or "startup", or nothing.
	Broken string `json:"broken,omitempty"`
}

const (
	// RevisionFirst is the name of the revision that the StatefulSet is made with. It bears no annotation.
	RevisionFirst = "first"
	// RevisionAnnotation is the annotation of the pod template, and so of the pods, with the name of their revision.
	RevisionAnnotation = "seatrial/revision"
)

// What can be wrong with a revision.
const (
	BrokenImage     = "image"     // Its image cannot be pulled.
	BrokenReadiness = "readiness" // Its container starts, and its readiness probe fails for ever.
	BrokenStartup   = "startup"   // Its container starts, and its startup probe fails for ever.
)

// Brokens returns what can be wrong with a revision.
func Brokens() []string { return []string{BrokenImage, BrokenReadiness, BrokenStartup} }

// What a deletion of the StatefulSet does with its pods (propagationPolicy).
const (
	CascadeBackground = "background" // It deletes them after it.
	CascadeForeground = "foreground" // It deletes them before it.
	CascadeOrphan     = "orphan"     // It leaves them alone.
)

// setPlan is the planned state of the StatefulSet at a step.
type setPlan struct {
	replicas  int  // Requested last.
	reach     int  // How many pods there can be: more than replicas while it settles.
	gone      bool // It is deleted.
	orphaned  bool // It is deleted and its pods are not.
	partition int
	revision  string          // Requested last.
	broken    map[string]bool // The revisions so far.
	changed   bool            // A change came before, or a pod was deleted.
	leaving   bool            // It is being deleted, and its pods are still there.
}

// change checks a step that changes the StatefulSet, the steps during it, and that its wait can end.
func (v *validator) change(at string, s Step, in depth, k kind) {
	if (s.Do == ActionCreateSet) != v.set.gone {
		fix, is := "leave the step out", "there"
		if v.set.gone {
			fix, is = "put a create-set step before it", "deleted"
		}
		v.Add(at+".do", fix, "the StatefulSet is %s at this step", is)
	}
	v.set.changed = true
	k.check(v, at, s, in)
	if s.Wait != "" {
		v.OneOf(at+".wait", "wait", s.Wait, WaitObserved, WaitSettled)
	}
	if v.tooDeep(at+".during", in, s.During) {
		return
	}
	v.set.leaving = s.Do == ActionDeleteSet
	v.steps(at+".during", s.During, in.step())
	v.set.leaving = false
	if s.Wait != WaitObserved {
		v.settles(at + ".wait")
	}
}

// settles checks that the StatefulSet can settle at a step that waits for it.
func (v *validator) settles(at string) {
	rolls := v.work.Strategy() != StrategyOnDelete && v.set.partition < v.set.replicas
	if v.set.broken[v.set.revision] && !v.set.gone && rolls {
		v.Add(at, fmt.Sprintf("use %q, and roll back or update before anything waits", WaitObserved),
			"revision %q is broken: its pods are never Ready", v.set.revision)
	}
	v.set.reach = v.set.replicas
}

// victim checks that the workload has pods at this step.
func (v *validator) victim(at string) {
	if v.set.gone && !v.set.orphaned && !v.set.leaving {
		v.Add(at+".do", "put a create-set step before it", "the StatefulSet is deleted at this step")
	}
}

// finally checks that the plan leaves the workload as the trial's last phases need it.
func (v *validator) finally(steps []Step) {
	at := fmt.Sprintf("steps[%d]", max(0, len(steps)-1))
	switch {
	case v.set.gone:
		v.Add(at, "put a create-set step after it", "the StatefulSet is deleted when the plan ends")
	case v.work.External != nil && v.set.replicas != v.work.Replicas:
		v.Add(at, fmt.Sprintf("put a scale step to %d after it", v.work.Replicas),
			"the StatefulSet, which is not Seatrial's, is left with %d replicas", v.set.replicas)
	case v.set.changed:
		v.settles(at)
	}
}

func (v *validator) scale(at string, s Step, _ depth) {
	at += ".replicas"
	switch replicas := *s.Replicas; {
	case replicas < 0 || replicas > MaxReplicas:
		v.Range(at, replicas, 0, MaxReplicas)
	case replicas == v.set.replicas:
		v.Add(at, "use another number, or leave the step out", "there are %d replicas already", replicas)
	case replicas > v.work.Replicas:
		v.Add(at, fmt.Sprintf("use 0 to %d, or raise workload.replicas", v.work.Replicas),
			"there are volumes for %d replicas, not for %d", v.work.Replicas, replicas)
	default:
		v.set.reach = max(v.set.reach, replicas)
		v.set.replicas = replicas
	}
}

func (v *validator) partition(at string, s Step, _ depth) {
	at += ".partition"
	v.Range(at, *s.Partition, 0, MaxOrdinal)
	switch {
	case v.work.Strategy() != StrategyRolling:
		v.Add(at, "leave the step out", "strategy %q has no partition", v.work.Strategy())
	case *s.Partition == v.set.partition:
		v.Add(at, "use another number, or leave the step out", "it is %d already", *s.Partition)
	}
	v.set.partition = *s.Partition
}

func (v *validator) update(at string, s Step, _ depth) {
	at += ".update"
	u := s.Update
	if u.Broken != "" {
		v.OneOf(at+".broken", "way to break a revision", u.Broken, Brokens()...)
	}
	if !v.name(at+".revision", u.Revision) {
		return // A later message must not show it as one that exists.
	}
	if _, used := v.set.broken[u.Revision]; used {
		v.Add(at+".revision", "use another name, or a rollback step", "there is a revision %q already", u.Revision)
	}
	v.set.revision = u.Revision
	v.set.broken[u.Revision] = u.Broken != ""
}

func (v *validator) rollback(at string, s Step, _ depth) {
	at += ".revision"
	if !v.OneOf(at, "revision", s.Revision, slices.Sorted(maps.Keys(v.set.broken))...) {
		return
	}
	if s.Revision == v.set.revision {
		v.Add(at, "use an earlier one, or leave the step out", "the template is at %q already", s.Revision)
	}
	v.set.revision = s.Revision
}
