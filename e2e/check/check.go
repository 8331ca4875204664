// Package check holds the checks: pure functions from a world to a result. Each judges one promise.
package check

import (
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// Verdict is the outcome of a check or a trial.
type Verdict string

// The verdicts. Fail is worse than Unknown, Unknown worse than Pass. The verdict of a trial is its checks' worst.
const (
	Pass    Verdict = "PASS"    // The promise held, and the evidence suffices to say so.
	Fail    Verdict = "FAIL"    // The promise was certainly broken; a finding names the culprit.
	Unknown Verdict = "UNKNOWN" // Neither could be shown.
)

// Worst returns the worst of the verdicts, Unknown if there are none.
func Worst(vs ...Verdict) Verdict {
	switch {
	case slices.Contains(vs, Fail):
		return Fail
	case len(vs) == 0 || slices.ContainsFunc(vs, func(v Verdict) bool { return v != Pass }):
		return Unknown
	}
	return Pass
}

// Finding is one proven violation of a promise.
type Finding struct {
	Promise  string       `json:"promise"`          // The broken promise, in the check's words.
	Sentence string       `json:"sentence"`         // What happened, in one plain sentence a DBA understands.
	Subject  string       `json:"subject"`          // What it happened to: "mysql-1 row (client 3, seq 41)".
	Node     string       `json:"node,omitempty"`   // Where.
	Span     history.Span `json:"span"`             // When.
	Events   []int64      `json:"events"`           // The events that prove it, by id.
	Faults   []string     `json:"faults,omitempty"` // The faults that were active then: "step 4 node-partition".
}

// Result is the outcome of one check on one history.
type Result struct {
	Check    string    `json:"check"`
	Promise  string    `json:"promise"`
	Source   string    `json:"source"` // Where the rule comes from: a KEP, a k/k issue, a manual, the design.
	Verdict  Verdict   `json:"verdict"`
	Evidence int       `json:"evidence"` // How many Units were judged; with 0 a check never passes.
	Unit     string    `json:"unit"`     // "acknowledged rows", "mounts of volumes".
	Findings []Finding `json:"findings,omitempty"`
	Reasons  []string  `json:"reasons,omitempty"` // Why it is Unknown, or what limits it; plain sentences.
	// Subjects names what was judged, if the check lists it: "volume pvc-1", "mysql-0". It is sorted.
	Subjects []string `json:"-"`
	Notes    []string `json:"notes,omitempty"` // Facts that do not change the verdict: "longest blind gap 1.2 s".
}

// When says for which part of a trial a promise holds, in the words of Litmus' probes (SOT and EOT, Edge, Continuous,
// OnChaos).
type When string

// The parts of a trial.
const (
	Continuous When = "continuous"   // All the time, under faults too.
	OnFault    When = "during-fault" // While a fault is active.
	AfterHeal  When = "after-heal"   // From the last heal on.
	Edge       When = "edge"         // What is there after the trial is what was there before.
	End        When = "end"          // In what is read at the end; faults may have acted at any time before.
)

// Check is a judge and its promise.
type Check struct {
	Name    string
	When    When
	Promise string
	Source  string
	Unit    string // What its evidence counts.
	// Applies reports, from the plan alone, whether the promise concerns the trial; nil means always. Missing evidence
	// does not leave a check out. Without a plan every check applies and is Unknown.
	Applies func(plan.Plan) bool
	// Lacks returns why the workload gives no evidence of the promise, "" if it does; nil means that it always does.
	Lacks func(*world.Trial) string
	judge func(*ruling)
}

// Report is the verdict of a whole trial.
type Report struct {
	Verdict Verdict `json:"verdict"`
	// Results has the checks that apply, in the order in which they were given.
	Results []Result `json:"results"`
	// NotJudged has the promises that the workload gives no evidence of. They do not count for the verdict.
	NotJudged []Unjudged `json:"notJudged,omitempty"`
}

// Of returns the result of a check, the zero Result if it did not judge.
func (r Report) Of(check string) Result {
	if i := slices.IndexFunc(r.Results, func(res Result) bool { return res.Check == check }); i >= 0 {
		return r.Results[i]
	}
	return Result{}
}

// Run judges a history with every check that applies to its plan. A check that panics is Unknown and does not stop the
// others.
func Run(hist history.History, checks []Check) Report { return Judge(world.New(hist), checks) }

// Judge is Run for an existing world.
func Judge(w *world.World, checks []Check) Report {
	var r Report
	verdicts := make([]Verdict, 0, len(checks))
	t, err := w.Trial()
	for _, c := range checks {
		if err == nil && c.Lacks != nil {
			if why := c.Lacks(t); why != "" {
				r.NotJudged = append(r.NotJudged, Unjudged{Check: c.Name, Promise: c.Promise, Why: why})
				continue
			}
		}
		if err == nil && c.Applies != nil && !c.Applies(t.Plan) {
			continue
		}
		res := rule(w, c)
		r.Results = append(r.Results, res)
		verdicts = append(verdicts, res.Verdict)
	}
	r.Verdict = Worst(verdicts...)
	return r
}

// All returns every check, in alphabetical order.
func All() []Check {
	return []Check{
		Acknowledged(),
		AttachOrder(),
		Balances(),
		Checksums(),
		Coverage(),
		Damage(),
		DetachInUse(),
		DetachOrder(),
		ErrantGTID(),
		EtcdRollback(),
		Failover(),
		InSync(),
		Integrity(),
		Isolation(),
		MountResidue(),
		Mounts(),
		OneWriter(),
		Order(),
		PDBHonoured(),
		PodIdentity(),
		Registers(),
		ResidueAudit(),
		RightVolume(),
		Rows(),
		SetBinding(),
		SetClaims(),
		SetIdentity(),
		SetOnDelete(),
		SetPartition(),
		SetPolicy(),
		SetPromotion(),
		SetStatus(),
		SetUpdate(),
		Settle(),
		StageOrder(),
		UnpublishInUse(),
		UpgradeOrder(),
		VersionReached(),
		Witness(),
	}
}
