package chaosmesh

import (
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/scenarios"
)

// Around is the plan that manifests from a file are put into: a workload, under load before, between and after them.
type Around struct {
	Replicas int // Of the database; 0 is 3.
	Workers  int // Of the cluster; 0 is 2.
	Seed     uint64
	Labels   map[string]string // See plan.Mesh.
	Machines map[string]int    // See plan.Mesh.
	Times    int               // See plan.Mesh.
	// Together has the manifests carried out at the same time, as `kubectl apply` of one file does; otherwise they are
	// carried out one after the other.
	Together bool
	Faults   []plan.FaultCaps
}

// imported is the name of the scenario of a plan that was made of manifests.
const imported = "chaos-mesh"

// between is how many inserts are acknowledged before, between and after the manifests: enough to see that the database
// works.
const between = 100

// Import makes a plan of manifests in YAML or JSON. It returns plan.FieldErrors with all that is wrong with them.
func Import(data []byte, a Around) (plan.Plan, error) {
	if a.Replicas == 0 {
		a.Replicas = 3
	}
	if a.Workers == 0 {
		a.Workers = 2
	}
	all, err := Parse(data)
	if err != nil {
		return plan.Plan{}, err
	}
	p := scenarios.Trial(scenarios.MySQL(min(max(a.Replicas, 1), plan.MaxReplicas)))
	p.Schema, p.Scenario, p.Seed, p.Workers = plan.SchemaVersion, imported, a.Seed, a.Workers
	parts, err := Translate(all, Options{
		Workload: p.Workload, Seed: a.Seed, Labels: a.Labels, Machines: a.Machines, Times: a.Times, Faults: a.Faults,
	})
	if err != nil {
		return plan.Plan{}, err
	}
	if a.Together && len(parts) > 1 {
		r := &rules{at: "manifests"}
		parts = [][]plan.Step{together(r, "the file", parts)}
		if err := r.errs.Err(); err != nil {
			return plan.Plan{}, err
		}
	}
	p.Steps = []plan.Step{scenarios.Load(between)}
	for _, steps := range parts {
		p.Steps = append(append(p.Steps, steps...), scenarios.Load(between), scenarios.Checksum("after"))
	}
	plan.Number(p.Steps)
	return p, nil
}
