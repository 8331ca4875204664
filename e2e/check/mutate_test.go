package check_test

import (
	"slices"
	"testing"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// match says whether an event is meant. It is never asked about payloads that the event does not have.
type match func(e *history.Event) bool

// trialOf begins with the passing trial and lets change alter its facts.
func trialOf(change func(events []history.Event) []history.Event) history.History {
	h := historytest.Smoke().History()
	if change != nil {
		h.Events = change(h.Events)
	}
	return h
}

// drop leaves out every event that is meant.
func drop(is match) func([]history.Event) []history.Event {
	return func(events []history.Event) []history.Event {
		return slices.DeleteFunc(events, func(e history.Event) bool { return is(&e) })
	}
}

// edit changes the first event that is meant.
func edit(is match, f func(e *history.Event)) func([]history.Event) []history.Event {
	return func(events []history.Event) []history.Event {
		for i := range events {
			if is(&events[i]) {
				f(&events[i])
				return events
			}
		}
		panic("no event is meant by this mutation")
	}
}

// editAll changes every event that is meant.
func editAll(is match, f func(e *history.Event)) func([]history.Event) []history.Event {
	return func(events []history.Event) []history.Event {
		for i := range events {
			if is(&events[i]) {
				f(&events[i])
			}
		}
		return events
	}
}

// add adds facts at the place that their time gives them.
func add(tell func(t *historytest.Trial)) func([]history.Event) []history.Event {
	return func([]history.Event) []history.Event {
		return historytest.SmokeWith(tell).History().Events
	}
}

func then(changes ...func([]history.Event) []history.Event) func([]history.Event) []history.Event {
	return func(events []history.Event) []history.Event {
		for _, c := range changes {
			events = c(events)
		}
		return events
	}
}

func op(f history.OpFunc, stage history.Stage, instance string, seq int64) match {
	return func(e *history.Event) bool {
		return e.Kind == history.KindOp && e.Op.F == f && e.Op.Stage == stage && e.Op.Instance == instance &&
			(seq == 0 || e.Op.Seq == seq)
	}
}

func kind(k history.Kind) match { return func(e *history.Event) bool { return e.Kind == k } }

func rowsOf(instance string, chunk int) match {
	return func(e *history.Event) bool {
		return e.Kind == history.KindRows && e.Rows.Instance == instance && e.Rows.Chunk == chunk
	}
}

func faultStage(step int, stage history.FaultStage) match {
	return func(e *history.Event) bool {
		return e.Kind == history.KindFault && e.Fault.Step == step && e.Fault.Stage == stage
	}
}

func checksum(instance, label string) match {
	return func(e *history.Event) bool {
		return e.Kind == history.KindChecksum && e.Checksum.Instance == instance && e.Checksum.Label == label
	}
}

func observer(name, node string, state history.ObserverState) match {
	return func(e *history.Event) bool {
		return e.Kind == history.KindObserver && e.Observer.Name == name && e.Observer.Node == node &&
			e.Observer.State == state
	}
}

func pod(verb history.Verb, name string, n int) match {
	return func(e *history.Event) bool {
		if e.Kind != history.KindObject || e.Object.Resource != "pods" || e.Object.Verb != verb ||
			e.Object.Name != name {
			return false
		}
		n--
		return n == 0
	}
}

func phase(name history.PhaseName, step int, end bool) match {
	return func(e *history.Event) bool {
		return e.Kind == history.KindPhase && e.Phase.Name == name && e.Phase.Step == step && e.Phase.End == end
	}
}

func before(is match, seconds float64) match {
	return func(e *history.Event) bool { return is(e) && e.Span.NotAfter < historytest.At(seconds) }
}

func after(is match, seconds float64) match {
	return func(e *history.Event) bool { return is(e) && e.Span.NotBefore > historytest.At(seconds) }
}

func fails(text string) func(*history.Event) {
	return func(e *history.Event) { e.Phase.Error = text }
}

// result judges with one check.
func result(t *testing.T, h history.History, name string) check.Result {
	t.Helper()
	for _, c := range check.All() {
		if c.Name == name {
			return check.Run(h, []check.Check{c}).Results[0]
		}
	}
	t.Fatalf("no check is called %q", name)
	return check.Result{}
}

// swapVersions gives two objects each other's place in the order.
func swapVersions(a, b match) func([]history.Event) []history.Event {
	return func(events []history.Event) []history.Event {
		i, j := slices.IndexFunc(events, func(e history.Event) bool { return a(&e) }),
			slices.IndexFunc(events, func(e history.Event) bool { return b(&e) })
		x, y := events[i].Object, events[j].Object
		x.ResourceVersion, y.ResourceVersion = y.ResourceVersion, x.ResourceVersion
		events[i].Span, events[j].Span = events[j].Span, events[i].Span
		return events
	}
}
