// Package plan turns a scenario and a seed into a plan: numbered steps, complete before anything is touched, and
// legal on paper. The same scenario and seed give the same bytes.
//
// Each kind of step is one entry of kinds: its field, its rules and its words. The package is pure; all randomness of a
// trial is spent here.
package plan

import (
	"fmt"
	"slices"
	"time"
)

// SchemaVersion is the version of the plan's JSON; a reader refuses a newer one.
const SchemaVersion = 1

// Duration is a time.Duration that reads and writes as text, for example "1m30s".
type Duration time.Duration

// D returns d as a time.Duration.
func (d Duration) D() time.Duration { return time.Duration(d) }

// String renders d as time.Duration does.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the duration as text.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the duration from text.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// Plan is all that a trial will do, decided before anything is touched.
type Plan struct {
	Schema   int    `json:"schema"`
	Scenario string `json:"scenario"`
	Seed     uint64 `json:"seed"`
	Workers  int    `json:"workers"` // Worker nodes needed.
	// Kubernetes is the version that the cluster must have at the start, "v1.36.3"; any when it is empty.
	Kubernetes string `json:"kubernetes,omitempty"`
	// FeatureGates are gates that are off by default, and that API server and controller manager must have on.
	FeatureGates []string `json:"featureGates,omitempty"`

	Workload Workload `json:"workload"`
	Bounds   Bounds   `json:"bounds"`
	Steps    []Step   `json:"steps"`
	// Audit is set by the harness that carries the plan out: it looks for leaks before and after.
	Audit bool `json:"audit,omitempty"`
	// DataFiles is set by the harness that carries the plan out: it verifies the database's files on disk at the end.
	DataFiles bool `json:"dataFiles,omitempty"`
}

// Bounds are the times and amounts the judges hold the trial to.
type Bounds struct {
	Ready     Duration `json:"ready"`     // From apply to all instances Ready.
	Settle    Duration `json:"settle"`    // From the last heal to Ready and writable.
	BlindGap  Duration `json:"blindGap"`  // Longest gap in which the mount ledger may be blind.
	MinOps    int      `json:"minOps"`    // Acknowledged inserts that each instance needs at least in the whole trial.
	MinAround int      `json:"minAround"` // Completed operations needed before, during and after each fault.
	// Failover is how long a fault may keep the group from taking writes; 0 is as long as it likes.
	Failover Duration `json:"failover,omitempty"`
	// MaxNodes is how many nodes may be hurt at the same time; 0 is fewer than half of the workers, and at least one.
	MaxNodes int `json:"maxNodes,omitempty"`
}

// Nodes returns how many of so many workers may be hurt at the same time.
func (b Bounds) Nodes(workers int) int {
	if b.MaxNodes > 0 {
		return b.MaxNodes
	}
	return max((workers+1)/2-1, 1)
}

// AllSteps returns every step in the order of N: each before the steps within it, Provoke of a fault before During, and
// parallel sequences one after another.
func (p Plan) AllSteps() []Step { return flatten(nil, p.Steps) }

// Breaks reports whether the plan has a revision of that name whose pods are never Ready.
func (p Plan) Breaks(revision string) bool {
	return slices.ContainsFunc(p.AllSteps(), func(s Step) bool {
		return s.Update != nil && s.Update.Revision == revision && s.Update.Broken != ""
	})
}

func flatten(into, steps []Step) []Step {
	for _, s := range steps {
		into = append(into, s)
		for _, within := range s.inner() {
			into = flatten(into, *within.steps)
		}
	}
	return into
}

// Within returns every step within s, in the order of N.
func (s Step) Within() []Step { return flatten(nil, []Step{s})[1:] }

// Around returns the steps around step n, the outermost one first.
func (p Plan) Around(n int) []Step {
	return slices.DeleteFunc(p.AllSteps(), func(s Step) bool {
		return !slices.ContainsFunc(s.Within(), func(in Step) bool { return in.N == n })
	})
}

// sequence is one list of steps within a step.
type sequence struct {
	field string
	steps *[]Step
}

// inner returns the sequences of steps within a step, in their order.
func (s *Step) inner() []sequence {
	switch {
	case s.Fault != nil:
		return []sequence{{"fault.provoke", &s.Fault.Provoke}, {"fault.during", &s.Fault.During}}
	case len(s.Branches) > 0:
		inner := make([]sequence, len(s.Branches))
		for i := range s.Branches {
			inner[i] = sequence{fmt.Sprintf("branches[%d]", i), &s.Branches[i]}
		}
		return inner
	}
	return []sequence{{"during", &s.During}}
}

// Rewrite returns the steps with each replaced, at any depth; the given steps are not changed. At is the path of the
// outermost list.
func Rewrite(at string, steps []Step, rewrite func(at string, s Step) []Step) []Step {
	if steps == nil {
		return nil
	}
	out := make([]Step, 0, len(steps))
	for i, s := range steps {
		here := fmt.Sprintf("%s[%d]", at, i)
		if s.Fault != nil {
			s.Fault = new(*s.Fault)
		}
		s.Branches = slices.Clone(s.Branches)
		for _, within := range s.inner() {
			*within.steps = Rewrite(here+"."+within.field, *within.steps, rewrite)
		}
		out = append(out, rewrite(here, s)...)
	}
	return out
}

// Number gives steps their numbers, from 1 on, each before the steps within it.
func Number(steps []Step) { number(steps, 1) }

// number numbers steps from n on and returns the next number.
func number(steps []Step, n int) int {
	for i := range steps {
		steps[i].N = n
		n++
		for _, within := range steps[i].inner() {
			n = number(*within.steps, n)
		}
	}
	return n
}
