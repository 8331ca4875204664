package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// crew is what the scenarios of a StatefulSet are made with: they are the same for databases under load and for
// containers that do nothing, and for a calm sea and a fault at a moment of their choice.
type crew struct {
	r     *rand.Rand
	light bool
	fault string // Empty in a calm sea.
}

// setScenario is a scenario of a StatefulSet, of which several are made.
type setScenario struct {
	name    string
	summary string
	light   bool     // There is none with databases: their data would be gone, or it shows no more than the light one.
	heavy   bool     // There is none without: it is about their data.
	faults  []string // It is made with these alone; nil is all of setFaults.
	build   func(c crew) plan.Plan
}

// setFaults are the faults that a scenario of a StatefulSet is made with, at a moment that the API watch chooses.
func setFaults() []string {
	return []string{"kubelet-kill", "manager-kill", "node-partition", "node-reboot"}
}

// variants returns the scenario with databases and with containers that do nothing, each in a calm sea and with each of
// the faults.
func (s setScenario) variants() []plan.Scenario {
	var all []plan.Scenario
	if !s.heavy {
		all = s.seas(s.name+"-light", s.summary+" Containers that do nothing.", true)
	}
	if !s.light {
		all = append(all, s.seas(s.name, s.summary, false)...)
	}
	return all
}

// seas returns the scenario in a calm sea, and with each of the faults.
func (s setScenario) seas(name, summary string, light bool) []plan.Scenario {
	all := []plan.Scenario{s.of(name, summary, crew{light: light})}
	faults := s.faults
	if faults == nil {
		faults = setFaults()
	}
	for _, fault := range faults {
		all = append(all, s.of(name+"-"+fault, summary+" Meanwhile: "+fault+".", crew{light: light, fault: fault}))
	}
	return all
}

func (s setScenario) of(name, summary string, c crew) plan.Scenario {
	return plan.Scenario{
		Name: name, Summary: summary, Expect: "PASS",
		Build: func(r *rand.Rand) plan.Plan {
			with := c
			with.r = r
			return s.build(with)
		},
	}
}

// workload is a StatefulSet with so many replicas.
func (c crew) workload(replicas int) plan.Workload {
	if c.light {
		return draft.Light(replicas)
	}
	return draft.MySQL(replicas)
}

// plan is a plan with a load and a checksum before the steps and after them, where there is data.
func (c crew) plan(w plan.Workload, steps ...plan.Step) plan.Plan {
	p := plan.Plan{Workers: 2, Workload: w, Bounds: draft.Bounds()}
	if c.light {
		p.Bounds = draft.LightBounds()
		for _, s := range steps {
			if s.Do != plan.ActionLoad && s.Do != plan.ActionChecksum {
				p.Steps = append(p.Steps, s)
			}
		}
		return p
	}
	p.Steps = []plan.Step{draft.Load(200 + c.r.IntN(50)), draft.Checksum("before")}
	p.Steps = append(p.Steps, steps...)
	p.Steps = append(p.Steps, draft.Load(60), draft.Checksum("after"))
	return p
}

// meanwhile is the fault of the scenario, if it has one, at a moment in the life of a pod, on the node of that pod.
func (c crew) meanwhile(moment string, ordinal int) []plan.Step {
	if c.fault == "" {
		return nil
	}
	return append([]plan.Step{draft.Await(moment, ordinal, 2*time.Minute)}, c.strike(ordinal)...)
}

// strike is the fault of the scenario, if it has one, on the node of a pod.
func (c crew) strike(ordinal int) []plan.Step {
	bounds := map[string]time.Duration{"node-partition": 3 * time.Minute, "node-reboot": 4 * time.Minute}
	if c.fault == "" {
		return nil
	}
	return []plan.Step{draft.Fault(c.fault, ordinal, time.Second, max(2*time.Minute, bounds[c.fault]))}
}

// either puts the fault of the scenario, if it has one, into one of two places, as the seed chooses.
func (c crew) either(first, second []plan.Step) (a, b []plan.Step) {
	if c.r.IntN(2) == 0 {
		return first, nil
	}
	return nil, second
}
