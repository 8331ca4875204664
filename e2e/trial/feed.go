package trial

import (
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/e2e/world"
)

// The resources that moments are about.
const (
	claims = "persistentvolumeclaims"
	pods   = "pods"
)

// feed passes facts to the history, and keeps those that a step may wait for.
type feed struct {
	*rundir.HistoryWriter
	counting bool // The plan awaits a number of commits: inserts are kept too.
	events   *announcer

	mu      sync.Mutex
	kept    []arrival
	objects *world.Objects      // Decodes pods.
	paths   map[mountKey]string // The paths of mounts below the kubelet's directory.
	acked   map[string]int      // Operations, by instance.
	lastAck history.Time        // When the last of them was acknowledged.
	hurt    map[string]bool     // The instances that a fault hurt since a load step last waited for them.
	ending  map[string]bool     // The pods that were asked to end, by uid.
	stirred history.Time        // When the harness last saw a pod created, deleted, or asked to end.
	moved   chan struct{}       // Closed and replaced when a fact is kept.
}

// arrival is a fact that a step may wait for.
type arrival struct {
	history.Event
	at   history.Time // When the harness had it.
	pod  *podState    // Of a fact about a pod.
	path string       // Where a mount is, or was.
}

type mountKey struct {
	node, boot string
	id         uint64
}

func newFeed(w *rundir.HistoryWriter, p plan.Plan) *feed {
	f := &feed{
		HistoryWriter: w, objects: world.NewObjects(), ending: map[string]bool{}, moved: make(chan struct{}),
		paths: map[mountKey]string{}, acked: map[string]int{}, hurt: map[string]bool{},
	}
	for _, s := range p.AllSteps() {
		f.counting = f.counting || s.Await != nil &&
			(s.Await.For == plan.AwaitCommits || s.Await.For == plan.AwaitWrites)
	}
	return f
}

// Record passes a fact to the history and keeps it if a step may wait for it.
func (f *feed) Record(e history.Event) {
	f.HistoryWriter.Record(e)
	if e.Fault != nil {
		f.events.tell(*e.Fault)
	}
	f.see(e, bootclock.Now())
}

func (f *feed) see(e history.Event, now history.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := arrival{Event: e, at: now}
	switch {
	case e.Op != nil:
		if e.Op.Stage == history.StageOK {
			f.acked[e.Op.Instance]++
			f.lastAck = max(f.lastAck, e.Span.NotAfter)
		}
		if !f.counting || e.Op.F != history.OpInsert || e.Op.Stage != history.StageOK {
			return
		}
	case e.Object != nil:
		f.object(&a)
	case e.Mount != nil:
		if !f.mounted(&a) {
			return
		}
	case e.CSI == nil && e.Fault == nil && e.Version == nil:
		return
	}
	f.kept = append(f.kept, a)
	close(f.moved)
	f.moved = make(chan struct{})
}

// object reads a pod. The caller holds the lock.
func (f *feed) object(a *arrival) {
	o := a.Object
	if o.Resource != pods {
		return
	}
	known := len(f.objects.Pods.All)
	f.objects.Add(&history.Event{Kind: a.Kind, Span: a.Span, Object: o})
	if len(f.objects.Pods.All) == known {
		return // It cannot be read; the checks report that.
	}
	p := f.objects.Pods.All[known]
	a.pod = stateOf(p.Meta, p.Spec, &p.Status.PodStatus)
	a.pod.uid, a.pod.deleted = p.UID(), p.Deleted()
	a.pod.deleting = p.Deleting()
	if o.Verb != history.VerbModified || a.pod.deleting && !f.ending[o.UID] {
		f.stirred = a.at
	}
	if a.pod.deleting {
		f.ending[o.UID] = true
	}
}

// mounted finds the path of a mount that began or ended, and reports whether it did. The caller holds the lock.
func (f *feed) mounted(a *arrival) bool {
	m := a.Mount
	key := mountKey{m.Node, m.Boot, m.MountID}
	if m.Action == history.MountDetach {
		a.path = f.paths[key]
		delete(f.paths, key)
		return a.path != ""
	}
	if !strings.HasPrefix(m.Path, "/var/lib/kubelet/") {
		return false
	}
	f.paths[key], a.path = m.Path, m.Path
	return m.Action == history.MountAttach
}

func (f *feed) hurts(instance string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hurt[instance] = true
}

// victims returns the number of acknowledged operations of each hurt instance, and forgets that they were hurt.
func (f *feed) victims() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	acked := map[string]int{}
	for instance := range f.hurt {
		acked[instance] = f.acked[instance]
	}
	clear(f.hurt)
	return acked
}

func (f *feed) acknowledged(instance string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.acked[instance]
}

// total returns how many operations were acknowledged, and when the last one was.
func (f *feed) total() (acked int, last history.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.acked {
		acked += n
	}
	return acked, f.lastAck
}

// after returns the kept facts but the first n, and a channel that is closed when there are more.
func (f *feed) after(n int) ([]arrival, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.kept[n:], f.moved
}

// lastStir returns when the harness last saw a pod created, deleted, or asked to end, and a channel that is closed when
// there are more facts.
func (f *feed) lastStir() (history.Time, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stirred, f.moved
}

// podState is what a step may wait for of a pod.
type podState struct {
	uid, node, revision string
	phase               corev1.PodPhase
	deleting            bool // It has a deletionTimestamp, or is deleted.
	deleted             bool
	ready               bool
	begun               bool // Its containers were started, or cannot be.
	unschedulable       bool // The scheduler finds no node for it.
}

func stateOf(meta *metav1.ObjectMeta, spec *corev1.PodSpec, status *corev1.PodStatus) *podState {
	s := &podState{
		uid: string(meta.UID), deleting: meta.DeletionTimestamp != nil, node: spec.NodeName, phase: status.Phase,
		revision: meta.Annotations[plan.RevisionAnnotation],
	}
	if s.revision == "" {
		s.revision = plan.RevisionFirst
	}
	for _, c := range status.Conditions {
		switch c.Type {
		case corev1.PodReady:
			s.ready = c.Status == corev1.ConditionTrue
		case corev1.PodScheduled:
			s.unschedulable = c.Status == corev1.ConditionFalse
		}
	}
	for _, c := range status.ContainerStatuses {
		stuck := c.State.Waiting != nil && c.State.Waiting.Reason != "ContainerCreating" &&
			c.State.Waiting.Reason != "PodInitializing"
		s.begun = s.begun || stuck || c.State.Running != nil || c.State.Terminated != nil
	}
	return s
}

// is reports whether a pod is in the state that begins at a moment.
func (s *podState) is(moment, revision string) bool {
	if s == nil {
		return false
	}
	switch moment {
	case plan.AwaitGone:
		return s.deleted
	case plan.AwaitTerminating:
		return s.deleting
	case plan.AwaitCreated:
		return !s.deleted
	case plan.AwaitScheduled:
		return !s.deleted && s.node != ""
	case plan.AwaitPending:
		return !s.deleted && s.unschedulable
	case plan.AwaitReady:
		return s.ready && !s.deleting
	case plan.AwaitUnready:
		return s.begun && !s.ready && !s.deleting
	case plan.AwaitUpdated:
		return s.ready && !s.deleting && s.revision == revision
	}
	return false
}

// String describes the state for an error.
func (s *podState) String() string {
	if s.deleted {
		return fmt.Sprintf("(uid %s) deleted", s.uid)
	}
	return fmt.Sprintf("(uid %s) %s on node %q, revision %q, ready %t, terminating %t", s.uid, s.phase, s.node,
		s.revision, s.ready, s.deleting)
}
