package check

import (
	appsv1 "k8s.io/api/apps/v1"

	"fmt"
	"math"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// twin is a pod of no StatefulSet that says that it is one of a StatefulSet's: it has the host name and the subdomain,
// and so the DNS name, of that one, or the label that a Service finds it by.
type twin struct {
	event                *history.Event // When it was first seen to.
	namespace, name, uid string
	of                   string // The name of the pod that it says it is.
	from, to             uint64 // The versions from which on, and up to which, it was there.
}

// noteTwin remembers a pod that says that it is another.
func (w *setWatch) noteTwin(o *world.Pod) {
	for i := range w.twins {
		if t := &w.twins[i]; t.uid == o.UID() {
			if o.Deleted() {
				t.to = o.Version
			}
			return
		}
	}
	t := twin{event: o.Event, namespace: o.Event.Object.Namespace, name: o.Name(), uid: o.UID(), from: o.Version,
		to: math.MaxUint64}
	switch labelled := o.Meta.Labels[appsv1.StatefulSetPodNameLabel]; {
	case labelled != "" && labelled != o.Name():
		t.of = labelled
	case o.Spec.Hostname != "" && o.Spec.Subdomain != "" && o.Spec.Hostname != o.Name():
		t.of = o.Spec.Hostname
	default:
		return
	}
	w.twins = append(w.twins, t)
}

// twins holds that no other pod has the identity of one of the StatefulSet's while that is there.
func (j *setJudge) twins(set *setLife) {
	for _, t := range j.watch.twins {
		parent, ordinal, ok := ordinalOf(t.of)
		if !ok || t.namespace != set.namespace || parent != set.name || j.late(t.event) {
			continue
		}
		for _, l := range set.order {
			end := uint64(math.MaxUint64)
			if l.end != nil {
				end = l.end.Version
			}
			if l.ordinal != ordinal || max(l.first.Version, t.from) >= min(end, t.to) {
				continue
			}
			j.breach("pod "+l.name, t.event.Span, fmt.Sprintf("Pod %s (uid %s), which no StatefulSet made, had the "+
				"identity of pod %s (uid %s) from %s on, while that was there: two pods have one name in the DNS, or "+
				"one label.", t.name, t.uid, l.name, l.uid, j.clock(t.event)), t.event.ID, l.first.Event.ID)
			break
		}
	}
}
