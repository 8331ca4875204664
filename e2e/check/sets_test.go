package check_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// tale is one life of a StatefulSet and the verdict that a check must give.
type tale struct {
	name  string
	check string
	tell  func() history.History
	want  check.Verdict
	says  string // In a finding's sentence for Fail, in a reason for Unknown.
}

type (
	spec = historytest.SetSpec
	web  = historytest.Tale
)

const gone, changed, made = history.VerbDeleted, history.VerbModified, history.VerbAdded

// judgeOne judges with one check, whether or not it applies to the plan.
func judgeOne(t *testing.T, h history.History, name string) check.Result {
	t.Helper()
	c := named(t, name)
	c.Applies = nil
	return check.Run(h, []check.Check{c}).Results[0]
}

// three is a StatefulSet of three pods, all Ready, to which more happens.
func three(s spec, more func(*web)) func() history.History {
	return func() history.History {
		s.Replicas = 3
		w := historytest.Web(s)
		if s.Parallel {
			w.Pause = 1
		}
		w.Up(s.Start, s.Start+1, s.Start+2)
		w.Pause = 3
		if more != nil {
			more(w)
		}
		return w.Told(1)
	}
}

// but changes the recorded history.
func but(tell func() history.History, change func([]history.Event) []history.Event) func() history.History {
	return func() history.History {
		h := tell()
		h.Events = change(h.Events)
		return h
	}
}

func image(name string) func(*spec) { return func(s *spec) { s.Image = name } }
func replicas(n int) func(*spec)    { return func(s *spec) { s.Replicas = n } }
func partition(n int) func(*spec)   { return func(s *spec) { s.Partition = n } }

// rewrite changes the text of an object.
func rewrite(from, to string) func(*history.Event) {
	return func(e *history.Event) {
		text := strings.Replace(string(e.Object.Raw), from, to, 1)
		if text == string(e.Object.Raw) {
			panic("nothing to rewrite: " + from + " in " + text)
		}
		o := *e.Object
		o.Raw = []byte(text)
		e.Object = &o
	}
}

func gap(name string, from, to float64) func([]history.Event) []history.Event {
	return func(events []history.Event) []history.Event {
		e := history.Event{Kind: history.KindObserver, Source: "api",
			Span:     history.Between(historytest.At(from), historytest.At(to)),
			Observer: &history.Observer{Name: name, State: history.ObserverGap}}
		return slices.Insert(events, len(events), e)
	}
}

func allTales() []tale {
	return slices.Concat(orderTales(), updateTales(), strayTales(), partitionTales(), onDeleteTales(), identityTales(),
		claimTales(), bindingTales(), policyTales(), statusTales())
}

func TestSets(t *testing.T) {
	for _, c := range allTales() {
		t.Run(c.check+"/"+c.name, func(t *testing.T) {
			res := judgeOne(t, c.tell(), c.check)
			expect(t, res, c.want, c.says)
			for _, f := range res.Findings {
				if len(f.Events) == 0 || f.Subject == "" || f.Promise != res.Promise {
					t.Errorf("a finding says too little: %+v", f)
				}
			}
			if c.want == check.Pass && (res.Evidence == 0 || len(res.Reasons) > 0) {
				t.Errorf("it passes with %d %s and reasons %q", res.Evidence, res.Unit, res.Reasons)
			}
		})
	}
}

// TestGoodTalesHurtNobody judges every tale that passes its check with all other checks of StatefulSets: they pass it
// too, or have nothing to judge.
func TestGoodTalesHurtNobody(t *testing.T) {
	for _, c := range allTales() {
		if c.want != check.Pass {
			continue
		}
		h := c.tell()
		for _, other := range check.All() {
			if !strings.HasPrefix(other.Name, "set-") {
				continue
			}
			if res := judgeOne(t, h, other.Name); res.Verdict == check.Fail {
				t.Errorf("%s %q fails %s: %+v", c.check, c.name, other.Name, res.Findings)
			}
		}
	}
}

func orderTales() []tale {
	slow := spec{MinReady: 10}
	paced := func(w *web) *web { w.Pause = 12; return w }
	return []tale{
		{"scaled down and up", "order", three(spec{}, func(w *web) {
			w.Change(replicas(1)).Away(2, 1).Change(replicas(3)).Up(1, 2)
		}), check.Pass, ""},
		{"from a later ordinal on", "order", func() history.History {
			w := historytest.Web(spec{Replicas: 2, Start: 5})
			w.Up(5, 6).Change(func(s *spec) { s.Start = 6 }).Up(7).Away(5)
			return w.Told(1)
		}, check.Pass, ""},
		{"available before the next", "order", func() history.History {
			w := paced(historytest.Web(spec{Replicas: 2, MinReady: 10}))
			w.Up(0, 1)
			return w.Told(12)
		}, check.Pass, ""},
		{"Ready and not yet available", "order", three(slow, nil), check.Fail,
			"Pod web-1 was created at +10.000 s although web-0 had been Ready for less than the 10 s of " +
				"minReadySeconds"},
		{"available by a hair", "order", func() history.History {
			w := historytest.Web(spec{Replicas: 2, MinReady: 10})
			w.Up(0).Wait(5.5).Up(1)
			return w.Told(12)
		}, check.Pass, ""},
		{"scaled down under an unhealthy predecessor", "order", three(spec{}, func(w *web) {
			w.Unready(0).Change(replicas(1)).Away(2, 1)
		}), check.Fail, "Pod web-2 was ended by scaling down at +28.000 s although web-0 was Running and not Ready"},
		{"scaled down as a predecessor fell ill", "order", three(spec{}, func(w *web) {
			w.Change(replicas(1))
			w.Pause = 0.5
			w.Unready(0)
			w.Pause = 3
			w.Away(2).Ready(0).Away(1)
		}), check.Pass, ""},
		{"scaled down by one who was evicted", "order", three(spec{}, func(w *web) {
			w.Unready(0).Change(replicas(2))
			w.Pod(2).Disrupted = true
			w.Away(2)
		}), check.Pass, ""},
	}
}
