package plan

import "math/rand/v2"

// Scenario is a named template: with a seed it becomes a plan.
type Scenario struct {
	Name    string
	Summary string // What is done and why, one sentence.
	// Expect is the verdict a sound cluster and a sound Seatrial come to: "PASS", "FAIL" or "UNKNOWN". Self-tests
	// differ from PASS: they sabotage the trial and must be found out.
	Expect string
	// Build draws everything that is left open from r, its only source of chance. Schema, Scenario, Seed and the
	// steps' numbers are filled in by Make.
	Build func(r *rand.Rand) Plan
}

// stream keeps the planner's random numbers apart from any other use of the same seed.
const stream = 0x5ea7_41a1

// Make turns a scenario and a seed into a plan. The same two give the same plan, byte for byte; the seed gives the
// plan again, not the timing of the machine it runs on.
func Make(s Scenario, seed uint64) Plan {
	p := s.Build(rand.New(rand.NewPCG(seed, stream)))
	p.Schema = SchemaVersion
	p.Scenario = s.Name
	p.Seed = seed
	number(p.Steps, 1)
	return p
}

// number numbers steps from n on, each before the steps within it, and returns the next number.
func number(steps []Step, n int) int {
	for i := range steps {
		steps[i].N = n
		n++
		for _, within := range steps[i].inner() {
			n = number(within, n)
		}
	}
	return n
}
