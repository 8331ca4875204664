package nightly_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/nightly"
)

// host is a machine with a clock of its own and trials that end as they are told to.
type host struct {
	now   time.Time
	kept  map[string]nightly.Result
	ends  func(u nightly.Unit, attempt int) check.Verdict
	began []string
}

func newHost(ends func(nightly.Unit, int) check.Verdict) *host {
	return &host{now: time.Date(2026, 11, 23, 1, 0, 0, 0, time.UTC), kept: map[string]nightly.Result{}, ends: ends}
}

func passes(nightly.Unit, int) check.Verdict { return check.Pass }

func (h *host) night(budget time.Duration, units ...nightly.Unit) *nightly.Night {
	return &nightly.Night{
		List: nightly.List{Build: build, Units: units}, Known: slices.Collect(maps.Values(h.kept)),
		Soak:  func(int) ([]nightly.Unit, error) { return nil, nil },
		Keep:  func(r nightly.Result) error { h.kept[r.ID] = r; return nil },
		Lanes: []nightly.Lane{h},
		Now:   func() time.Time { return h.now }, Until: h.now.Add(budget), Tell: func(string, ...any) {},
	}
}

func (h *host) Ahead(nightly.Unit) time.Duration { return 0 }

func (h *host) Run(_ context.Context, u nightly.Unit) (nightly.Attempt, error) {
	h.began = append(h.began, u.ID)
	v := h.ends(u, len(h.kept[u.ID].Attempts)+1)
	a := nightly.Attempt{Verdict: v, Trial: v, Check: "rows", Why: string(v), Started: h.now,
		Run: fmt.Sprintf("%s/%d", u.Name, len(h.began)), Seconds: u.Estimate.D().Seconds()}
	h.now = h.now.Add(u.Estimate.D())
	return a, nil
}

func unit(name string, takes time.Duration) nightly.Unit {
	return nightly.Unit{
		ID: "id-" + name, Name: name, Seed: 1, Expect: "PASS", Workers: 2, Estimate: plan.Duration(takes),
	}
}

func sleep(t *testing.T, n *nightly.Night) {
	t.Helper()
	if err := n.Sleep(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestAFlakeIsToldFromARegression plants both: one plan fails one time in three, one always.
func TestAFlakeIsToldFromARegression(t *testing.T) {
	h := newHost(func(u nightly.Unit, attempt int) check.Verdict {
		switch {
		case u.Name == "regression", u.Name == "flake" && attempt%3 == 1, u.Name == "race" && attempt < 3:
			return check.Fail
		case u.Name == "blind":
			return check.Unknown
		}
		return check.Pass
	})
	race := unit("race", time.Minute)
	race.Race = true
	n := h.night(10*time.Hour, unit("flake", time.Minute), unit("regression", time.Minute), unit("blind", time.Minute),
		unit("sound", time.Minute), race)
	sleep(t, n)
	s := nightly.Merge(n.List, slices.Collect(maps.Values(h.kept)))
	want := map[string]struct {
		kind     nightly.Kind
		verdict  check.Verdict
		attempts int
	}{
		"flake": {nightly.Flake, check.Fail, 2}, "regression": {nightly.Finding, check.Fail, 6},
		"blind": {nightly.Unshown, check.Unknown, 6}, "sound": {nightly.Expected, check.Pass, 1},
		"race": {nightly.Expected, check.Pass, 3},
	}
	for _, o := range s.Results {
		if w := want[o.Name]; o.Kind != w.kind || o.Verdict != w.verdict || len(o.Attempts) != w.attempts {
			t.Errorf("%s is %s, %s after %d attempts, want %+v", o.Name, o.Kind, o.Verdict, len(o.Attempts), w)
		}
	}
	if s.Verdict != check.Fail || s.Results[0].Name != "regression" {
		t.Errorf("the night is %s and begins with %s", s.Verdict, s.Results[0].Name)
	}
}

// TestWhatDoesNotFitIsNotBegun: a shorter one behind it is, and the missing one is UNKNOWN until another night runs it.
func TestWhatDoesNotFitIsNotBegun(t *testing.T) {
	h := newHost(passes)
	units := []nightly.Unit{unit("a", 4*time.Minute), unit("b", 20*time.Minute), unit("c", 5*time.Minute)}
	n := h.night(10*time.Minute, units...)
	sleep(t, n)
	s := nightly.Merge(n.List, slices.Collect(maps.Values(h.kept)))
	missing := s.Of(nightly.Missing)
	if s.Verdict != check.Unknown || len(missing) != 1 || missing[0].Name != "b" {
		t.Fatalf("the night is %s, without %v", s.Verdict, missing)
	}
	if why := missing[0].Worst().Why; !strings.HasPrefix(why, "not run: budget") {
		t.Errorf("b is missing because %q", why)
	}
	n = h.night(30*time.Minute, units...)
	sleep(t, n)
	s = nightly.Merge(n.List, slices.Collect(maps.Values(h.kept)))
	if got := strings.Join(h.began, " "); s.Verdict != check.Pass || got != "id-a id-c id-b" {
		t.Errorf("the second night is %s, the trials were %s", s.Verdict, got)
	}
}

// TestRetriesGoOnInTheNextNight: the budget ends between two attempts, and nothing is forgotten.
func TestRetriesGoOnInTheNextNight(t *testing.T) {
	h := newHost(func(nightly.Unit, int) check.Verdict { return check.Fail })
	for range 3 {
		sleep(t, h.night(2*time.Minute, unit("a", time.Minute)))
	}
	if r := h.kept["id-a"]; len(r.Attempts) != 6 || r.Kind() != nightly.Finding || r.NotRun != "" {
		t.Errorf("after three nights: %s after %d attempts, %q", r.Kind(), len(r.Attempts), r.NotRun)
	}
}

// TestTheMostTellingIsFirst holds the rule of the order.
func TestTheMostTellingIsFirst(t *testing.T) {
	h := newHost(passes)
	old := nightly.Build{Commit: "before", Kubernetes: "v1.37.0"}
	for i, name := range []string{"bad", "long-ago", "lately"} {
		v := check.Pass
		if name == "bad" {
			v = check.Fail
		}
		u := unit(name, time.Minute)
		u.ID = "old-" + name
		h.kept[u.ID] = nightly.Result{Unit: u, Build: old, Attempts: []nightly.Attempt{
			{Verdict: v, Started: h.now.Add(time.Duration(10*i-100) * time.Hour), Seconds: 30}}}
	}
	gated := unit("gated", time.Minute)
	gated.Plan.FeatureGates = []string{"StatefulSetRecreateStrategy"}
	sleep(t, h.night(time.Hour, unit("lately", time.Minute), gated, unit("never-long", 2*time.Minute),
		unit("long-ago", time.Minute), unit("never", time.Minute), unit("bad", 3*time.Minute)))
	want := "id-bad id-never id-never-long id-gated id-long-ago id-lately"
	if got := strings.Join(h.began, " "); got != want {
		t.Errorf("order %s, want %s", got, want)
	}
}

// TestTheRestOfTheBudgetIsForNewSeeds: rounds go on until nothing fits, and the next night takes up where it ended.
func TestTheRestOfTheBudgetIsForNewSeeds(t *testing.T) {
	h := newHost(passes)
	for night := 1; night <= 2; night++ {
		n := h.night(5*time.Minute, unit("a", time.Minute))
		n.Soak = func(round int) ([]nightly.Unit, error) {
			u := unit("a", time.Minute)
			u.ID, u.Seed = fmt.Sprintf("soak-%d", round), uint64(round)
			return []nightly.Unit{u}, nil
		}
		sleep(t, n)
		s := nightly.Merge(n.List, slices.Collect(maps.Values(h.kept)))
		if want := 5*night - 1; s.Soak != want || s.Units != 1 || s.Verdict != check.Pass {
			t.Errorf("night %d: %d soak units, want %d, %s", night, s.Soak, want, s.Verdict)
		}
	}
	if seen := slices.Compact(slices.Sorted(slices.Values(h.began))); len(seen) != 10 {
		t.Errorf("%d of 10 trials were of different units: %v", len(seen), h.began)
	}
}

// TestAResultThatCannotBeKeptEndsTheNight: without a record the rest is pointless.
func TestAResultThatCannotBeKeptEndsTheNight(t *testing.T) {
	h := newHost(passes)
	n := h.night(time.Hour, unit("a", time.Minute), unit("b", time.Minute))
	n.Keep = func(nightly.Result) error { return unix.ENOSPC }
	err := n.Sleep(t.Context())
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "result of a, seed 1") || len(h.began) != 1 {
		t.Errorf("after %d trials: %v", len(h.began), err)
	}
}

func TestWhatCannotBeRunHereIsUnknown(t *testing.T) {
	h := newHost(passes)
	n := h.night(time.Hour, unit("a", time.Minute))
	n.Lanes = []nightly.Lane{incapable{h}}
	sleep(t, n)
	s := nightly.Merge(n.List, slices.Collect(maps.Values(h.kept)))
	if got := s.Results[0].Worst().Why; s.Verdict != check.Unknown || got != "not run: there is no netem" {
		t.Errorf("%s: %s", s.Verdict, got)
	}
}

// incapable is a lane that can carry out nothing.
type incapable struct{ *host }

func (incapable) Run(context.Context, nightly.Unit) (nightly.Attempt, error) {
	return nightly.Attempt{}, &nightly.CannotError{Why: "there is no netem"}
}

// paired is one of two lanes of which each trial waits for one of the other.
type paired struct {
	*host
	mu   *sync.Mutex
	meet chan struct{}
}

func (p paired) Run(ctx context.Context, u nightly.Unit) (nightly.Attempt, error) {
	select { // One sends, the other receives.
	case p.meet <- struct{}{}:
	case <-p.meet:
	case <-time.After(time.Minute):
		return nightly.Attempt{}, errors.New("the other lane was not at work for a minute")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.host.Run(ctx, u)
}

func TestLanesWorkAtTheSameTime(t *testing.T) {
	h := newHost(passes)
	n := h.night(time.Hour, unit("a", time.Minute), unit("b", time.Minute), unit("c", time.Minute),
		unit("d", time.Minute))
	lane := paired{h, &sync.Mutex{}, make(chan struct{})}
	n.Lanes = []nightly.Lane{lane, lane}
	sleep(t, n)
	slices.Sort(h.began)
	if want := []string{"id-a", "id-b", "id-c", "id-d"}; !slices.Equal(h.began, want) || len(h.kept) != 4 {
		t.Errorf("%s began, %d were kept; want each once", h.began, len(h.kept))
	}
}

// TestALaneEndsItsTrialAfterAnErrorOfTheOther: what one lane has begun is kept, though the other could not begin.
func TestALaneEndsItsTrialAfterAnErrorOfTheOther(t *testing.T) {
	h := newHost(passes)
	n := h.night(time.Hour, unit("a", time.Minute), unit("b", time.Minute))
	lane := paired{h, &sync.Mutex{}, make(chan struct{})}
	n.Lanes = []nightly.Lane{lane, broken{lane}}
	if err := n.Sleep(t.Context()); !errors.Is(err, unix.ENOSPC) || len(h.began) != 1 || len(h.kept) != 1 {
		t.Errorf("%v; %s began, %d were kept; want one", err, h.began, len(h.kept))
	}
}

// broken is a lane whose trials cannot start.
type broken struct{ paired }

func (b broken) Run(context.Context, nightly.Unit) (nightly.Attempt, error) {
	<-b.meet
	return nightly.Attempt{}, unix.ENOSPC
}

// TestTheTrendIsOverCommits: a unit is slower if it took longer than each of the last ten, of which there are five or
// more; its own commit, other versions and other names do not count.
func TestTheTrendIsOverCommits(t *testing.T) {
	begin := time.Date(2026, 11, 1, 1, 0, 0, 0, time.UTC)
	result := func(name, id string, b nightly.Build, day, seconds int, v check.Verdict) nightly.Result {
		u := unit(name, time.Minute)
		u.ID = id
		return nightly.Result{Unit: u, Build: b, Attempts: []nightly.Attempt{
			{Verdict: v, Started: begin.AddDate(0, 0, day), Seconds: float64(seconds)}}}
	}
	for _, tt := range []struct {
		days, now, want int
		slower          bool
	}{{12, 31, 10, true}, {12, 30, 10, false}, {5, 31, 5, true}, {4, 99, 4, false}, {0, 99, 0, false}} {
		results := []nightly.Result{result("a", "id-a", build, 40, tt.now, check.Pass)}
		for day := range tt.days {
			b := nightly.Build{Commit: fmt.Sprintf("commit-%d", day), Kubernetes: build.Kubernetes}
			seconds := 30
			if day == 0 && tt.days > nightly.TrendLength {
				seconds = 500 // Too long ago to count.
			}
			r := result("a", fmt.Sprintf("old-%d", day), b, day, seconds, check.Fail)
			results = append(results, r, r) // Two shards have it.
			other := nightly.Build{Commit: b.Commit, Kubernetes: "v1.36.0"}
			results = append(results, result("a", fmt.Sprintf("other-%d", day), other, day, 900, check.Pass),
				result("b", fmt.Sprintf("b-%d", day), b, day, 900, check.Pass))
		}
		s := nightly.Merge(nightly.List{Build: build, Units: []nightly.Unit{unit("a", time.Minute)}}, results)
		o := s.Results[0]
		if len(o.Before) != tt.want || o.Slower != tt.slower || s.Verdict != check.Pass || len(s.Results) != 1 {
			t.Errorf("%+v: slower %t, before %+v, %s", tt, o.Slower, o.Before, s.Verdict)
		}
		if tt.want > 1 && !o.Before[0].Started.Before(o.Before[1].Started) {
			t.Errorf("%+v: not the oldest first", tt)
		}
		if got := len(s.Slower()) == 1; got != tt.slower {
			t.Errorf("%+v: slower are %v", tt, s.Slower())
		}
	}
}
