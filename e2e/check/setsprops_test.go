package check_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
)

// verdicts judges with every check, whether or not it applies.
func verdicts(t fatal, h history.History) map[string]check.Verdict {
	all := check.All()
	for i := range all {
		all[i].Applies = nil
	}
	out := map[string]check.Verdict{}
	for _, res := range check.Run(h, all).Results {
		for _, reason := range res.Reasons {
			if len(reason) > 17 && reason[:17] == "the check crashed" {
				t.Fatalf("%s: %s", res.Check, reason)
			}
		}
		out[res.Check] = res.Verdict
	}
	return out
}

// TestObserversMayComeInAnyOrder interleaves the events of the observers in another order, as a recorder may, each
// observer's own order kept: no verdict changes.
func TestObserversMayComeInAnyOrder(t *testing.T) {
	var stories []history.History
	var want []map[string]check.Verdict
	for _, c := range allTales() {
		h := c.tell()
		stories, want = append(stories, h), append(want, verdicts(t, h))
	}
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, len(stories)-1).Draw(rt, "tale")
		for name, v := range verdicts(rt, history.History{Events: interleaved(rt, stories[n].Events)}) {
			if v != want[n][name] {
				rt.Fatalf("%s: %s is %s, was %s", allTales()[n].name, name, v, want[n][name])
			}
		}
	})
}

// interleaved draws another order of events that keeps each observer's own order.
func interleaved(t *rapid.T, events []history.Event) []history.Event {
	streams, names := map[string][]history.Event{}, []string{}
	for _, e := range events {
		name := e.Source
		switch {
		case e.Object != nil:
			name = "api/" + e.Object.Resource
		case e.Observer != nil:
			name = e.Observer.Name + e.Observer.Node
		}
		if streams[name] == nil {
			names = append(names, name)
		}
		streams[name] = append(streams[name], e)
	}
	var out []history.Event
	for len(names) > 0 {
		i := rapid.IntRange(0, len(names)-1).Draw(t, "observer")
		k := rapid.IntRange(1, len(streams[names[i]])).Draw(t, "facts")
		out = append(out, streams[names[i]][:k]...)
		if streams[names[i]] = streams[names[i]][k:]; len(streams[names[i]]) == 0 {
			names = append(names[:i], names[i+1:]...)
		}
	}
	for i := range out {
		out[i].ID = int64(i + 1)
	}
	return out
}

// TestDamagedTales drops, repeats and shuffles facts, and spoils some: no check crashes.
func TestDamagedTales(t *testing.T) {
	count := len(allTales())
	rapid.Check(t, func(rt *rapid.T) {
		h := allTales()[rapid.IntRange(0, count-1).Draw(rt, "tale")].tell() // New ones: a tale can be told only once.
		for range rapid.IntRange(1, 30).Draw(rt, "changes") {
			i := rapid.IntRange(1, len(h.Events)-1).Draw(rt, "at")
			k := rapid.IntRange(1, len(h.Events)-1).Draw(rt, "and")
			switch rapid.IntRange(0, 3).Draw(rt, "how") {
			case 0:
				h.Events = append(h.Events[:i:i], h.Events[i+1:]...)
			case 1:
				h.Events[i] = h.Events[k]
			case 2:
				h.Events[i], h.Events[k] = h.Events[k], h.Events[i]
			case 3:
				spoil(rt, h.Events, i)
			}
		}
		verdicts(rt, h)
	})
}
