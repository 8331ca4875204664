package plan_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/plan"
)

// numbered numbers steps as Make does.
func numbered(steps []plan.Step, n int) int {
	for i := range steps {
		steps[i].N = n
		n++
		inner := append([][]plan.Step{steps[i].During}, steps[i].Branches...)
		if steps[i].Fault != nil {
			inner = append(inner, steps[i].Fault.During)
		}
		for _, within := range inner {
			n = numbered(within, n)
		}
	}
	return n
}

// setPlan is a plan with one step of each change of a StatefulSet, awaits between them, and a fault at a moment that an
// await chose.
func setPlan() plan.Plan {
	bound := plan.Duration(time.Minute)
	p := legal()
	p.Workload.Start, p.Workload.MinReadySeconds, p.Workload.MaxUnavailable = 4, 2, 2
	p.Workload.WhenScaled = plan.PolicyDelete
	await := func(what string, ordinal int) plan.Step {
		return plan.Step{Do: plan.ActionAwait, Await: &plan.Await{For: what, Ordinal: ordinal}, Bound: bound}
	}
	kill := plan.Step{Do: plan.ActionFault, Bound: bound, Fault: &plan.Fault{
		Name: "kubelet-kill", Ordinal: 6, Hold: plan.Duration(time.Second)}}
	still := await(plan.AwaitStill, 0)
	still.Await.Lasting = bound / 2
	p.Steps = []plan.Step{
		{Do: plan.ActionScale, Replicas: new(1), Bound: bound,
			During: []plan.Step{await(plan.AwaitTerminating, 6), kill}},
		{Do: plan.ActionScale, Replicas: new(3), Wait: plan.WaitObserved, Bound: bound},
		await(plan.AwaitReady, 6),
		await(plan.AwaitSettled, 0),
		{Do: plan.ActionPartition, Partition: new(2), Bound: bound},
		{Do: plan.ActionUpdate, Update: &plan.Update{Revision: "v2", Broken: plan.BrokenImage},
			Wait: plan.WaitObserved, Bound: bound},
		still,
		{Do: plan.ActionRollback, Revision: plan.RevisionFirst, Wait: plan.WaitObserved, Bound: bound},
		{Do: plan.ActionDeleteClaim, Ordinal: new(4), Bound: bound},
		{Do: plan.ActionDeleteSet, Cascade: plan.CascadeOrphan, Bound: bound},
		{Do: plan.ActionCreateSet, Bound: bound},
		{Do: plan.ActionDeletePod, Ordinal: new(4), Bound: bound},
	}
	numbered(p.Steps, 1)
	return p
}

func TestLegalSetPlan(t *testing.T) {
	if err := setPlan().Validate(caps()); err != nil {
		t.Fatal(err)
	}
	light := setPlan()
	c := caps()
	c.Workloads = append(c.Workloads, plan.LightName)
	light.Workload.Name, light.Workload.Light = plan.LightName, true
	light.Workload.Clients, light.Workload.Interval, light.Workload.QuietRows = 0, 0, 0
	light.Bounds.MinOps, light.Bounds.MinAround = 0, 0
	if err := light.Validate(c); err != nil {
		t.Fatal(err)
	}
}

func setMistakes() []mistake {
	return []mistake{
		{"strategy", func(p *plan.Plan) { p.Workload.UpdateStrategy = "onDelete" },
			`workload.updateStrategy: no strategy "onDelete"; did you mean "OnDelete"?`},
		{"partition of none", func(p *plan.Plan) { p.Workload.UpdateStrategy, p.Workload.Partition = "OnDelete", 1 },
			`workload.partition: strategy "OnDelete" has none; leave it out`},
		{"no gate", func(p *plan.Plan) { p.Workload.UpdateStrategy = "Recreate" },
			`featureGates: strategy "Recreate" needs StatefulSetRecreateStrategy; add`},
		{"gates of no version", func(p *plan.Plan) { p.FeatureGates = []string{plan.RecreateGate} },
			"kubernetes: is left out, and feature gates are those of a version"},
		{"a gate with a value", func(p *plan.Plan) {
			p.Kubernetes, p.FeatureGates = "v1.37.0", []string{plan.RecreateGate, "AllAlpha=true"}
		}, `featureGates[1]: "AllAlpha=true" is not a name`},
		{"unavailable", func(p *plan.Plan) { p.Workload.MaxUnavailable = -1 }, "workload.maxUnavailable: -1 is out"},
		{"min ready", func(p *plan.Plan) { p.Workload.MinReadySeconds = 1e6 }, "workload.minReadySeconds: 1000000 is"},
		{"start", func(p *plan.Plan) { p.Workload.Start = -3 }, "workload.start: -3 is out of range"},
		{"policy", func(p *plan.Plan) { p.Workload.WhenDeleted = "Keep" },
			`workload.whenDeleted: no policy "Keep"; known: Delete, Retain`},
		{"light of another name", func(p *plan.Plan) { p.Workload.Light = true },
			`workload.light: workload "ledger" has databases; use workload.name: "light"`},
		{"light with clients", func(p *plan.Plan) { p.Workload.Light = true },
			"workload.clients: is set, and a light workload has no database and no clients; leave it out"},
		{"light with operations", func(p *plan.Plan) { p.Workload.Light = true }, "bounds.minOps: is set"},
		{"light that writes", func(p *plan.Plan) {
			p.Workload.Light, p.Steps[2].Await.For = true, plan.AwaitWrites
		}, "steps[2].await.for: a light workload has no clients; wait for something else"},
		{"wait", func(p *plan.Plan) { p.Steps[0].Wait = "settle" },
			`steps[0].wait: no wait "settle"; did you mean "settled"?`},
		{"wait of no change", func(p *plan.Plan) { p.Steps[2].Wait = "settled" },
			`steps[2].wait: a "await" step does not change the StatefulSet; leave it out`},
		{"during of no change", func(p *plan.Plan) { p.Steps[2].During = p.Steps[0].During },
			`steps[2].during: a "await" step does not change the StatefulSet`},
		{"ordinal below the first", func(p *plan.Plan) { p.Steps[2].Await.Ordinal = 3 },
			"steps[2].await.ordinal: 3 is out of range; use 4 to 6, with 3 replicas at this step"},
		{"nothing to await", func(p *plan.Plan) { p.Steps = p.Steps[2:]; numbered(p.Steps, 1) },
			"steps[0].await: nothing happens here that could be awaited; put the step into the during of another"},
		{"still for how long", func(p *plan.Plan) { p.Steps[6].Await.Lasting = 0 },
			"steps[6].await.lasting: 0s is out of range"},
		{"a moment has no length", func(p *plan.Plan) { p.Steps[2].Await.Lasting = 5 },
			`steps[2].await.lasting: "ready" does not take it; leave it out`},
		{"the set has no ordinal", func(p *plan.Plan) { p.Steps[3].Await.Ordinal = 5 },
			`steps[3].await.ordinal: "settled" is not about a single pod; leave it at 0`},
		{"more than volumes", func(p *plan.Plan) { *p.Steps[1].Replicas = 9 },
			"steps[1].replicas: there are volumes for 3 replicas, not for 9; use 0 to 3, or raise workload.replicas"},
		{"partition as before", func(p *plan.Plan) { *p.Steps[4].Partition = 0 },
			"steps[4].partition: it is 0 already; use another number"},
	}
}

func moreSetMistakes() []mistake {
	return []mistake{
		{"broken", func(p *plan.Plan) { p.Steps[5].Update.Broken = "imgae" },
			`steps[5].update.broken: no way to break a revision "imgae"; did you mean "image"?`},
		{"revision twice", func(p *plan.Plan) { p.Steps[5].Update.Revision = "first" },
			`steps[5].update.revision: there is a revision "first" already; use another name`},
		{"waits for what is broken", func(p *plan.Plan) { p.Steps[5].Wait = "" },
			`steps[5].wait: revision "v2" is broken: its pods are never Ready; use "observed"`},
		{"unknown revision", func(p *plan.Plan) { p.Steps[7].Revision = "v3" },
			`steps[7].revision: no revision "v3"; did you mean "v2"?`},
		{"rollback to the same", func(p *plan.Plan) { p.Steps[7].Revision = "v2" },
			`steps[7].revision: the template is at "v2" already; use an earlier one`},
		{"claim of nobody", func(p *plan.Plan) { p.Steps[8].Ordinal = new(0) }, "steps[8].ordinal: 0 is out of range"},
		{"pod of nobody", func(p *plan.Plan) { p.Steps[11].Ordinal = nil },
			`steps[11].ordinal: is missing in a "delete-pod" step; set it`},
		{"cascade", func(p *plan.Plan) { p.Steps[9].Cascade = "" },
			`steps[9].cascade: is missing in a "delete-set" step`},
		{"another cascade", func(p *plan.Plan) { p.Steps[9].Cascade = "orphans" },
			`steps[9].cascade: no cascade "orphans"; did you mean "orphan"?`},
		{"left deleted", func(p *plan.Plan) { p.Steps = p.Steps[:10] },
			"steps[9]: the StatefulSet is deleted when the plan ends; put a create-set step after it"},
		{"made twice", func(p *plan.Plan) { p.Steps[9].Do, p.Steps[9].Cascade = plan.ActionCreateSet, "" },
			"steps[9].do: the StatefulSet is there at this step; leave the step out"},
		{"scaled while it is deleted", func(p *plan.Plan) {
			p.Steps[10] = plan.Step{N: p.Steps[10].N, Do: plan.ActionScale, Replicas: new(1), Bound: p.Steps[9].Bound}
		}, "steps[10].do: the StatefulSet is deleted at this step; put a create-set step before it"},
		{"load of nobody", func(p *plan.Plan) {
			p.Steps[9].Cascade = plan.CascadeForeground
			p.Steps[10] = plan.Step{N: p.Steps[10].N, Do: plan.ActionLoad, Commits: 1, Bound: p.Steps[9].Bound}
		}, "steps[10].do: the StatefulSet is deleted at this step; put a create-set step before it"},
		{"too deep", func(p *plan.Plan) {
			s := p.Steps[0]
			for range plan.MaxDepth {
				s = plan.Step{Do: plan.ActionScale, Replicas: new(2), Bound: s.Bound, During: []plan.Step{s}}
			}
			p.Steps[0] = s
			numbered(p.Steps, 1)
		}, "during: is within 4 steps already; leave it out"},
	}
}

func TestIllegalSetPlansNameFieldAndFix(t *testing.T) {
	for _, tc := range append(setMistakes(), moreSetMistakes()...) {
		t.Run(tc.name, func(t *testing.T) {
			p := setPlan()
			tc.change(&p)
			if err := p.Validate(caps()); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got:\n%v\nwant it to have %q", err, tc.want)
			}
		})
	}
}

// drawStep draws any step, legal or not, with others within it.
func drawStep(t *rapid.T, deep int) plan.Step {
	word := rapid.SampledFrom([]string{"", "first", "v2", "orphan", "settled", "observed", "image"})
	number := rapid.IntRange(-2, 70)
	step := plan.Step{
		N: number.Draw(t, "n"), Do: rapid.SampledFrom(plan.Actions()).Draw(t, "do"),
		Revision: word.Draw(t, "revision"), Cascade: word.Draw(t, "cascade"), Wait: word.Draw(t, "wait"),
		Bound: plan.Duration(number.Draw(t, "bound")) * plan.Duration(time.Second),
	}
	maybe := func(name string) *int {
		return rapid.Ptr(number, true).Draw(t, name)
	}
	step.Replicas, step.Partition, step.Ordinal = maybe("replicas"), maybe("partition"), maybe("ordinal")
	if rapid.Bool().Draw(t, "has update") {
		step.Update = &plan.Update{Revision: word.Draw(t, "name"), Broken: word.Draw(t, "broken")}
	}
	if rapid.Bool().Draw(t, "has await") {
		step.Await = &plan.Await{For: rapid.SampledFrom(plan.Awaits()).Draw(t, "for"), Ordinal: number.Draw(t, "whose"),
			Lasting: plan.Duration(number.Draw(t, "lasting")), Step: number.Draw(t, "awaited step"),
			Stage: rapid.SampledFrom(plan.Stages()).Draw(t, "stage"), Count: number.Draw(t, "count"),
			Delay: plan.Duration(number.Draw(t, "delay")), After: plan.Duration(number.Draw(t, "after"))}
	}
	fault := rapid.SampledFrom([]string{"", "kubelet-kill", "node-partition", "node-reboot"}).Draw(t, "fault")
	if fault != "" {
		step.Do = plan.ActionFault
		step.Fault = &plan.Fault{Name: fault, Ordinal: number.Draw(t, "victim"), Outlast: rapid.Bool().Draw(t, "out")}
	}
	if deep < 2 {
		inner := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) plan.Step { return drawStep(t, deep+1) }), 0, 2)
		during := inner.Draw(t, "during")
		switch {
		case len(during) == 0:
		case step.Fault != nil:
			step.Fault.During = during
		case step.Do == plan.ActionTogether:
			step.Branches = [][]plan.Step{during, during}
		default:
			step.During = during
		}
	}
	return step
}

// TestAnyStepsAreReadBackAndShown holds that what any steps say survives their way through a file, that they can be
// shown, each on a line of its own, and that judging them on paper does not crash.
func TestAnyStepsAreReadBackAndShown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := setPlan()
		step := rapid.Custom(func(t *rapid.T) plan.Step { return drawStep(t, 0) })
		p.Steps = rapid.SliceOfN(step, 1, 4).Draw(t, "steps")
		var text bytes.Buffer
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		got, err := plan.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(p, got); d != "" {
			t.Fatalf("plan (-want +got):\n%s", d)
		}
		if err := p.Render(&text); err != nil {
			t.Fatal(err)
		}
		if shown, want := strings.Count(text.String(), " within "), len(p.AllSteps()); shown != want {
			t.Fatalf("%d steps are shown, want %d:\n%s", shown, want, text.String())
		}
		_ = p.Validate(caps())
	})
}

// TestDescribeTellsEveryAwaitAndActionApart holds that a reader can tell each from the others.
func TestDescribeTellsEveryAwaitAndActionApart(t *testing.T) {
	p, seen := setPlan(), map[string]string{}
	for _, what := range plan.Awaits() {
		said := p.Describe(plan.Step{Do: plan.ActionAwait, Await: &plan.Await{For: what, RPC: "R"}})
		if seen[said] != "" || strings.Contains(said, `"`+what+`"`) {
			t.Errorf("%s is described as %s: %q", what, seen[said], said)
		}
		seen[said] = what
	}
	for _, s := range p.AllSteps() {
		if said := p.Describe(s); !strings.HasPrefix(said, string(s.Do)+": ") {
			t.Errorf("step %d is described as %q", s.N, said)
		}
	}
}
