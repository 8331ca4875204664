package plan

import "math/rand/v2"

// Scenario is a named template: with a seed it becomes a plan.
type Scenario struct {
	Name    string `json:"name"`
	Summary string `json:"summary,omitempty"` // What is done and why, one sentence.
	// Expect is the verdict of a sound cluster and a sound Seatrial: "PASS", "FAIL" or "UNKNOWN". Only self-tests,
	// which sabotage the trial and must be found out, and cases expect anything but PASS.
	Expect string `json:"-"`
	// Finding is required if Expect is FAIL: another failure is not what the scenario is about. If Expect is UNKNOWN,
	// its check must be UNKNOWN, for a reason that it matches. Scenarios that expect PASS have none, except controls.
	Finding Sign `json:"finding"`
	// Build draws everything that is left open from r, its only source of chance. Make fills in Schema, Scenario, Seed
	// and the steps' numbers.
	Build func(r *rand.Rand) Plan `json:"-"`

	// The rest describes a case.

	Report   string `json:"report,omitempty"`  // Where it was reported.
	Affected string `json:"-"`                 // The Kubernetes versions that have it; Expect is the verdict on them.
	Fixed    string `json:"-"`                 // The first without it; "none" when it is open.
	Volumes  int    `json:"volumes,omitempty"` // How many volumes a run puts at risk, each an attempt; 0 is one.
	// Race is set if the finding depends on a race: several runs look for it, until one of their volumes shows it.
	Race bool `json:"race,omitempty"`
	// Control is set for a case in which something prevents the finding. The checks of Finding and Holds must pass, and
	// coverage, whatever the others say: what prevents a loss need not keep every promise. Expect is the verdict of all
	// checks.
	Control bool `json:"control,omitempty"`
	// Holds names more checks that must pass in a control: a missing finding means little if something else was lost.
	Holds []string `json:"holds,omitempty"`
}

// Case is a scenario that reproduces a bug report: Report is set, and Finding shows the bug.
type Case = Scenario

// stream keeps the planner's random numbers apart from any other use of the same seed.
const stream = 0x5ea7_41a1

// Make turns a scenario and a seed into a plan. The same two give the same plan, byte for byte; the seed repeats the
// plan, not the timing of the machine it runs on.
func Make(s Scenario, seed uint64) Plan {
	p := s.Build(rand.New(rand.NewPCG(seed, stream)))
	p.Schema = SchemaVersion
	p.Scenario = s.Name
	p.Seed = seed
	Number(p.Steps)
	return p
}

// Sign is how a finding, or a reason for UNKNOWN, is recognised.
type Sign struct {
	Check string `json:"check"`          // The check that makes the finding.
	Says  string `json:"says,omitempty"` // A part of its sentence.
}
