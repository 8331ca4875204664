package check

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strconv"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// podState is one pod at one resourceVersion.
type podState struct {
	*world.Pod
	pod      *podLife
	revision string         // The label controller-revision-hash.
	lost     *history.Event // Since when it has not been Running and Ready, having been so; nil when it never was.
}

func (p *podState) images() string { return world.Images(p.Spec.Containers) }

// endAsked is when its end was asked for, by the clock of the API server in seconds since 1970; 0 if unknown.
func (p *podState) endAsked() int64 {
	at := seconds(p.Meta.DeletionTimestamp)
	if grace := p.Meta.DeletionGracePeriodSeconds; at != 0 && grace != nil {
		at -= *grace
	}
	return at
}

// podLife is one pod, told by its uid, from its creation to its end. What never changes in a pod is kept here.
type podLife struct {
	set                 *setLife
	name, uid           string
	ordinal             int
	owned               bool // A StatefulSet of that name is its controller.
	created             int64
	hostname, subdomain string
	labelled, index     string // statefulset.kubernetes.io/pod-name and apps.kubernetes.io/pod-index.
	claims              []world.ClaimUse
	fixed               bool // It was read once: what is set at creation is known.
	states              []*podState
	first, asked, end   *podState // Where it was first seen, where its end was asked for, where it was gone.
}

// ordinalOf takes the name of a StatefulSet's pod apart (pkg/controller/statefulset, getParentNameAndOrdinal).
func ordinalOf(pod string) (set string, ordinal int, ok bool) {
	i := strings.LastIndexByte(pod, '-')
	if i < 0 {
		return "", 0, false
	}
	ordinal, err := strconv.Atoi(pod[i+1:])
	return pod[:i], ordinal, err == nil && ordinal >= 0 && strconv.Itoa(ordinal) == pod[i+1:]
}

func (w *setWatch) addPod(o *world.Pod) {
	namespace := o.Event.Object.Namespace
	set, ordinal, ok := ordinalOf(o.Name())
	owner := metav1.GetControllerOfNoCopy(o.Meta)
	owned := ok && owner != nil && owner.Kind == "StatefulSet" && owner.Name == set
	if !ok || owner != nil && !owned {
		for _, c := range world.ClaimUses(o.Spec) {
			w.users[namespace+"/"+c.Claim] = true
		}
		if !ok {
			w.noteTwin(o)
		}
		return
	}
	life := w.life(namespace, set)
	p := life.lives[o.UID()]
	if p == nil {
		p = &podLife{set: life, name: o.Name(), uid: o.UID(), ordinal: ordinal}
		life.lives[p.uid] = p
	}
	if !p.fixed && !o.Guessed() {
		p.fixed, p.owned, p.claims = true, owned, world.ClaimUses(o.Spec)
		p.created = seconds(&o.Meta.CreationTimestamp)
		p.hostname, p.subdomain = o.Spec.Hostname, o.Spec.Subdomain
		p.labelled, p.index = o.Meta.Labels[appsv1.StatefulSetPodNameLabel], o.Meta.Labels[appsv1.PodIndexLabel]
	}
	st := w.newPod()
	*st = podState{Pod: o, pod: p, revision: o.Meta.Labels[appsv1.ControllerRevisionHashLabelKey]}
	life.pods = append(life.pods, st)
	w.stamped(o.Event, o.Meta)
}

// seconds returns a time as seconds since 1970, 0 where there is none.
func seconds(t *metav1.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// newPod returns room for one state; rooms are made many at a time.
func (w *setWatch) newPod() *podState {
	if len(w.pool) == 0 {
		w.pool = make([]podState, 512)
	}
	st := &w.pool[0]
	w.pool = w.pool[1:]
	return st
}

// connect tells each pod's states from each other, now that they are in order.
func (s *setLife) connect() {
	for _, p := range s.pods {
		l := p.pod
		var old *podState
		if n := len(l.states); n > 0 {
			old = l.states[n-1]
		}
		switch {
		case old == nil:
			l.first = p
			s.order = append(s.order, l)
			s.byOrdinal[l.ordinal] = append(s.byOrdinal[l.ordinal], l)
		case !p.ok():
			p.lost = old.lost
			if old.ok() {
				p.lost = p.Event
			}
		}
		if p.Deleting() && l.asked == nil {
			l.asked = p
		}
		if p.Deleted() && l.end == nil {
			l.end = p
		}
		l.states = append(l.states, p)
	}
}
