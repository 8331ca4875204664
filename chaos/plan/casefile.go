package plan

import (
	"fmt"
	"math/rand/v2"
)

// CaseFile is a case that a user wrote: what a run must show, the plan, and how often it is run.
type CaseFile struct {
	Case

	Times int  `json:"times,omitempty"` // Attempts, each volume of a run being one; 1 when left out.
	Plan  Plan `json:"plan"`            // Its schema, scenario and numbers of steps may be left out.
}

// MaxTimes is the most attempts that a case can be given.
const MaxTimes = 100

// DecodeCase reads a case in YAML or JSON, strictly. Its error is FieldErrors; Complete judges the case.
func DecodeCase(data []byte) (CaseFile, error) {
	var f CaseFile
	err := decode(data, &f, "case").Err()
	return f, err
}

// Complete fills in what a case may leave out, and checks it with what the plan may name and the names of all checks.
// Its error is FieldErrors.
func (f CaseFile) Complete(caps Caps, checks []string) (CaseFile, error) {
	f.Expect = "FAIL"
	if f.Control {
		f.Expect = "PASS"
	}
	if f.Plan.Schema == 0 {
		f.Plan.Schema = SchemaVersion
	}
	of := f.Plan
	f.Build = func(*rand.Rand) Plan {
		p := of
		p.Steps = Rewrite("steps", of.Steps, func(_ string, s Step) []Step { return []Step{s} })
		return p
	}
	v := &validator{}
	v.name("name", f.Name)
	v.note("summary", f.Summary)
	v.note("report", f.Report)
	v.OneOf("finding.check", "check", f.Finding.Check, checks...)
	if f.Finding.Says == "" && !f.Control {
		v.Add("finding.says", "give a part of the finding's sentence", "is missing")
	}
	v.note("finding.says", f.Finding.Says)
	v.Range("times", f.Times, 0, MaxTimes)
	f.Times = max(f.Times, 1)
	v.Range("volumes", f.Volumes, 0, MaxReplicas)
	if len(f.Holds) > 0 && !f.Control {
		v.Add("holds", "leave it out, or set control", "is of controls alone")
	}
	for i, name := range f.Holds {
		v.OneOf(fmt.Sprintf("holds[%d]", i), "check", name, checks...)
	}
	if of.Schema != SchemaVersion {
		v.Add("plan.schema", fmt.Sprintf("use %d, or leave it out", SchemaVersion), "%d is not known", of.Schema)
	}
	p := Make(f.Case, max(of.Seed, 1))
	if f.Volumes > p.Workload.Replicas {
		v.Add("volumes", "use the replicas of the workload at most", "%d is more than the %d replicas", f.Volumes,
			p.Workload.Replicas)
	}
	if p.Scenario == "" {
		p.Scenario = "unnamed" // An error of the name says so.
	}
	if errs, ok := p.Validate(caps).(FieldErrors); ok { //nolint:errorlint // It is that or nil.
		v.FieldErrors = append(v.FieldErrors, errs.Under("plan")...)
	}
	return f, v.Err()
}
