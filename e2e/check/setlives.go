package check

import (
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// contradicts says what in a state cannot be after another of the same pod, "" if all can: nothing is taken back that
// the API lets happen once.
func (p *podState) contradicts(old *podState) string {
	switch {
	case p.Guessed() || old.Guessed():
		return ""
	case old.Deleted():
		return "it had ended"
	case old.Deleting() && !p.Deleting():
		return "its end had been asked for, and was not"
	case old.Status.Over && !p.Status.Over:
		return "it had succeeded or failed, and had not"
	case p.Status.Ready && !p.Status.Running:
		return "it is Ready and not Running"
	case old.Status.Running && !p.Status.Running && !p.Status.Over:
		return "it had been Running, and not yet"
	}
	return ""
}

// folded is for how long a readiness may have lasted that a kubelet never told: it sends the newest status of a pod,
// and what changes and changes back before that is told as one, with a new stamp (pkg/kubelet/status, version). A
// container that passes its startup and its readiness probe at once makes it so.
const folded = 2 * time.Second

// missed says what lies between two states of a pod that was not seen, "" if nothing: its readiness has the stamp of
// its last change until it changes. A kubelet that was cut off, or restarted, may tell of its last change alone, and
// with an older stamp than another gave it meanwhile: that is for the caller to know.
func (p *podState) missed(old *podState, told float64, known bool) string {
	switch {
	case old.Status.Turned == 0:
		return ""
	case p.Status.Turned == 0:
		return "its readiness was told of, and no more"
	case p.Status.Turned < old.Status.Turned:
		return "its readiness had changed, and had not yet"
	case p.Status.Turned != old.Status.Turned && p.Status.Ready == old.Status.Ready && known &&
		float64(p.Status.Turned+1)-told <= folded.Seconds():
		return ""
	case p.Status.Turned != old.Status.Turned && p.Status.Ready == old.Status.Ready:
		return "its readiness had changed twice, and once was not seen"
	case known && p.Status.Ready != old.Status.Ready && told > float64(p.Status.Turned+1)+stampSlack.Seconds():
		return "its readiness has changed, and has the stamp of a time at which it had not"
	}
	return ""
}

// ok reports that the pod is Running and Ready.
func (p *podState) ok() bool { return p.Status.Running && p.Status.Ready && !p.Deleted() }

// waiting reports that the pod had not been Ready for minReady seconds when something else was stamped: certainly, by
// times that are cut off to the second and may be of two clocks.
func (p *podState) waiting(minReady, stamp int64) bool {
	return minReady > 0 && p.Status.ReadySince != 0 && stamp != 0 &&
		stamp+1+int64(stampSlack.Seconds()) <= p.Status.ReadySince+minReady
}

// describe says in words what a pod is; it takes nil, for a pod that is not there.
func (p *podState) describe() string {
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

// last returns the state of a pod as it was known at t, nil when it was not known.
func (s *setLife) last(name string, t history.Time) *podState {
	var last *podState
	for _, p := range s.pods {
		if p.pod.name == name && p.Event.Span.NotAfter <= t {
			last = p
		}
	}
	return last
}

// readyWithin reports that a pod was known to be Ready at the begin of span or became so within it.
func (s *setLife) readyWithin(name string, span history.Span) bool {
	if p := s.last(name, span.NotBefore); p != nil && p.ok() {
		return true
	}
	for _, p := range s.pods {
		if p.pod.name == name && p.ok() && p.Event.Span.NotAfter > span.NotBefore &&
			p.Event.Span.NotAfter <= span.NotAfter {
			return true
		}
	}
	return false
}

// certainlyNotReady reports that a watch without a gap, which outlived span, never showed the pod Ready in it. The
// pods' own watch says nothing while nothing changes; that the API still told of something else is the sign of life.
func (w *setWatch) certainlyNotReady(s *setLife, name string, span history.Span) bool {
	last := s.last(name, span.NotBefore)
	return w.on[world.PodsObserver] && w.alive >= span.NotAfter && last != nil &&
		!w.blindTo(last.Event.Span.NotBefore, span.NotAfter) && !s.readyWithin(name, span)
}

// demands reports that the StatefulSet wanted the ordinal all through span.
func (s *setLife) demands(ordinal int, span history.Span) bool {
	known := false
	for _, st := range s.sets {
		if st.Event.Span.NotBefore > span.NotAfter {
			break
		}
		wanted := !st.Deleting() && st.Spec.Demand.Wants(ordinal)
		if st.Event.Span.NotAfter > span.NotBefore && !wanted {
			return false
		}
		known = wanted
	}
	return known
}
