package world

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/seatrial/seatrial/chaos/history"
)

// CacheLag is how stale a controller's view may be: controllers read from a cache that a watch updates, so a pod that
// lost its readiness a moment ago may still count as ready.
const CacheLag = 2 * time.Second

// Sets holds the recorded StatefulSets with their pods and revisions, sorted by resourceVersion.
//
// That is the order in which the API server stored them: resourceVersions of one resource are growing numbers
// (KEP-5504, Kubernetes 1.35). Comparing versions of different resources assumes that all are in one etcd, which is so
// unless --etcd-servers-overrides is set.
type Sets struct {
	All  []*Set // Sorted by key; includes sets of which only pods or revisions were seen.
	Pods *Pods  // All pods, of a StatefulSet or not.
	Wall WallClock

	byKey   map[string]*Set
	deletes map[string][]history.Span // SuccessfulDelete Events of the StatefulSet controller, by pod key.
}

// Set is everything recorded for one namespace and name: the successive StatefulSets of that name, and their pods.
type Set struct {
	Namespace, Name string
	Versions        []*StatefulSet
	Revisions       []*Revision
	States          []*PodState        // States of its pods, sorted by resourceVersion.
	Pods            []*PodLife         // In the order in which they were first seen.
	ByOrdinal       map[int][]*PodLife // In the same order.
	Released        *PodState          // The first that the StatefulSet, which stays, no longer controls; or nil.
}

// String names the StatefulSet, as findings print it.
func (s *Set) String() string { return "StatefulSet " + s.Name }

func readSets(w *World) *Sets {
	o := w.Objects()
	s := &Sets{Pods: readPods(w), byKey: map[string]*Set{}, deletes: map[string][]history.Span{}}
	for _, st := range o.StatefulSets.All {
		s.Wall.stamped(st.Event, Seconds(&st.Meta.CreationTimestamp))
		s.at(st.Event.Object.Namespace, st.Name()).Versions = o.StatefulSets.ByKey[st.Key()]
	}
	for _, l := range s.Pods.All {
		if name, ok := l.member(); ok {
			l.Set = s.at(l.Namespace, name)
			l.Set.Pods = append(l.Set.Pods, l)
			l.Set.ByOrdinal[l.Ordinal] = append(l.Set.ByOrdinal[l.Ordinal], l)
		}
	}
	for _, p := range s.Pods.states {
		if set := p.Life.Set; set != nil {
			set.States = append(set.States, p)
			s.Wall.stamped(p.Event, Seconds(&p.Meta.CreationTimestamp))
		}
	}
	for _, r := range o.Revisions.All {
		owner := ""
		for _, ref := range r.Meta.OwnerReferences {
			owner = ref.Name
		}
		set := s.at(r.Event.Object.Namespace, owner)
		set.Revisions = append(set.Revisions, r)
	}
	for _, n := range o.Notices.All {
		// The StatefulSet controller emits this Event after it deleted a pod (pkg/controller/statefulset,
		// recordPodEvent). A missing Event proves nothing: Events are rate-limited. One that is listed may be old.
		words := strings.Fields(n.Spec.Message)
		if !n.Deleted() && n.Event.Object.Verb != history.VerbListed && n.Spec.Reason == "SuccessfulDelete" &&
			n.Spec.InvolvedObject.Kind == "StatefulSet" && len(words) > 2 &&
			strings.EqualFold(words[0], "delete") && words[1] == "Pod" {
			key := Key(n.Event.Object.Namespace, words[2])
			s.deletes[key] = append(s.deletes[key], n.Event.Span)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.byKey)) {
		set := s.byKey[key]
		slices.SortStableFunc(set.Revisions, func(a, b *Revision) int { return cmp.Compare(a.Version, b.Version) })
		set.Released = set.released()
		s.All = append(s.All, set)
	}
	for _, all := range s.deletes {
		slices.SortFunc(all, func(a, b history.Span) int { return cmp.Compare(a.NotAfter, b.NotAfter) })
	}
	return s
}

// released returns the first state in which a pod has no longer the controller that it had, and which is there and
// stays: a controller releases a pod whose labels no longer match its selector (pkg/controller,
// PodControllerRefManager).
func (s *Set) released() *PodState {
	owners := map[*PodLife]types.UID{}
	for _, p := range s.States {
		if p.Guessed() || p.Deleted() {
			continue
		}
		var owner types.UID
		if ref := metav1.GetControllerOfNoCopy(p.Meta); ref != nil {
			owner = ref.UID
		}
		was, st := owners[p.Life], s.At(p.Version)
		if was != "" && was != owner && st != nil && st.UID() == string(was) && !st.Deleting() && !st.Deleted() {
			return p
		}
		owners[p.Life] = owner
	}
	return nil
}

// at returns the Set of a namespace and name; it adds one if there is none.
func (s *Sets) at(namespace, name string) *Set {
	key := Key(namespace, name)
	set := s.byKey[key]
	if set == nil {
		set = &Set{Namespace: namespace, Name: name, ByOrdinal: map[int][]*PodLife{}}
		s.byKey[key] = set
	}
	return set
}

// Seen returns the Sets that have at least one version, sorted by key.
func (s *Sets) Seen() []*Set {
	return slices.DeleteFunc(slices.Clone(s.All), func(set *Set) bool { return len(set.Versions) == 0 })
}

// Named returns the StatefulSet of that name, never nil. One that was never seen has no versions but may have pods.
func (s *Sets) Named(name string) *Set {
	var found *Set
	for _, set := range s.All {
		if set.Name == name && (found == nil || len(found.Versions) == 0 && len(set.Versions) > 0) {
			found = set
		}
	}
	return cmp.Or(found, &Set{Name: name})
}

// LastFact returns when the last change of a StatefulSet or of one of its pods became known.
func (s *Sets) LastFact() history.Time {
	var last history.Time
	for _, set := range s.All {
		if n := len(set.States); n > 0 {
			last = max(last, set.States[n-1].Event.Span.NotAfter)
		}
		if n := len(set.Versions); n > 0 {
			last = max(last, set.Versions[n-1].Event.Span.NotAfter)
		}
	}
	return last
}

// Deletions returns the times of the Events by which the StatefulSet controller reported deleting a pod of that name.
func (s *Sets) Deletions(namespace, pod string) []history.Span { return s.deletes[Key(namespace, pod)] }

// At returns the StatefulSet in force at a resourceVersion, nil if unknown.
func (s *Set) At(version uint64) *StatefulSet {
	if i := s.index(version); i >= 0 {
		return s.Versions[i]
	}
	return nil
}

// index returns the index of the last version up to a resourceVersion, -1 if there is none.
func (s *Set) index(version uint64) int {
	return sort.Search(len(s.Versions), func(i int) bool { return s.Versions[i].Version > version }) - 1
}

// Around returns the versions that a controller may have acted on when it made a change, newest first: the one in force
// at the change's resourceVersion, and every one in force at some time after since.
func (s *Set) Around(version uint64, since history.Time) []*StatefulSet {
	var states []*StatefulSet
	for i := s.index(version); i >= 0; i-- {
		if s.Versions[i].Guessed() {
			continue
		}
		states = append(states, s.Versions[i])
		if s.Versions[i].Event.Span.NotAfter < since {
			break
		}
	}
	return states
}

// RevisionsFor returns the current and the update revisions that a controller may have known when it made a change: it
// creates a new one before it acts and writes it into the status afterwards (pkg/controller/statefulset,
// performUpdate).
func (s *Set) RevisionsFor(version uint64, at history.Span, since history.Time) (current, update []string) {
	states := s.Around(version, since)
	for i := s.index(version) + 1; i < len(s.Versions); i++ {
		states = append(states, s.Versions[i])
		if s.Versions[i].Event.Span.NotBefore > at.NotAfter.Add(CacheLag) {
			break
		}
	}
	update = append(update, s.newestRevision(version))
	for _, st := range states {
		current = append(current, st.Status.CurrentRevision)
		update = append(update, st.Status.UpdateRevision)
	}
	return distinct(current), distinct(update)
}

// distinct returns the names, sorted, without the empty one.
func distinct(names []string) []string {
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}

// newestRevision returns the name of the ControllerRevision with the highest number at a resourceVersion, which is the
// update revision from its creation on; "" if there is none.
func (s *Set) newestRevision(version uint64) string {
	number, name := int64(-1), ""
	for _, r := range s.Revisions {
		if r.Version > version {
			break
		}
		if r.Spec.Revision >= number {
			number, name = r.Spec.Revision, r.Name()
		}
	}
	return name
}

// ImagesOf returns the images in the pod template of a revision, "" if unknown.
func (s *Set) ImagesOf(name string) string {
	for _, r := range s.Revisions {
		var data struct {
			Spec appsv1.StatefulSetSpec `json:"spec"`
		}
		if r.Name() == name && json.Unmarshal(r.Spec.Data.Raw, &data) == nil {
			if images := Images(data.Spec.Template.Spec.Containers); images != "" {
				return images
			}
		}
	}
	return ""
}

// ClaimOrdinal returns the ordinal in a claim's name, TEMPLATE-SET-ORDINAL; false if the claim is not of this set.
// claim is the claim's Key.
func (s *Set) ClaimOrdinal(claim string) (int, bool) {
	name, ok := strings.CutPrefix(claim, s.Namespace+"/")
	if !ok {
		return 0, false
	}
	head, ordinal, ok := OrdinalOf(name)
	if !ok {
		return 0, false
	}
	template, ok := strings.CutSuffix(head, "-"+s.Name)
	return ordinal, ok && slices.ContainsFunc(s.Versions, func(st *StatefulSet) bool {
		return slices.Contains(st.Spec.Templates, template)
	})
}

// WallClock bounds the offset of the API server's clock from the boot clock: a creationTimestamp is truncated to the
// second, and an object is stored after it was stamped.
type WallClock struct {
	known  bool
	lo, hi history.Time // Nanoseconds since 1970 at boot.
}

// stamped narrows the bounds by an object's creation; stamp is its creationTimestamp in seconds since 1970.
func (c *WallClock) stamped(e *history.Event, stamp int64) {
	if e.Object.Verb != history.VerbAdded || stamp == 0 {
		return
	}
	at := history.Time(stamp * 1e9)
	lo, hi := at-e.Span.NotAfter, at.Add(1e9)-e.Span.NotBefore
	if !c.known {
		*c = WallClock{true, lo, hi}
		return
	}
	c.lo, c.hi = max(c.lo, lo), min(c.hi, hi)
}

// Between returns the earliest and latest API server time in span, in seconds since 1970. It returns false if the
// timestamps contradict each other or there are none.
func (c *WallClock) Between(span history.Span) (from, to float64, ok bool) {
	lo, hi := min(c.lo, c.hi), max(c.lo, c.hi)
	return float64(span.NotBefore+lo) / 1e9, float64(span.NotAfter+hi) / 1e9,
		c.known && hi.Sub(lo) < 2*StampSlack && c.hi.Add(StampSlack) >= c.lo
}
