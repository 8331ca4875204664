package check

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

const (
	// statusLag is how stale the pod counts of a status may be: a sync counts the pods, acts, and then writes the
	// status.
	statusLag = 5 * time.Second
	// statusBound is how long a status may be wrong while nothing changes. The controller gets every change of a pod by
	// its watch and needs some ten milliseconds.
	statusBound = 30 * time.Second
)

// SetStatus judges a StatefulSet's status against its pods in two ways: each number that is written must have been true
// at some time that the controller may have seen, and while the pods do not change the status must not stay wrong. Time
// in which the control plane was hurt is not judged; after it, the settle bound counts if it is longer.
func SetStatus() Check {
	return ofSets(Check{
		Name: "set-status",
		When: Continuous,
		Promise: "The status agrees with the pods: as they were when it was written, and within 30 s with what " +
			"they then stay.",
		Source: "k8s.io/api apps/v1, StatefulSetStatus; KEP-2599 (availableReplicas); pkg/controller/statefulset, " +
			"computeReplicaStatus and completeUpdate",
		Unit: "statuses written",
	}, []string{world.PodsObserver, world.SetsObserver}, judgeSetStatus)
}

// tally counts the pods after one event.
type tally struct {
	// The change: from is nil if the pod did not exist, and both are nil before the first event.
	from, to        *world.PodState
	replicas, ready int32
}

// counted returns 1 if a pod counts as being at a revision, else 0.
func counted(p *world.PodState, revision string) int32 {
	return one(p != nil && !p.Deleting() && p.Revision == revision)
}

// statusJudge walks the pods and the status of one StatefulSet by resourceVersion.
type statusJudge struct {
	*setJudge
	now      map[int]*world.PodState
	tallies  []tally
	changed  history.Time // When one of the pod counts last changed.
	wrong    history.Time // When the status became wrong; 0 while it is right.
	why      string
	reported bool
	changes  bool // The update revision has changed since the StatefulSet was first seen.
	status   *world.StatefulSet
}

func judgeSetStatus(j *setJudge) {
	t := &statusJudge{setJudge: j, now: map[int]*world.PodState{}, tallies: make([]tally, 1, len(j.set.States)+1)}
	j.replay(t.written, t.pod)
	t.upTo(min(j.until, j.watch.Alive))
}

// last returns the latest tally.
func (t *statusJudge) last() tally { return t.tallies[len(t.tallies)-1] }

// pod adds a state of a pod.
func (t *statusJudge) pod(p *world.PodState) {
	if t.late(p.Event) || !t.ours(p) {
		return
	}
	t.upTo(p.Event.Span.NotBefore)
	old, last := t.now[p.Life.Ordinal], t.last()
	next := last
	next.from, next.to = old, p
	if old != nil && !old.Deleted() {
		next.replicas--
		next.ready -= one(old.Healthy())
	}
	if !p.Deleted() {
		next.replicas++
		next.ready += one(p.Healthy())
	}
	t.now[p.Life.Ordinal] = p
	if next.replicas != last.replicas || next.ready != last.ready || old == nil || old.Revision != p.Revision ||
		old.Deleting() != p.Deleting() || old.Life != p.Life {
		t.changed = p.Event.Span.NotAfter
	}
	t.tallies = append(t.tallies, next)
	t.compare(p.Event)
}

// ours reports whether a pod is one of the StatefulSet that is there, not one of its predecessor of the same name.
func (t *statusJudge) ours(p *world.PodState) bool {
	owner := metav1.GetControllerOfNoCopy(p.Meta)
	return p.Life.Owned &&
		(t.status == nil || owner == nil || owner.UID == "" || string(owner.UID) == t.status.UID())
}

// disown forgets the pods of a predecessor.
func (t *statusJudge) disown() {
	ours := tally{}
	for k, p := range t.now {
		if !t.ours(p) {
			delete(t.now, k)
			continue
		}
		ours.replicas += one(!p.Deleted())
		ours.ready += one(p.Healthy())
	}
	t.tallies = []tally{ours}
}

// counts returns the pod counts in a status.
func counts(s *appsv1.StatefulSetStatus) [5]int32 {
	return [...]int32{s.Replicas, s.ReadyReplicas, s.CurrentReplicas, s.UpdatedReplicas, s.AvailableReplicas}
}

func one(yes bool) int32 {
	if yes {
		return 1
	}
	return 0
}

// written judges the next version of the StatefulSet.
func (t *statusJudge) written(st *world.StatefulSet) {
	if t.late(st.Event) || st.Guessed() {
		return
	}
	t.upTo(st.Event.Span.NotBefore)
	old, observed := t.status, ""
	fresh := old == nil || old.UID() != st.UID()
	if !fresh && st.Status.ObservedGeneration < old.Status.ObservedGeneration {
		observed = "its observedGeneration is an earlier one"
	}
	follows(t.setJudge, "StatefulSet", old, st, observed)
	switch {
	case fresh || old.Deleted():
	case st.Meta.Generation == old.Meta.Generation && st.Spec.Demand != t.defaulted(old, st):
		t.unknown("%s demands at %s what it did not before, and its generation is the same", t.set, t.when(st.Event))
	case st.Meta.Generation > old.Meta.Generation+1:
		t.unknown("the generation of %s was %d and, at %s, %d: a change was missed", t.set, old.Meta.Generation,
			t.when(st.Event), st.Meta.Generation)
	}
	t.changes = !fresh && (t.changes ||
		old.Status.UpdateRevision != "" && old.Status.UpdateRevision != st.Status.UpdateRevision)
	t.status = st
	if fresh && old != nil {
		t.disown()
	}
	if st.Deleted() {
		return
	}
	if fresh || counts(old.Status) != counts(st.Status) || old.Status.UpdateRevision != st.Status.UpdateRevision ||
		old.Status.CurrentRevision != st.Status.CurrentRevision ||
		old.Status.ObservedGeneration != st.Status.ObservedGeneration {
		t.numbers(st, fresh)
	}
	t.compare(st.Event)
}

// defaulted returns the demand of old with the defaults of the API server that wrote st: from version 1.37 on, an API
// server fills in a maxUnavailable of 1, the former implicit value, and leaves the generation as it is.
func (t *statusJudge) defaulted(old, st *world.StatefulSet) world.Demand {
	before, r := old.Spec.Demand, st.Spec.UpdateStrategy.RollingUpdate
	if before.Limited || r == nil || r.MaxUnavailable == nil || *r.MaxUnavailable != intstr.FromInt32(1) {
		return before
	}
	versions := map[string]bool{} // Of the API server.
	for _, e := range t.world.Of(history.KindVersion) {
		if e.Version.Component == history.ComponentAPIServer {
			versions[e.Version.Version] = true
		}
	}
	before.Limited = len(versions) > 1
	return before
}

// numbers demands that each number of a written status was true at some time that the controller may have seen.
func (t *statusJudge) numbers(st *world.StatefulSet, fresh bool) {
	c := st.Status
	if c.ObservedGeneration == 0 && counts(c) == [5]int32{} {
		return // Nothing was counted yet.
	}
	t.evidence++
	if c.ObservedGeneration > st.Meta.Generation {
		t.wrongNumber(st, "observedGeneration is %d, and the generation %d", c.ObservedGeneration, st.Meta.Generation)
		return
	}
	since := min(t.viewSince(st.Event.Span), st.Event.Span.NotBefore.Add(-statusLag))
	if fresh || st.Deleting() || t.blind(since, st.Event.Span.NotAfter) {
		return // Its pods may be a predecessor's, orphaned or not recorded.
	}
	low, high := t.last(), t.last()
	updated, labelled := t.at(c.UpdateRevision)
	fewest, most := updated, updated
	current, named := t.at(c.CurrentRevision)
	mostCurrent := current
	for _, a := range slices.Backward(t.tallies) {
		low.replicas, low.ready = min(low.replicas, a.replicas), min(low.ready, a.ready)
		high.replicas, high.ready = max(high.replicas, a.replicas), max(high.ready, a.ready)
		fewest, most, mostCurrent = min(fewest, updated), max(most, updated), max(mostCurrent, current)
		if a.to == nil || a.to.Event.Span.NotAfter < since {
			break
		}
		updated += counted(a.from, c.UpdateRevision) - counted(a.to, c.UpdateRevision)
		current += counted(a.from, c.CurrentRevision) - counted(a.to, c.CurrentRevision)
	}
	switch {
	case c.Replicas < low.replicas || c.Replicas > high.replicas:
		t.wrongNumber(st, "replicas is %d, and there were %s", c.Replicas, between(low.replicas, high.replicas))
	case c.ReadyReplicas < low.ready || c.ReadyReplicas > high.ready:
		t.wrongNumber(st, "readyReplicas is %d, and %s were Ready", c.ReadyReplicas, between(low.ready, high.ready))
	case c.AvailableReplicas > high.ready || st.Spec.Demand.MinReady == 0 && c.AvailableReplicas < low.ready:
		t.wrongNumber(st, "availableReplicas is %d, and %s were Ready", c.AvailableReplicas,
			between(low.ready, high.ready))
	case labelled && (c.UpdatedReplicas < fewest || c.UpdatedReplicas > most):
		t.wrongNumber(st, "updatedReplicas is %d, and %s were at %s", c.UpdatedReplicas, between(fewest, most),
			c.UpdateRevision)
	case named && c.CurrentReplicas > mostCurrent: // A rolling update takes one off for any pod that it tells to end.
		t.wrongNumber(st, "currentReplicas is %d, and at most %d were at %s", c.CurrentReplicas, mostCurrent,
			c.CurrentRevision)
	case st.Spec.Demand.MinReady > 0:
		t.available(st, high.ready)
	}
}

// at returns how many pods are at a revision now, false if not every pod has a revision label.
func (t *statusJudge) at(revision string) (n int32, labelled bool) {
	labelled = revision != ""
	for _, p := range t.now {
		if !p.Deleted() {
			labelled = labelled && p.Revision != ""
			n += counted(p, revision)
		}
	}
	return n, labelled
}

func between(low, high int32) string {
	if low == high {
		return fmt.Sprint(low)
	}
	return fmt.Sprintf("%d to %d", low, high)
}

// available demands that no pod counts as available before it has been Ready for minReadySeconds.
func (t *statusJudge) available(st *world.StatefulSet, ready int32) {
	_, latest, ok := t.sets.Wall.Between(st.Event.Span)
	if !ok {
		t.note("how long pods of %s had been Ready at %s is not known: the stamps of the API server disagree", t.set,
			t.when(st.Event))
		return
	}
	waiting := int32(0)
	for _, p := range t.now {
		if p.Healthy() && p.Waiting(st.Spec.Demand.MinReady, int64(latest)+1) {
			waiting++
		}
	}
	if st.Status.AvailableReplicas > ready-waiting {
		t.wrongNumber(st, "availableReplicas is %d, and %d of %d Ready pods had not been Ready for the %d s of "+
			"minReadySeconds", st.Status.AvailableReplicas, waiting, ready, st.Spec.Demand.MinReady)
	}
}

func (t *statusJudge) wrongNumber(st *world.StatefulSet, format string, args ...any) {
	events := []int64{st.Event.ID}
	if last := t.last().to; last != nil {
		events = append(events, last.Event.ID)
	}
	t.breaks(t.set.String(), st.Event.Span, events, "The status of %s, written at %s, was wrong: %s.", t.set,
		t.when(st.Event), fmt.Sprintf(format, args...))
}

// compare compares the status with the pods after an event, and records since when it has been wrong.
func (t *statusJudge) compare(e *history.Event) {
	why := t.mismatch()
	if why == "" || why != t.why {
		t.wrong, t.reported = 0, false
	}
	if t.why = why; why != "" && t.wrong == 0 {
		t.wrong = e.Span.NotAfter
	}
}

// mismatch says what in the status is wrong, "" if nothing.
func (t *statusJudge) mismatch() string {
	st := t.status
	if st == nil || st.Deleting() {
		return ""
	}
	last, c, wanted := t.last(), st.Status, st.Spec.Demand.Replicas
	updated, labelled := t.at(c.UpdateRevision)
	current, named := t.at(c.CurrentRevision)
	switch {
	case c.ObservedGeneration < st.Meta.Generation:
		return fmt.Sprintf("observedGeneration is %d, and the generation %d", c.ObservedGeneration, st.Meta.Generation)
	case c.Replicas != last.replicas:
		return fmt.Sprintf("replicas is %d, and there are %d", c.Replicas, last.replicas)
	case c.ReadyReplicas != last.ready:
		return fmt.Sprintf("readyReplicas is %d, and %d are Ready", c.ReadyReplicas, last.ready)
	case st.Spec.Demand.MinReady == 0 && c.AvailableReplicas != last.ready:
		return fmt.Sprintf("availableReplicas is %d, and %d are Ready", c.AvailableReplicas, last.ready)
	case labelled && c.UpdatedReplicas != updated:
		return fmt.Sprintf("updatedReplicas is %d, and %d are at %s", c.UpdatedReplicas, updated, c.UpdateRevision)
	case st.Spec.Demand.MinReady > 0 && c.AvailableReplicas < last.ready:
		return fmt.Sprintf("availableReplicas is %d, and %d have been Ready for more than minReadySeconds",
			c.AvailableReplicas, last.ready)
	// Before v1.37 nothing makes a revision the current one with another strategy: what was so before is not judged.
	case labelled && (rolling(st) || t.changes && wanted > 0) && c.CurrentRevision != c.UpdateRevision &&
		int(updated) == wanted && int(last.ready) == wanted && int(last.replicas) == wanted:
		return fmt.Sprintf("currentRevision is %s, and all %d pods are Ready at %s", c.CurrentRevision, updated,
			c.UpdateRevision)
	case named && c.CurrentReplicas != current:
		return fmt.Sprintf("currentReplicas is %d, and %d are at %s", c.CurrentReplicas, current, c.CurrentRevision)
	}
	return ""
}

// upTo demands that the status has not been wrong for longer than the bound by a time.
func (t *statusJudge) upTo(at history.Time) {
	if t.wrong == 0 || t.reported {
		return
	}
	from, minReady := max(t.wrong, t.changed), time.Duration(0)
	if t.status.Status.AvailableReplicas < t.last().ready { // Until then no pod is available.
		minReady = time.Duration(t.status.Spec.Demand.MinReady) * time.Second
	}
	if at.Sub(from) <= statusBound { // Most often.
		return
	}
	for _, span := range t.well(history.Between(from, at)) {
		bound := statusBound
		if span.NotBefore > from {
			bound = max(bound, t.trial.Plan.Bounds.Settle.D())
		}
		if span.Length() > bound+minReady && !t.blind(span.NotBefore, span.NotAfter) {
			t.reported = true
			t.breaks(t.set.String(), span, []int64{t.status.Event.ID}, "The status of %s was wrong from %s to %s: %s.",
				t.set, t.clock(span.NotBefore), t.clock(span.NotAfter), t.why)
			return
		}
	}
}
