package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/nightly"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/e2e/trial"
)

func nightBuild() nightly.Build { return nightly.Build{Commit: "c0ffee", Kubernetes: "v1.37.0"} }

func nightList(t *testing.T, selection string) nightly.List {
	t.Helper()
	all, err := units(nightBuild(), selection, func(string) uint64 { return 1 })
	if err != nil {
		t.Fatal(err)
	}
	return nightly.List{Build: nightBuild(), Units: all}
}

// TestEveryScenarioAndCaseHasAUnit: nothing that can be listed is left out of the night.
func TestEveryScenarioAndCaseHasAUnit(t *testing.T) {
	all := nightList(t, "").Units
	for _, kind := range []string{"scenarios", "cases"} {
		list, _ := entries(kind)
		for _, e := range list {
			if !slices.ContainsFunc(all, func(u nightly.Unit) bool { return u.Name == e.Name }) {
				t.Errorf("%s %s has no unit", kind, e.Name)
			}
		}
	}
	ids := map[string]string{}
	for _, u := range all {
		if other, twice := ids[u.ID]; twice {
			t.Errorf("%s and %s have one ID", u.Name, other)
		}
		ids[u.ID] = u.Name
	}
}

// TestWhatDoesNotPassNamesACheck: the expected failure must be told from another.
func TestWhatDoesNotPassNamesACheck(t *testing.T) {
	for _, u := range nightList(t, "").Units {
		known := slices.ContainsFunc(trial.AllParts().Checks, func(c check.Check) bool {
			return c.Name == u.Case.Finding.Check
		})
		if u.Case.Expect != string(check.Pass) && !known {
			t.Errorf("%s expects %s in check %q, which is not known", u.Name, u.Case.Expect, u.Case.Finding.Check)
		}
	}
}

// A control may hold and yet not be as expected: what failed is named then, not what held.
func TestWhyAControlIsNotAsExpected(t *testing.T) {
	control := nightly.Unit{Case: plan.Case{Control: true, Finding: plan.Sign{Check: "mounts"}, Expect: "PASS"}}
	for _, tc := range []struct {
		mounts     check.Verdict
		which, why string
	}{
		{check.Pass, "rows", "it is gone"}, {check.Fail, "mounts", "not held: mounts is FAIL"},
	} {
		r := check.Report{Verdict: check.Fail, Results: []check.Result{
			{Check: "coverage", Verdict: check.Pass}, {Check: "mounts", Verdict: tc.mounts},
			{Check: "rows", Verdict: check.Fail, Findings: []check.Finding{{Sentence: "it is gone"}}},
		}}
		a := attemptOf(control, r, time.Time{}, time.Minute, "run")
		if a.Verdict != check.Fail || a.Check != tc.which || !strings.Contains(a.Why, tc.why) {
			t.Errorf("%s in %q: %q; want FAIL in %q that says %q", a.Verdict, a.Check, a.Why, tc.which, tc.why)
		}
	}
}

// errKilled ends a night at once: nothing is done after it.
var errKilled = errors.New("the harness is killed")

// harness is a night on disk, with trials that are made up, that is killed at its nth step.
type harness struct {
	root   string
	steps  int
	kill   int // 0 is never.
	now    time.Time
	whole  map[string]int // Trials with a verdict, by unit.
	remote string         // The URL of a bucket, if there is one.
}

func (h *harness) step() error {
	if h.steps++; h.steps == h.kill {
		return errKilled
	}
	return nil
}

func (h *harness) Ahead(nightly.Unit) time.Duration { return 0 }

// Run leaves a run directory with a verdict.
func (h *harness) Run(_ context.Context, u nightly.Unit) (nightly.Attempt, error) {
	if err := h.step(); err != nil { // Before anything.
		return nightly.Attempt{}, err
	}
	h.now = h.now.Add(time.Minute)
	d, err := rundir.Create(h.root, u.Name, u.Seed, h.now)
	if err != nil {
		return nightly.Attempt{}, err
	}
	run := report.Run{Scenario: u.Name, Seed: u.Seed, Unit: u.ID, Started: h.now}
	if err := errors.Join(d.FreeReserve(), d.WriteJSON(rundir.RunFile, run)); err != nil {
		return nightly.Attempt{}, err
	}
	if err := h.step(); err != nil { // In the middle of the trial.
		return nightly.Attempt{}, err
	}
	r := check.Report{Verdict: check.Pass}
	if err := d.WriteJSON(rundir.VerdictFile, r); err != nil {
		return nightly.Attempt{}, err
	}
	h.whole[u.ID]++
	// After the verdict, before the result.
	return attemptOf(u, r, h.now, time.Minute, runOf(d)), h.step()
}

// night runs until the list is done or the harness is killed; it reports whether it was.
func (h *harness) night(t *testing.T, l nightly.List) (dead bool) {
	t.Helper()
	store := rundir.OpenNight(h.root)
	unlock, err := store.Begin(l, "1-of-1")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	remote, err := openRemote(t.Context(), "--store", h.remote)
	if err := errors.Join(err, remote.begin(t.Context(), store)); err != nil {
		t.Fatal(err)
	}
	known, err := knownResults(h.root, store, l.Build)
	if err != nil {
		t.Fatal(err)
	}
	n := nightly.Night{
		List: l, Known: known, Now: func() time.Time { return h.now }, Until: h.now.Add(24 * time.Hour),
		Lanes: []nightly.Lane{h}, Tell: func(string, ...any) {},
		Soak: func(int) ([]nightly.Unit, error) { return nil, nil },
		Keep: func(r nightly.Result) error {
			err := store.Keep(r)
			if killed := h.step(); killed != nil { // After the result, before the page.
				return killed
			}
			_, pageErr := writeNight(store, l, []string{h.root})
			return errors.Join(err, pageErr, remote.push(t.Context(), store, h.root, time.Minute))
		},
	}
	err = n.Sleep(t.Context())
	if err != nil && !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	return err != nil
}

// TestANightGoesOnAfterAKill kills the harness at every step there is: in the end each unit has one attempt, and no
// trial that had its verdict was carried out again.
func TestANightGoesOnAfterAKill(t *testing.T) {
	l := nightList(t, "set-scale-light,set-burst-light")
	steps := 100
	for kill := 0; kill <= steps; kill++ {
		h := &harness{root: t.TempDir(), kill: kill, whole: map[string]int{}, now: time.Now()}
		if dead := h.night(t, l); dead {
			h.kill = 0
			h.night(t, l)
		} else if kill == 0 {
			steps = h.steps
		}
		results, err := rundir.OpenNight(h.root).Results()
		if err != nil {
			t.Fatal(err)
		}
		s := nightly.Merge(l, results)
		if s.Verdict != check.Pass || s.Trials != len(l.Units) {
			t.Errorf("killed at step %d of %d: %s after %d attempts of %d units", kill, steps, s.Verdict, s.Trials,
				len(l.Units))
		}
		for _, u := range l.Units {
			if h.whole[u.ID] != 1 {
				t.Errorf("killed at step %d of %d: %s came to a verdict %d times", kill, steps, u.Name, h.whole[u.ID])
			}
		}
	}
	if steps != 8 {
		t.Errorf("there are %d steps, want 4 for each unit", steps)
	}
}

// TestMergeIsTheSameForAnyShards: what seven machines did makes the same files as if one had.
func TestMergeIsTheSameForAnyShards(t *testing.T) {
	l := nightList(t, "light")
	files := []string{rundir.NightFile, rundir.JUnitFile, rundir.PromFile}
	var want []string
	for _, n := range []int{1, 7} {
		dir := t.TempDir()
		args := []string{"nightly", "merge", "--out", filepath.Join(dir, "all")}
		for i, part := range l.Shards(n) {
			root := filepath.Join(dir, fmt.Sprint(i))
			args = append(args, root)
			store := rundir.OpenNight(root)
			unlock, err := store.Begin(l, "test")
			if err != nil {
				t.Fatal(err)
			}
			unlock()
			for _, u := range part.Units {
				if err := store.Keep(madeUp(u)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := ask(t, args...); got.code != exitViolated {
			t.Fatalf("exit code %d: %s", got.code, got.stderr)
		}
		var got []string
		for _, name := range files {
			data, err := os.ReadFile(rundir.OpenNight(filepath.Join(dir, "all")).Path(name))
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(data))
		}
		if want == nil {
			want = got
		}
		for i, name := range files {
			if got[i] != want[i] {
				t.Errorf("%s of %d shards is another than of one", name, n)
			}
		}
	}
}

// madeUp is a result of which the seed, the name and nothing else decide.
func madeUp(u nightly.Unit) nightly.Result {
	r := nightly.Result{Unit: u, Build: nightBuild()}
	began := time.Date(2026, 11, 23, 1, 0, len(u.Name), 0, time.UTC)
	one := func(v check.Verdict) {
		r.Attempts = append(r.Attempts, nightly.Attempt{Verdict: v, Trial: v, Check: "order", Why: string(v),
			Run: u.Name + "/" + u.ID, Started: began.Add(time.Duration(len(r.Attempts)) * time.Minute), Seconds: 20.1})
	}
	switch {
	case strings.HasSuffix(u.Name, "node-reboot"):
		r.NotRun = "budget: about 1m0s needed, 10s left"
	case strings.HasSuffix(u.Name, "node-partition"):
		one(check.Fail)
		one(check.Pass)
	case strings.HasSuffix(u.Name, "scale-light"):
		for range 1 + nightly.Retries {
			one(check.Fail)
		}
	default:
		one(check.Pass)
	}
	return r
}

// TestOnlyAConclusiveTrialCountsWhenCutShort, in the night itself and when the next one finds its run directory.
func TestOnlyAConclusiveTrialCountsWhenCutShort(t *testing.T) {
	report := func(v check.Verdict, results ...check.Result) check.Report {
		return check.Report{Verdict: v, Results: results}
	}
	scenario, crash := "set-scale-light", errors.New("disk full")
	if a, counts := outcomeOf(nightList(t, scenario).Units[0], trial.Outcome{}, crash, time.Now(), 0); counts {
		t.Errorf("what has no run directory counts: %+v", a)
	}
	all := trial.AllParts().Cases
	reported := all[slices.IndexFunc(all, func(c plan.Case) bool { return !c.Control })]
	finding := check.Result{Check: reported.Finding.Check, Verdict: check.Fail,
		Findings: []check.Finding{{Sentence: reported.Finding.Says}}}
	for name, c := range map[string]struct {
		unit        string
		report      check.Report
		interrupted bool
		harness     error
		counts      bool
		want        check.Verdict
	}{
		"whole":                         {scenario, report(check.Pass), false, nil, true, check.Pass},
		"interrupted, nothing shown":    {scenario, report(check.Unknown), true, nil, false, ""},
		"interrupted, a broken promise": {scenario, report(check.Fail), true, nil, true, check.Fail},
		"a case, before its finding":    {reported.Name, report(check.Fail), true, nil, false, ""},
		"a case, after its finding":     {reported.Name, report(check.Fail, finding), true, nil, true, check.Pass},
		"the harness failed":            {scenario, report(check.Pass), false, crash, true, check.Unknown},
		"the harness failed, a FAIL":    {scenario, report(check.Fail), false, crash, true, check.Fail},
	} {
		h := &harness{root: t.TempDir(), now: time.Now(), whole: map[string]int{}}
		u := nightList(t, c.unit).Units[0]
		d, err := rundir.Create(h.root, u.Name, u.Seed, h.now)
		if err != nil {
			t.Fatal(err)
		}
		out := trial.Outcome{Dir: d, Report: c.report, Interrupted: c.interrupted}
		a, counts := outcomeOf(u, out, c.harness, h.now, time.Minute)
		if counts != c.counts || a.Verdict != c.want || counts && a.Run != runOf(d) {
			t.Errorf("%s: counts %t, %+v", name, counts, a)
		}
		h.leave(t, d, u, c.report, c.harness)
		store := rundir.OpenNight(h.root)
		unlock, err := store.Begin(nightly.List{}, "1-of-1")
		if err != nil {
			t.Fatal(err)
		}
		unlock()
		known, err := knownResults(h.root, store, nightBuild())
		found := len(known) == 1 && len(known[0].Attempts) == 1
		if believed := counts && a.Verdict != check.Unknown; err != nil || found != believed {
			t.Errorf("%s: the next night finds %+v, %v", name, known, err)
		}
		if counts { // Kept and found again: still one attempt.
			r := nightly.Result{Unit: u, Build: nightBuild(), Attempts: []nightly.Attempt{a}}
			if err := store.Keep(r); err != nil {
				t.Fatal(err)
			}
			known, err := knownResults(h.root, store, nightBuild())
			if err != nil || len(known) != 1 || len(known[0].Attempts) != 1 {
				t.Errorf("%s: kept, and the next night finds %+v, %v", name, known, err)
			}
		}
	}
}

// leave writes what a trial leaves in its run directory.
func (h *harness) leave(t *testing.T, d *rundir.Dir, u nightly.Unit, r check.Report, harness error) {
	t.Helper()
	run := report.Run{Scenario: u.Name, Seed: u.Seed, Unit: u.ID, Started: h.now}
	if harness != nil {
		run.CutShort = harness.Error()
	}
	if err := errors.Join(d.WriteJSON(rundir.RunFile, run), d.WriteJSON(rundir.VerdictFile, r)); err != nil {
		t.Fatal(err)
	}
}

// TestAClusterFitsOnlyWithTheImagesToUpgradeTo: a cluster of the right version may have been made without them.
func TestAClusterFitsOnlyWithTheImagesToUpgradeTo(t *testing.T) {
	u := nightList(t, "upgrade").Units[0]
	n := nightRunner{place: &trial.Place{}, kubernetes: u.Plan.Kubernetes}
	n.options.Workers, n.options.KubernetesVersion = u.Workers, u.Plan.Kubernetes
	if n.fits(u) {
		t.Error("a cluster without the images fits")
	}
	n.options.Upgrades = u.Plan.Upgrades()
	if !n.fits(u) {
		t.Error("the cluster that was made for the unit does not fit")
	}
}

// TestAClusterFitsOnlyWithTheGates: neither a cluster without the gates of a unit nor one with gates that it has not.
func TestAClusterFitsOnlyWithTheGates(t *testing.T) {
	gated, plain := nightList(t, "recreate-light").Units[0], nightList(t, "set-scale-light").Units[0]
	for _, c := range []struct {
		gates []string
		unit  nightly.Unit
		want  bool
	}{
		{nil, plain, true}, {nil, gated, false},
		{gated.Plan.FeatureGates, gated, true}, {gated.Plan.FeatureGates, plain, false},
	} {
		n := nightRunner{place: &trial.Place{}, kubernetes: gated.Plan.Kubernetes}
		n.options.Workers, n.options.KubernetesVersion = c.unit.Workers, gated.Plan.Kubernetes
		n.options.FeatureGates = c.gates
		if got := n.fits(c.unit); got != c.want {
			t.Errorf("a cluster with the gates %q fits %s: %t", c.gates, c.unit.Name, got)
		}
	}
}

// TestASecondNightIsRefusedBeforeAnythingIsTouched: two nights on one part would carry out each trial twice.
func TestASecondNightIsRefusedBeforeAnythingIsTouched(t *testing.T) {
	u := newUntouched(t)
	unlock, err := rundir.OpenNight(u.runs).Begin(nightly.List{}, "1-of-1")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	got := u.program(t, "nightly", "--runs", u.runs, "--cluster", "seatrial-never", "--shard", "01/1")
	if got.code != exitArguments || !strings.Contains(got.stderr, "another night is at work") {
		t.Errorf("%+v", got)
	}
	for _, trace := range u.traces(t) {
		if strings.HasPrefix(trace, "called-") {
			t.Errorf("an engine was called: %s", trace)
		}
	}
}

// TestAnotherImageIsAnotherUnit: what MySQL 9 came to says nothing of 8.4, nor one node image of another.
func TestAnotherImageIsAnotherUnit(t *testing.T) {
	seen := map[string]string{}
	for _, images := range []string{"", "--database-image=mysql:8.4", "--node-image=kindest/node:v1.37.0"} {
		args := append([]string{"nightly", "--list", "-l", "smoke"}, strings.Fields(images)...)
		got := ask(t, args...)
		id, _, _ := strings.Cut(got.stdout, " ")
		if other, twice := seen[id]; twice || got.code != 0 {
			t.Errorf("%q has the unit %s of %q: %+v", images, id, other, got)
		}
		seen[id] = images
	}
}

// TestMergeLinksToRuns whether its directories are given as absolute or as relative paths.
func TestMergeLinksToRuns(t *testing.T) {
	l := nightList(t, "set-scale-light")
	t.Chdir(t.TempDir())
	store := rundir.OpenNight("shard")
	unlock, err := store.Begin(l, "test")
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if err := store.Keep(madeUp(l.Units[0])); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	ask(t, "nightly", "merge", "--out", out, "shard")
	html, err := os.ReadFile(rundir.OpenNight(out).Path(rundir.IndexFile))
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	to, err := filepath.Rel(filepath.Join(out, "nightly"), filepath.Join(here, "shard"))
	if err != nil || !strings.Contains(string(html), to+"/set-scale-light/") {
		t.Errorf("the page has no link below %s, %v", to, err)
	}
}

func TestShardOf(t *testing.T) {
	for _, tt := range []struct {
		text, index string
		i, n        int
	}{{"1/1", "", 1, 1}, {"7/7", "", 7, 7}, {"job/64", "0", 1, 64}, {"job/64", "63", 64, 64}} {
		if i, n, err := shardOf(tt.text, tt.index); i != tt.i || n != tt.n || err != nil {
			t.Errorf("%s with index %q is %d of %d, %v", tt.text, tt.index, i, n, err)
		}
	}
	for _, bad := range [][2]string{{"0/3", ""}, {"4/3", ""}, {"1", ""}, {"a/b", ""}, {"job/3", ""}, {"job/3", "3"}} {
		if _, _, err := shardOf(bad[0], bad[1]); err == nil {
			t.Errorf("%s with index %q was accepted", bad[0], bad[1])
		}
	}
}

// TestSoakSeedsAreOthers: a round has the same scenarios as the part, with seeds that no other round has.
func TestSoakSeedsAreOthers(t *testing.T) {
	part := nightList(t, "set-scale-light*")
	f := nightlyFlags{run: runFlags{seed: 1}}
	seen := map[uint64]bool{}
	for round := 1; round <= 3; round++ {
		all, err := f.soak(part, round)
		if err != nil || len(all) != len(part.Units) {
			t.Fatalf("round %d has %d of %d units, %v", round, len(all), len(part.Units), err)
		}
		for _, u := range all {
			seen[u.Seed] = true
			if err := trial.Validate(trial.AllParts(), plan.Make(u.Case, u.Seed)); err != nil {
				t.Error(err)
			}
		}
	}
	if len(seen) != 3*len(part.Units) {
		t.Errorf("%d units have %d seeds", 3*len(part.Units), len(seen))
	}
}
