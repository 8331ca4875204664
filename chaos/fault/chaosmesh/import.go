package chaosmesh

import (
	"fmt"
	"slices"
	"time"

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
	objects, err := Parse(data)
	if err != nil {
		return plan.Plan{}, err
	}
	p := scenarios.Trial(scenarios.MySQL(min(max(a.Replicas, 1), plan.MaxReplicas)))
	p.Schema, p.Scenario, p.Seed, p.Workers = plan.SchemaVersion, imported, a.Seed, a.Workers
	i := newImporter(p.Workload, a.Seed, a.Faults)
	i.mesh = plan.Mesh{Labels: a.Labels, Machines: a.Machines, Times: a.Times}
	var parts [][]plan.Step
	for n, obj := range objects {
		parts = append(parts, i.steps(fmt.Sprintf("manifests[%d]", n), obj))
	}
	if a.Together {
		parts = [][]plan.Step{manifest{importer: i, at: "manifests", spec: "spec"}.together("the file", parts)}
	}
	if err := i.errs.Err(); err != nil {
		return plan.Plan{}, err
	}
	p.Steps = []plan.Step{scenarios.Load(between)}
	for _, steps := range parts {
		p.Steps = slices.Concat(p.Steps, steps, []plan.Step{scenarios.Load(between), scenarios.Checksum("after")})
	}
	plan.Number(p.Steps)
	return p, nil
}

// Expand puts the steps that they mean in the place of a plan's manifests, at any depth, and numbers all steps anew. A
// plan without manifests is returned as it is. Nothing of p is changed.
func Expand(p plan.Plan, faults []plan.FaultCaps) (plan.Plan, error) {
	isManifest := func(s plan.Step) bool { return s.Do == plan.ActionMesh && s.Mesh != nil }
	if !slices.ContainsFunc(p.AllSteps(), isManifest) {
		return p, nil
	}
	i := newImporter(p.Workload, p.Seed, faults)
	p.Steps = plan.Rewrite("steps", p.Steps, func(at string, s plan.Step) []plan.Step {
		if !isManifest(s) {
			return []plan.Step{s}
		}
		at += ".mesh.manifest"
		obj, errs := decode(s.Mesh.Manifest)
		if len(errs) > 0 {
			i.errs = append(i.errs, errs.Under(at)...)
			return nil
		}
		i.mesh = *s.Mesh
		steps := i.steps(at, obj)
		if s.Bound > 0 && bounds(steps) > s.Bound.D() {
			shorten(steps, s.Bound.D())
		}
		return steps
	})
	if err := i.errs.Err(); err != nil {
		return plan.Plan{}, err
	}
	plan.Number(p.Steps)
	return p, nil
}

// shorten gives each step its share of what a manifest may take.
func shorten(steps []plan.Step, most time.Duration) {
	all := bounds(steps)
	for i := range steps {
		share := float64(steps[i].Bound) / float64(all)
		steps[i].Bound = plan.Duration(time.Duration(float64(most) * share).Truncate(time.Second))
	}
}
