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

// StampSlack is by how much two times that two machines stamped may differ from the truth, beside that they are cut off
// to the second. On kind all nodes have one clock; elsewhere they are kept by NTP.
const StampSlack = 2 * time.Second

// PodState is one pod at one resourceVersion.
type PodState struct {
	*Pod
	Life     *PodLife
	Revision string         // The label controller-revision-hash.
	Lost     *history.Event // Since when it has not been Running and Ready, having been so; nil when it never was.
}

// PodLife is one pod, told by its uid, from its creation to its end. What never changes in a pod is kept here.
type PodLife struct {
	UID, Name, Namespace string
	Node                 string // Where it was put, "" while it was nowhere.
	Claims               []ClaimUse
	Set                  *Set // The StatefulSet whose pods have such names, nil for a pod of something else.
	Ordinal              int
	Owned                bool        // A StatefulSet of that name is its controller.
	States               []*PodState // In the order of their resourceVersions.
	First, Asked, End    *PodState   // Where it was first seen, where its end was asked for, where it was gone.

	read bool // What is set at creation is known.
}

// Pods are all pods that were seen.
type Pods struct {
	ByUID map[string]*PodLife
	All   []*PodLife // As they were first seen.

	states []*PodState // Of all, in the order of their resourceVersions.
	room   arena[PodState]
}

// readPods reads them. resourceVersions grow in the order in which the API server stored what has them (KEP-5504).
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
		p.states = append(p.states, l.add(o, p.room.next()))
	}
	return p
}

// Last returns the last pod of a name, nil when none was seen.
func (p *Pods) Last(name string) *PodLife {
	for _, l := range slices.Backward(p.All) {
		if l.Name == name {
			return l
		}
	}
	return nil
}

// add takes the next state in.
func (l *PodLife) add(o *Pod, p *PodState) *PodState {
	*p = PodState{Pod: o, Life: l, Revision: o.Meta.Labels[appsv1.ControllerRevisionHashLabelKey]}
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

// member returns the name of the StatefulSet that a pod belongs to by its name, false when it has another owner.
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

// OrdinalOf takes the name of a StatefulSet's pod apart (pkg/controller/statefulset, getParentNameAndOrdinal).
func OrdinalOf(pod string) (set string, ordinal int, ok bool) {
	i := strings.LastIndexByte(pod, '-')
	if i < 0 {
		return "", 0, false
	}
	ordinal, err := strconv.Atoi(pod[i+1:])
	return pod[:i], ordinal, err == nil && ordinal >= 0 && strconv.Itoa(ordinal) == pod[i+1:]
}

// Uses reports whether a claim of that name is among the pod's.
func (l *PodLife) Uses(claim string) bool {
	return slices.ContainsFunc(l.Claims, func(c ClaimUse) bool { return c.Claim == claim })
}

// Before returns the last state before a resourceVersion, nil where there is none.
func (l *PodLife) Before(version uint64) *PodState {
	i, _ := slices.BinarySearchFunc(l.States, version,
		func(p *PodState, v uint64) int { return cmp.Compare(p.Version, v) })
	if i == 0 {
		return nil
	}
	return l.States[i-1]
}

// Healthy reports that the pod is Running and Ready.
func (p *PodState) Healthy() bool { return p.Status.Running && p.Status.Ready && !p.Deleted() }

// Made reports that the state is that of a pod just created, by its StatefulSet.
func (p *PodState) Made() bool {
	return p == p.Life.First && p.Event.Object.Verb == history.VerbAdded && p.Life.Owned
}

// AskedToEnd reports that the state is the first one of a pod whose end was asked for, and that this was seen.
func (p *PodState) AskedToEnd() bool { return p == p.Life.Asked && !p.Guessed() && p != p.Life.First }

// EndAsked is when its end was asked for, by the clock of the API server in seconds since 1970; 0 if unknown.
func (p *PodState) EndAsked() int64 {
	at := Seconds(p.Meta.DeletionTimestamp)
	if grace := p.Meta.DeletionGracePeriodSeconds; at != 0 && grace != nil {
		at -= *grace
	}
	return at
}

// Waiting reports that the pod had not been Ready for minReady seconds when something else was stamped: certainly, by
// times that are cut off to the second and may be of two clocks.
func (p *PodState) Waiting(minReady, stamp int64) bool {
	return minReady > 0 && p.Status.ReadySince != 0 && stamp != 0 &&
		stamp+1+int64(StampSlack.Seconds()) <= p.Status.ReadySince+minReady
}

// Images returns the images of its containers.
func (p *PodState) Images() string { return Images(p.Spec.Containers) }

// Describe says in words what a pod is; it takes nil, for a pod that is not there.
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

// Down reports that a pod was certainly known not to be Running and Ready, or to be on its way out, by one who knew all
// that was so at since. It takes nil, for a pod that is not there.
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

// wasHealthy reports that a pod had been Running and Ready by a version.
func (l *PodLife) wasHealthy(version uint64) bool {
	return slices.ContainsFunc(l.States, func(p *PodState) bool { return p.Version <= version && p.Healthy() })
}

// Seconds returns a time as seconds since 1970, 0 where there is none.
func Seconds(t *metav1.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}
