package chaosmesh

import (
	"fmt"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

// Expand puts the steps that they mean in the place of a plan's manifests, at any depth, and numbers all steps anew. A
// plan without manifests is returned as it is. Nothing of p is changed.
func Expand(p plan.Plan, faults []plan.FaultCaps) (plan.Plan, error) {
	if !holds(p.Steps) {
		return p, nil
	}
	x := &expansion{
		faults: faults, work: p.Workload, seed: p.Seed,
		shared: newTranslator(Options{Workload: p.Workload, Seed: p.Seed, Faults: faults}),
	}
	p.Steps = x.steps("steps", p.Steps)
	if err := x.errs.Err(); err != nil {
		return plan.Plan{}, err
	}
	plan.Number(p.Steps)
	return p, nil
}

// holds reports whether a manifest is among steps or within them.
func holds(steps []plan.Step) bool {
	for _, s := range (plan.Plan{Steps: steps}).AllSteps() {
		if s.Do == plan.ActionMesh {
			return true
		}
	}
	return false
}

// expansion is a plan on its way.
type expansion struct {
	faults []plan.FaultCaps
	work   plan.Workload
	seed   uint64
	shared *translator // Remembers the namespace, and goes on drawing.
	errs   plan.FieldErrors
}

func (x *expansion) steps(at string, steps []plan.Step) []plan.Step {
	if steps == nil {
		return nil
	}
	out := make([]plan.Step, 0, len(steps))
	for i, s := range steps {
		field := fmt.Sprintf("%s[%d]", at, i)
		if s.Do == plan.ActionMesh && s.Mesh != nil {
			out = append(out, x.manifest(field, s)...)
			continue
		}
		if s.Fault != nil {
			f := *s.Fault
			f.Provoke = x.steps(field+".fault.provoke", f.Provoke)
			f.During = x.steps(field+".fault.during", f.During)
			s.Fault = &f
		}
		s.During = x.steps(field+".during", s.During)
		if s.Branches != nil {
			branches := make([][]plan.Step, len(s.Branches))
			for j, branch := range s.Branches {
				branches[j] = x.steps(fmt.Sprintf("%s.branches[%d]", field, j), branch)
			}
			s.Branches = branches
		}
		out = append(out, s)
	}
	return out
}

// manifest returns the steps of one manifest, which may take as long as its step.
func (x *expansion) manifest(field string, s plan.Step) []plan.Step {
	at := field + ".mesh.manifest"
	all, err := Parse(s.Mesh.Manifest)
	if err != nil {
		x.failed(at, err)
		return nil
	}
	t := x.shared
	t.labels, t.machines, t.times = s.Mesh.Labels, s.Mesh.Machines, s.Mesh.Times
	var out []plan.Step
	for _, m := range all {
		r := &rules{at: m.At}
		steps := t.manifest(r, m)
		if len(r.errs) > 0 {
			x.failed(at, r.errs)
			return nil
		}
		out = append(out, steps...)
	}
	if s.Bound > 0 && bounds(out) > s.Bound.D() {
		shorten(out, s.Bound.D())
	}
	return out
}

// failed keeps errors, with the path of the step in the place of that of a file.
func (x *expansion) failed(at string, err error) {
	for _, e := range join(nil, err) {
		e.Field = strings.Replace(e.Field, "manifests[0]", at, 1)
		x.errs = append(x.errs, e)
	}
}

// shorten gives each step its share of what a manifest may take.
func shorten(steps []plan.Step, most time.Duration) {
	all := bounds(steps)
	for i := range steps {
		share := float64(steps[i].Bound) / float64(all)
		steps[i].Bound = plan.Duration(time.Duration(float64(most) * share).Truncate(time.Second))
	}
}
