// Package nightly plans one night of trials: the list of units, the part and order of a shard, how often a seed is
// tried again, and the summary of all results.
//
// It does no I/O: clock, runner and store are passed in. The same results give the same summary, in however many parts
// they were made.
package nightly

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
)

// Build is what a night tests.
type Build struct {
	Commit     string `json:"commit"` // Of Seatrial, with a digest of the program where that has changes in no commit.
	Kubernetes string `json:"kubernetes"`
	Images     string `json:"images,omitempty"` // The flags that name images, empty if none does.
}

// Unit is a plan and the outcome that is expected of it.
type Unit struct {
	ID       string        `json:"id"`   // Digest of plan and build.
	Name     string        `json:"name"` // The scenario's or the case's.
	Seed     uint64        `json:"seed"`
	Expect   string        `json:"expect"`         // In words.
	Race     bool          `json:"race,omitempty"` // One attempt with the expected outcome is enough.
	Once     bool          `json:"once,omitempty"` // Another attempt would be the same.
	Workers  int           `json:"workers"`
	Storage  string        `json:"storage"`
	Labels   []string      `json:"labels"`
	Estimate plan.Duration `json:"estimate"` // From the plan alone, so that every shard knows the same.

	Plan plan.Plan `json:"-"`
	Case plan.Case `json:"-"` // Without a report where it is a scenario.
}

// NewUnit makes the unit of a case, or of a scenario as a case without a report, and a seed.
func NewUnit(c plan.Case, b Build, seed uint64) (Unit, error) {
	p := plan.Make(c, seed)
	data, err := json.Marshal(p)
	if err != nil {
		return Unit{}, fmt.Errorf("encode the plan of %s: %w", c.Name, err)
	}
	return Unit{
		ID: digest(string(data), b.Commit, b.Kubernetes, b.Images), Name: c.Name, Seed: seed, Expect: expectation(c),
		Race: c.Race, Workers: p.Workers, Storage: p.Workload.StorageName(), Labels: Labels(c, p),
		Estimate: plan.Duration(Estimate(p)), Plan: p, Case: c,
	}, nil
}

// SavedRun is the unit of a run that is judged again. Its name is where it is, SCENARIO/RUN, and content is a text that
// is another one when what is judged is.
func SavedRun(run, content string, b Build) Unit {
	return Unit{
		ID: digest("saved run", run, content, b.Commit, b.Kubernetes), Name: run, Once: true,
		Expect:   "each check's verdict as the run has it",
		Estimate: plan.Duration(time.Second),
	}
}

// Title names the unit in a sentence.
func (u Unit) Title() string {
	if u.Once {
		return u.Name
	}
	return fmt.Sprintf("%s, seed %d", u.Name, u.Seed)
}

// Again is the command that carries the unit out by itself.
func (u Unit) Again() string {
	if u.Once {
		return "seatrial judge " + u.Name
	}
	return fmt.Sprintf("seatrial run %s --seed %d", u.Name, u.Seed)
}

// digest is 16 hexadecimal digits of a digest of several texts.
func digest(texts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\n")))
	return hex.EncodeToString(sum[:8])
}

// SoakSeed is the seed of a scenario in a round of the soak: another one for each commit, version and round, and the
// same one for all that ask.
func SoakSeed(b Build, name string, first uint64, round int) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s\n%d\n%d", b.Commit, b.Kubernetes, name, first, round))
	return 1 + binary.BigEndian.Uint64(sum[:8])%999_999 // Short enough to type.
}

func expectation(c plan.Case) string {
	switch {
	case c.Control:
		return "prevented: no finding of " + c.Finding.Check
	case c.Report != "":
		return "reproduced: a finding of " + c.Finding.Check
	case c.Finding.Check != "":
		return c.Expect + " in " + c.Finding.Check
	}
	return c.Expect
}

// Labels are what scenarios and cases are selected by: their name, their kind, the workload, the storage and the
// faults.
func Labels(c plan.Case, p plan.Plan) []string {
	all := []string{c.Name, "scenario", p.Workload.StorageName()}
	if c.Report != "" {
		all[1] = "case"
	}
	if c.Control {
		all = append(all, "control")
	}
	if p.Workload.Light {
		all = append(all, "light")
	} else {
		all = append(all, "mysql")
	}
	plain := true
	for _, s := range p.AllSteps() {
		if s.Fault != nil {
			all, plain = append(all, s.Fault.Name), false
		}
	}
	if plain {
		all = append(all, "plain")
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Estimate is about how long a trial takes on two cores, without its cluster. It was fitted to the figures in
// docs/figures.md; what a trial really took, where that is known, goes before it.
func Estimate(p plan.Plan) time.Duration {
	const forcedDetach = 6 * time.Minute // maxWaitForUnmountDuration of the attach/detach controller.
	sum, step, detach := 75*time.Second, 6*time.Second, time.Duration(0)
	if p.Workload.Light {
		sum, step = 15*time.Second, 4*time.Second
	}
	for _, s := range p.AllSteps() {
		sum += step + s.Lasting.D()
		if s.Fault != nil {
			sum += s.Fault.Hold.D()
		}
		switch {
		case s.Upgrade == nil:
		case s.Upgrade.Node == plan.UpgradeControlPlane:
			sum += 4 * time.Minute
		default:
			sum += time.Minute
		}
		if s.Await != nil {
			sum += s.Await.Lasting.D() + s.Await.After.D()
			if s.Await.For == plan.AwaitMoved && s.Bound.D() > forcedDetach {
				detach = forcedDetach
			}
		}
	}
	return sum + detach
}

// Judge compares a trial with what is expected: PASS is as expected, FAIL is certainly not. A control in which another
// promise is broken is not, unless it says so.
func Judge(c plan.Case, r check.Report) check.Verdict {
	var expected bool
	switch {
	case c.Control:
		expected = r.Holds(c) && (r.Verdict != check.Fail || c.Expect == string(check.Fail))
	case c.Report != "":
		expected = len(r.Shows(c.Finding)) > 0
	case c.Expect == string(check.Fail):
		expected = r.Verdict == check.Fail && len(r.Shows(c.Finding)) > 0
	case c.Expect == string(check.Unknown):
		expected = r.Verdict == check.Unknown && r.Doubts(c.Finding)
	default:
		expected = r.Verdict == check.Pass
	}
	switch {
	case expected:
		return check.Pass
	case r.Verdict == check.Unknown:
		return check.Unknown
	}
	return check.Fail
}

// Conclusive reports whether a trial that may have been cut short says as much as a whole one: it passed, it shows
// the expected finding, or it broke a promise of a scenario that is expected to pass.
func Conclusive(c plan.Case, r check.Report) bool {
	switch {
	case r.Verdict == check.Unknown || r.Verdict == check.Fail && c.Control:
		return false
	case r.Verdict == check.Pass || c.Report == "" && c.Expect == string(check.Pass):
		return true
	}
	return Judge(c, r) == check.Pass
}

// List is all that must have a verdict at the end of the night.
type List struct {
	Build
	Units []Unit `json:"units"`
}

// Digest names the list, in whatever order its units are.
func (l List) Digest() string {
	var units []string
	for _, u := range l.Units {
		units = append(units, fmt.Sprint(u.ID, " ", u.Estimate))
	}
	slices.Sort(units)
	return digest(append([]string{l.Commit, l.Kubernetes}, units...)...)
}

// Shards splits the list into n parts of about equal time: the longest unit first, each to the part with the least to
// do. It is a pure function of the list and n.
func (l List) Shards(n int) []List {
	order := slices.Clone(l.Units)
	slices.SortFunc(order, func(a, b Unit) int {
		return cmp.Or(cmp.Compare(b.Estimate, a.Estimate), cmp.Compare(a.ID, b.ID))
	})
	parts := make([]List, n)
	for i := range parts {
		parts[i].Build = l.Build
	}
	sums := make([]plan.Duration, n)
	for _, u := range order {
		least := 0
		for k, sum := range sums {
			if sum < sums[least] {
				least = k
			}
		}
		sums[least] += u.Estimate
		parts[least].Units = append(parts[least].Units, u)
	}
	return parts
}
