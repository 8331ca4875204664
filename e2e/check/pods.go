package check

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/seatrial/seatrial/e2e/history"
)

// The observers of the API objects that the order of a StatefulSet is judged from.
const (
	podsObserver = "api/pods"
	setsObserver = "api/statefulsets"
)

// podState is one pod of the StatefulSet at one resourceVersion.
type podState struct {
	event     *history.Event
	version   uint64
	name      string
	ordinal   int
	uid       string
	running   bool
	ready     bool
	deleting  bool // It has a deletionTimestamp, or is deleted.
	deleted   bool
	guessed   bool           // It was missing in a list after a gap: that it was deleted is all there is to know.
	disrupted bool           // Something other than the StatefulSet asked for its end.
	lost      *history.Event // Since when it has not been Running and Ready, having been so; nil when it never was.
}

// setState is the StatefulSet at one resourceVersion.
type setState struct {
	version  uint64
	event    *history.Event
	replicas int
	start    int
	parallel bool
	deleting bool
}

// podWatch is what the API watch saw of one StatefulSet and its pods, each in the order of their resourceVersions.
//
// That order is the order in which the API server stored them: resourceVersions of one resource are numbers that grow
// (KEP-5504, Kubernetes 1.35). Pods and StatefulSets are compared too, which holds where both are in one etcd, as
// they are unless --etcd-servers-overrides says otherwise.
type podWatch struct {
	pods    []*podState
	sets    []*setState
	gaps    []history.Span // In which pods or StatefulSets were not seen.
	on      map[string]bool
	alive   history.Time // The last sign of life of the API watch, of whatever resource.
	strange int          // Events that have no place in the order.
}

// podJSON is the part of a pod that is read.
type podJSON struct {
	Metadata struct {
		DeletionTimestamp *string `json:"deletionTimestamp"`
		OwnerReferences   []struct {
			Kind string `json:"kind"`
			Name string `json:"name"`
		} `json:"ownerReferences"`
	} `json:"metadata"`
	Status struct {
		Phase      string `json:"phase"`
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

// setJSON is the part of a StatefulSet that is read.
type setJSON struct {
	Metadata struct {
		DeletionTimestamp *string `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		Replicas            *int   `json:"replicas"`
		PodManagementPolicy string `json:"podManagementPolicy"`
		Ordinals            *struct {
			Start int `json:"start"`
		} `json:"ordinals"`
	} `json:"spec"`
}

// readPods reads the watch of the StatefulSet of that name.
func readPods(h history.History, set string) *podWatch {
	w := &podWatch{on: map[string]bool{}}
	namespace := namespaceOf(h, set)
	for i := range h.Events {
		e := &h.Events[i]
		if e.Kind == history.KindObserver && e.Observer != nil {
			w.observe(e)
		}
		if e.Kind != history.KindObject || e.Object == nil {
			continue
		}
		w.alive = max(w.alive, e.Span.NotAfter)
		switch o := e.Object; {
		case namespace != nil && o.Namespace != *namespace:
		case o.Resource == "pods":
			w.addPod(e, set)
		case o.Resource == "statefulsets" && o.Name == set:
			w.addSet(e)
		}
	}
	slices.SortStableFunc(w.pods, func(a, b *podState) int { return cmp.Compare(a.version, b.version) })
	slices.SortStableFunc(w.sets, func(a, b *setState) int { return cmp.Compare(a.version, b.version) })
	return w
}

// namespaceOf returns the namespace of the first StatefulSet of that name, nil when none was seen.
func namespaceOf(h history.History, set string) *string {
	for i := range h.Events {
		e := &h.Events[i]
		if e.Kind == history.KindObject && e.Object != nil && e.Object.Resource == "statefulsets" &&
			e.Object.Name == set {
			return &e.Object.Namespace
		}
	}
	return nil
}

func (w *podWatch) observe(e *history.Event) {
	if strings.HasPrefix(e.Observer.Name, "api/") && e.Observer.State == history.ObserverBeat {
		w.alive = max(w.alive, e.Span.NotAfter)
	}
	if e.Observer.Name != podsObserver && e.Observer.Name != setsObserver {
		return
	}
	switch e.Observer.State {
	case history.ObserverOn:
		w.on[e.Observer.Name] = true
	case history.ObserverGap, history.ObserverLoss:
		w.gaps = append(w.gaps, e.Span)
	}
}

func (w *podWatch) addPod(e *history.Event, set string) {
	o := e.Object
	suffix, ok := strings.CutPrefix(o.Name, set+"-")
	ordinal, err := strconv.Atoi(suffix)
	if !ok || err != nil || ordinal < 0 || strconv.Itoa(ordinal) != suffix {
		return
	}
	version, err := strconv.ParseUint(o.ResourceVersion, 10, 64)
	var pod podJSON
	guessed := o.Verb == history.VerbDeleted && len(o.Raw) == 0
	if err != nil || !guessed && json.Unmarshal(o.Raw, &pod) != nil {
		w.strange++
		return
	}
	st := &podState{
		event: e, version: version, name: o.Name, ordinal: ordinal, uid: o.UID, guessed: guessed,
		running:  pod.Status.Phase == "Running",
		deleted:  o.Verb == history.VerbDeleted,
		deleting: o.Verb == history.VerbDeleted || pod.Metadata.DeletionTimestamp != nil,
	}
	for _, c := range pod.Status.Conditions {
		st.ready = st.ready || c.Type == "Ready" && c.Status == "True"
		st.disrupted = st.disrupted || c.Type == "DisruptionTarget" && c.Status == "True"
	}
	w.pods = append(w.pods, st)
}

func (w *podWatch) addSet(e *history.Event) {
	version, err := strconv.ParseUint(e.Object.ResourceVersion, 10, 64)
	var set setJSON
	if err != nil || json.Unmarshal(e.Object.Raw, &set) != nil {
		w.strange++
		return
	}
	st := &setState{
		version: version, event: e, replicas: 1, // The API's default.
		parallel: set.Spec.PodManagementPolicy == "Parallel",
		deleting: e.Object.Verb == history.VerbDeleted || set.Metadata.DeletionTimestamp != nil,
	}
	if set.Spec.Replicas != nil {
		st.replicas = *set.Spec.Replicas
	}
	if set.Spec.Ordinals != nil {
		st.start = set.Spec.Ordinals.Start
	}
	w.sets = append(w.sets, st)
}

// setAt returns the StatefulSet in force at a resourceVersion, nil when it is not known.
func (w *podWatch) setAt(version uint64) *setState {
	var in *setState
	for _, s := range w.sets {
		if s.version > version {
			break
		}
		in = s
	}
	return in
}

// gapBetween reports whether the watch was blind at some time in [from, to].
func (w *podWatch) gapBetween(from, to history.Time) bool {
	return slices.ContainsFunc(w.gaps, func(g history.Span) bool { return g.NotAfter >= from && g.NotBefore <= to })
}

// ok reports that the pod is Running and Ready.
func (p *podState) ok() bool { return p.running && p.ready && !p.deleted }

// last returns the state of a pod as it was known at t, nil when it was not known.
func (w *podWatch) last(name string, t history.Time) *podState {
	var last *podState
	for _, p := range w.pods {
		if p.name == name && p.event.Span.NotAfter <= t {
			last = p
		}
	}
	return last
}

// readyWithin reports that a pod was known to be Ready at the begin of span or became so within it.
func (w *podWatch) readyWithin(name string, span history.Span) bool {
	if p := w.last(name, span.NotBefore); p != nil && p.ok() {
		return true
	}
	return slices.ContainsFunc(w.pods, func(p *podState) bool {
		return p.name == name && p.ok() && p.event.Span.NotAfter > span.NotBefore &&
			p.event.Span.NotAfter <= span.NotAfter
	})
}

// certainlyNotReady reports that a watch without a gap, which outlived span, never showed the pod Ready in it. The
// pods' own watch says nothing while nothing changes; that the API still told of something else is the sign of life.
func (w *podWatch) certainlyNotReady(name string, span history.Span) bool {
	if !w.on[podsObserver] || w.alive < span.NotAfter || w.last(name, span.NotBefore) == nil {
		return false
	}
	return !w.gapBetween(w.last(name, span.NotBefore).event.Span.NotBefore, span.NotAfter) && !w.readyWithin(name,
		span)
}

// demands reports that the StatefulSet wanted the ordinal all through span.
func (w *podWatch) demands(ordinal int, span history.Span) bool {
	known := false
	for _, s := range w.sets {
		if s.event.Span.NotBefore > span.NotAfter {
			break
		}
		wanted := !s.deleting && ordinal >= s.start && ordinal-s.start < s.replicas
		if s.event.Span.NotAfter > span.NotBefore && !wanted {
			return false
		}
		known = wanted
	}
	return known
}
