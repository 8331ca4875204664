package check_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// mutation is one change of the passing trial and the verdict that a check must give.
type mutation struct {
	name   string
	check  string
	change func([]history.Event) []history.Event
	want   check.Verdict
	says   string // In a finding's sentence for Fail, in a reason for Unknown.
}

// mutations returns new mutations on each call: some are stateful.
func mutations() []mutation {
	return slices.Concat(checksumMutations(), coverageMutations(), mountMutations(), blindMutations(), orderMutations(),
		rowMutations(), settleMutations(), diskMutations(), pullMutations(), auditMutations(), manifestMutations(),
		rewrittenMutations())
}

// TestMutations changes one thing of a passing trial at a time: the mutation's check must notice and name it.
func TestMutations(t *testing.T) {
	for _, m := range mutations() {
		t.Run(m.check+"/"+strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			h := trialOf(m.change)
			expect(t, result(t, h, m.check), m.want, m.says)
			if all := check.Run(h, check.All()); all.Verdict != check.Worst(m.want, all.Verdict) {
				t.Errorf("the trial's verdict is %s though %s is %s", all.Verdict, m.check, m.want)
			}
		})
	}
}

// expect demands a verdict of a check, and its explanation.
func expect(t *testing.T, res check.Result, want check.Verdict, says string) {
	t.Helper()
	if res.Verdict != want || !strings.Contains(said(res), says) {
		t.Errorf("%s with %d %s, want %s that says %q\nfindings %+v\nreasons %q", res.Verdict, res.Evidence, res.Unit,
			want, says, res.Findings, res.Reasons)
	}
}

// said returns everything that explains a verdict.
func said(res check.Result) string {
	var lines []string
	if res.Verdict == check.Fail {
		for _, f := range res.Findings {
			lines = append(lines, f.Sentence, f.Subject)
		}
		return strings.Join(lines, "\n")
	}
	return strings.Join(res.Reasons, "\n")
}

// match selects events. It is only called for events that have the payload of their kind.
type match func(e *history.Event) bool

// trialOf returns the passing trial after change.
func trialOf(change func(events []history.Event) []history.Event) history.History {
	h := historytest.Smoke().History()
	if change != nil {
		h.Events = change(h.Events)
	}
	return h
}

// drop removes every matching event.
func drop(is match) func([]history.Event) []history.Event {
	return func(events []history.Event) []history.Event {
		return slices.DeleteFunc(events, func(e history.Event) bool { return is(&e) })
	}
}

// edit changes the first matching event.
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

// editAll changes every matching event.
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

// add inserts events by their time.
func add(tell ...func(t *historytest.Trial)) func([]history.Event) []history.Event {
	return func([]history.Event) []history.Event {
		return historytest.Smoke(tell...).History().Events
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

// object matches the n-th event of an object, or the n-th with that verb if verb is not empty.
func object(resource, name string, n int, verbs ...history.Verb) match {
	return func(e *history.Event) bool {
		if e.Kind != history.KindObject || e.Object.Resource != resource || e.Object.Name != name ||
			len(verbs) > 0 && !slices.Contains(verbs, e.Object.Verb) {
			return false
		}
		n--
		return n == 0
	}
}

func pod(verb history.Verb, name string, n int) match { return object("pods", name, n, verb) }

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
	return check.Run(h, []check.Check{named(t, name)}).Results[0]
}

// named returns the check of that name.
func named(t *testing.T, name string) check.Check {
	t.Helper()
	for _, c := range check.All() {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no check is called %q", name)
	return check.Check{}
}

// swapVersions swaps the resourceVersions of two events.
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

// onDisk is a mutation's change of the sound trial on attached disks.
func onDisk(change func([]history.Event) []history.Event) func([]history.Event) []history.Event {
	return func([]history.Event) []history.Event {
		events := historytest.Disk().History().Events
		if change != nil {
			events = change(events)
		}
		return events
	}
}

// addDisk adds facts to the sound trial on attached disks.
func addDisk(tell ...func(t *historytest.Trial)) func([]history.Event) []history.Event {
	return func([]history.Event) []history.Event { return historytest.Disk(tell...).History().Events }
}

// diskMutations returns all mutations of the trial on attached disks.
func diskMutations() []mutation {
	return slices.Concat(attachOrderMutations(), detachInUseMutations(), detachOrderMutations(), stageOrderMutations(),
		diskMountMutations(),
		residueMutations(), integrityMutations(), inUseMutations(), identityMutations(), witnessMutations())
}
