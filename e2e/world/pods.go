package world

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/history"
)

// StampSlack bounds the clock error between timestamps of two machines, on top of their truncation to the second. On
// kind all nodes share one clock; elsewhere NTP keeps them close.
const StampSlack = 2 * time.Second

// PodState is one pod at one resourceVersion.
type PodState struct {
	*Pod
	Life     *PodLife
	Revision string         // Label controller-revision-hash.
	Lost     *history.Event // When it stopped being Running and Ready; nil if it is both or never was.
}

// PodLife is one pod, identified by its uid, from its creation to its end, with the fields that never change.
type PodLife struct {
	UID, Name, Namespace string
	Node                 string // The node it was scheduled to, "" if none.
	Claims               []ClaimUse
	Set                  *Set // The StatefulSet that it belongs to by its name, nil for a pod of another owner.
	Ordinal              int
	Owned                bool        // A StatefulSet of that name is its controller.
	States               []*PodState // Sorted by resourceVersion.
	First, Asked, End    *PodState   // The first state, the first with a deletionTimestamp, the end; nil if not seen.

	read bool // Claims was read from a state with content.
}

// Pods holds all recorded pods.
type Pods struct {
	ByUID map[string]*PodLife
	All   []*PodLife // In the order in which they were first seen.

	states []*PodState // States of all pods, sorted by resourceVersion.
}

// readPods reads the pods. resourceVersions grow in the order in which the API server stored the objects (KEP-5504).
func readPods(w *World) *Pods {
	versions := w.Objects().Pods.All
	byVersion := func(a, b *Pod) int { return cmp.Compare(a.Version, b.Version) }
	if !slices.IsSortedFunc(versions, byVersion) {
		versions = slices.Clone(versions)
		slices.SortStableFunc(versions, byVersion)
	}
	p := &Pods{ByUID: map[string]*PodLife{}, states: make([]*PodState, 0, len(versions))}
	for _, o := range versions {
		l := p.ByUID[o.UID()]
		if l == nil {
			l = &PodLife{UID: o.UID(), Name: o.Name(), Namespace: o.Event.Object.Namespace}
			p.ByUID[l.UID] = l
			p.All = append(p.All, l)
		}
		p.states = append(p.states, l.add(o))
	}
	return p
}

// Last returns the last pod of a name, nil if there is none.
func (p *Pods) Last(name string) *PodLife {
	for _, l := range slices.Backward(p.All) {
		if l.Name == name {
			return l
		}
	}
	return nil
}

// add adds the pod's next state.
func (l *PodLife) add(o *Pod) *PodState {
	p := &PodState{Pod: o, Life: l, Revision: o.Meta.Labels[appsv1.ControllerRevisionHashLabelKey]}
	if !l.read && !o.Guessed() {
		l.read, l.Claims = true, ClaimUses(o.Spec)
	}
	l.Node = cmp.Or(l.Node, o.Spec.NodeName)
	if n := len(l.States); n == 0 {
		l.First = p
	} else if old := l.States[n-1]; !p.Healthy() {
		p.Lost = old.Lost
		if old.Healthy() {
			p.Lost = p.Event
		}
	}
	if p.Deleting() && l.Asked == nil {
		l.Asked = p
	}
	if p.Deleted() && l.End == nil {
		l.End = p
	}
	l.States = append(l.States, p)
	return p
}

// member returns the name of the StatefulSet that a pod belongs to by its name, false if it has another owner.
func (l *PodLife) member() (set string, ok bool) {
	set, ordinal, ok := OrdinalOf(l.Name)
	if !ok {
		return "", false
	}
	l.Ordinal = ordinal
	for _, p := range l.States {
		if p.Guessed() {
			continue
		}
		owner := metav1.GetControllerOfNoCopy(p.Meta)
		l.Owned = owner != nil && owner.Kind == "StatefulSet" && owner.Name == set
		return set, owner == nil || l.Owned
	}
	return set, true
}

// OrdinalOf splits a pod name into StatefulSet and ordinal (pkg/controller/statefulset, getParentNameAndOrdinal).
func OrdinalOf(pod string) (set string, ordinal int, ok bool) {
	i := strings.LastIndexByte(pod, '-')
	if i < 0 {
		return "", 0, false
	}
	ordinal, err := strconv.Atoi(pod[i+1:])
	return pod[:i], ordinal, err == nil && ordinal >= 0 && strconv.Itoa(ordinal) == pod[i+1:]
}

// Uses reports whether the pod uses a claim of that name.
func (l *PodLife) Uses(claim string) bool {
	return slices.ContainsFunc(l.Claims, func(c ClaimUse) bool { return c.Claim == claim })
}

// Before returns the last state before a resourceVersion, nil if there is none.
func (l *PodLife) Before(version uint64) *PodState {
	return last(l.States, func(p *PodState) bool { return p.Version >= version })
}

// Healthy reports whether the pod is Running and Ready.
func (p *PodState) Healthy() bool { return p.Status.Running && p.Status.Ready && !p.Deleted() }

// Made reports whether this is the creation of a pod by its StatefulSet.
func (p *PodState) Made() bool {
	return p == p.Life.First && p.Event.Object.Verb == history.VerbAdded && p.Life.Owned
}

// AskedToEnd reports whether the deletion request of the pod was seen, and this is the first state that shows it.
func (p *PodState) AskedToEnd() bool { return p == p.Life.Asked && !p.Guessed() && p != p.Life.First }

// EndAsked is when its deletion was requested, in seconds since 1970 by the API server's clock; 0 if unknown.
func (p *PodState) EndAsked() int64 {
	at := Seconds(p.Meta.DeletionTimestamp)
	if grace := p.Meta.DeletionGracePeriodSeconds; at != 0 && grace != nil {
		at -= *grace
	}
	return at
}

// Waiting reports whether the pod had certainly been Ready for less than minReady seconds at stamp. It allows for
// truncation to the second and for the error between two clocks.
func (p *PodState) Waiting(minReady, stamp int64) bool {
	return minReady > 0 && p.Status.ReadySince != 0 && stamp != 0 &&
		stamp+1+int64(StampSlack.Seconds()) <= p.Status.ReadySince+minReady
}

// Images returns the function Images of its containers.
func (p *PodState) Images() string { return Images(p.Spec.Containers) }

// Describe returns the pod's condition in words. The receiver may be nil: a pod that does not exist.
func (p *PodState) Describe() string {
	switch {
	case p == nil || p.Deleted():
		return "not there"
	case p.Deleting():
		return "terminating"
	case !p.Status.Running:
		return "not Running"
	case !p.Status.Ready:
		return "Running and not Ready"
	}
	return "there"
}

// Down reports whether the pod was already not Running and Ready, or terminating, before since: a controller whose
// cache is no older than since certainly knew it. The receiver may be nil: a pod that does not exist.
func (p *PodState) Down(since history.Time) bool {
	switch {
	case p == nil:
		return true
	case p.Healthy() && !p.Deleting():
		return false
	}
	from := p.Lost
	if asked := p.Life.Asked; asked != nil && asked.Version <= p.Version &&
		(from == nil && p.Life.wasHealthy(asked.Version) ||
			from != nil && asked.Event.Span.NotAfter < from.Span.NotAfter) {
		from = asked.Event
	}
	return from == nil || from.Span.NotAfter < since
}

// wasHealthy reports whether the pod was Running and Ready in some state up to a resourceVersion.
func (l *PodLife) wasHealthy(version uint64) bool {
	return slices.ContainsFunc(l.States, func(p *PodState) bool { return p.Version <= version && p.Healthy() })
}

// Seconds returns a time as seconds since 1970, 0 for nil or zero.
func Seconds(t *metav1.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}
