package plan_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/chaos/plan"
)

// partCaps are faults with what they have in their hands.
func partCaps() plan.Caps {
	fault := func(name string, takes ...plan.Part) plan.FaultCaps {
		return plan.FaultCaps{Name: name, Takes: takes, Outlasts: name == "node-delete"}
	}
	return plan.Caps{
		Workloads: []string{"ledger"},
		Faults: []plan.FaultCaps{
			fault("node-partition", plan.PartNode), fault("node-reboot", plan.PartNode),
			fault("kubelet-kill", plan.PartKubelet), fault("kubelet-stop", plan.PartKubelet),
			fault("runtime-kill", plan.PartRuntime), fault("cordon", plan.PartSchedulable),
			fault("node-delete", plan.PartObject), fault("pod-delete"), fault("api-server-stop", plan.PartAPIServer),
			fault("scheduler-kill", plan.PartScheduler), fault("control-plane-pause", plan.PartControlPlane),
		},
	}
}

func hit(name string, ordinal int, during ...plan.Step) plan.Step {
	return plan.Step{Do: plan.ActionFault, Bound: plan.Duration(time.Minute), Fault: &plan.Fault{
		Name: name, Ordinal: ordinal, Hold: plan.Duration(time.Second), During: during}}
}

func together(branches ...[]plan.Step) plan.Step {
	return plan.Step{Do: plan.ActionTogether, Bound: plan.Duration(time.Minute), Branches: branches}
}

func branch(steps ...plan.Step) []plan.Step { return steps }

func awaitFault(step int, stage string) plan.Step {
	return plan.Step{Do: plan.ActionAwait, Bound: plan.Duration(time.Minute),
		Await: &plan.Await{For: plan.AwaitFault, Step: step, Stage: stage}}
}

func load() plan.Step {
	return plan.Step{Do: plan.ActionLoad, Commits: 1, Bound: plan.Duration(time.Minute)}
}

// planOf is a legal plan on three workers, two of which may be hurt, with these steps.
func planOf(steps ...plan.Step) plan.Plan {
	p := legal()
	p.Workers, p.Bounds.MaxNodes, p.Steps = 3, 2, steps
	numbered(p.Steps, 1)
	return p
}

func TestOverlapsThatAreLegal(t *testing.T) {
	outlasting := hit("node-delete", 0)
	outlasting.Fault.Outlast = true
	one := planOf(hit("node-partition", 0))
	one.Bounds.MaxNodes = 0
	for name, p := range map[string]plan.Plan{
		"one":               one,
		"two nodes":         planOf(together(branch(hit("node-partition", 0)), branch(hit("kubelet-kill", 1)))),
		"two parts":         planOf(together(branch(hit("runtime-kill", 0)), branch(hit("kubelet-kill", 0)))),
		"one after another": planOf(hit("cordon", 0), hit("cordon", 0)),
		"in different branches, one after another": planOf(together(
			branch(hit("cordon", 0)), branch(awaitFault(2, plan.StageGone), hit("cordon", 0)))),
		"when another is confirmed": planOf(together(
			branch(hit("node-partition", 0, load())), branch(awaitFault(2, ""), hit("kubelet-kill", 1)))),
		"what the API does to a node that is away": planOf(hit("node-partition", 0, outlasting, hit("pod-delete", 0))),
		"a control plane's part in a partition":    planOf(hit("node-partition", 0, hit("scheduler-kill", 1))),
		"deleted, and the API server dies":         planOf(hit("node-delete", 0, hit("api-server-stop", 0))),
	} {
		if err := p.Validate(partCaps()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
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
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		if err := p.Render(&text); err != nil {
			t.Fatal(err)
		}
		if shown, want := strings.Count(text.String(), " within "), len(p.AllSteps()); shown != want {
			t.Errorf("%s: %d steps are shown, want %d:\n%s", name, shown, want, text.String())
		}
	}
}

type illegal struct {
	name string
	plan plan.Plan
	want string
}

func contradictions() []illegal {
	outlasting := hit("node-delete", 0)
	outlasting.Fault.Outlast = true
	packed := planOf(together(branch(hit("node-partition", 0)), branch(hit("kubelet-kill", 1))))
	packed.Workload.Packed = true
	return []illegal{
		{"cordon twice", planOf(hit("cordon", 0, hit("cordon", 0))), `steps[0].fault.during[0].fault: fault "cordon" ` +
			`may be in force together with "cordon" of step 1: both take the schedulable; put it after`},
		{"stop within stop", planOf(hit("kubelet-stop", 1, hit("kubelet-stop", 1))),
			"both take the kubelet; put it after that step, or choose another victim"},
		{"on a node that is away", planOf(hit("node-partition", 2, hit("kubelet-kill", 2))),
			`steps[0].fault.during[0].fault: fault "kubelet-kill" may be in force together with "node-partition" ` +
				"of step 1: it has taken the node away"},
		{"reboot of a stopped kubelet", planOf(hit("kubelet-stop", 0, hit("node-reboot", 0))),
			"it takes the node's kubelet, and this one the whole node;"},
		{"beside each other", planOf(together(branch(load(), hit("cordon", 0)), branch(hit("cordon", 0)))),
			`steps[0].branches[1][0].fault: fault "cordon" may be in force together with "cordon" of step 3`},
		{"as soon as it is confirmed", planOf(together(branch(hit("cordon", 0)),
			branch(awaitFault(2, plan.StageConfirmed), hit("cordon", 0)))), "steps[0].branches[1][1].fault"},
		{"what outlasts is still there", planOf(hit("node-partition", 0, outlasting, hit("node-delete", 0))),
			"steps[0].fault.during[1].fault: fault \"node-delete\" may be in force together with"},
		{"packed", packed, "steps[0].branches[1][0].fault: fault \"kubelet-kill\" may be in force"},
		{"the API is away", planOf(together(branch(hit("api-server-stop", 0)), branch(hit("cordon", 0)))),
			"it takes the api-server away, without which nothing can be done or seen"},
		{"and the other way round", planOf(together(branch(hit("cordon", 0)), branch(hit("api-server-stop", 0)))),
			"steps[0].branches[1][0].fault"},
		{"scaled without the API", planOf(hit("api-server-stop", 0, plan.Step{Do: plan.ActionScale, Replicas: new(2),
			Bound: plan.Duration(time.Minute)})),
			"steps[0].fault.during[0].do: it needs the API, and step 1 may have taken the api-server away then"},
		{"all control planes", planOf(hit("control-plane-pause", 0)),
			`steps[0].fault.name: fault "control-plane-pause" takes a control plane away, and none of 1 would be left`},
	}
}

func moreContradictions() []illegal {
	alone := planOf(hit("node-partition", 0, hit("cordon", 1)))
	alone.Bounds.MaxNodes = 0
	three := planOf(together(branch(hit("cordon", 0)), branch(hit("cordon", 1), hit("cordon", 0)),
		branch(hit("cordon", 2))))
	many := planOf(load())
	many.Bounds.MaxNodes = 4
	outlasts := hit("node-delete", 0)
	outlasts.Fault.Outlast = true
	slow := planOf(hit("cordon", 0, hit("cordon", 1), hit("cordon", 2)))
	slow.Steps[0].Fault.During[0].Fault.Hold *= 40
	slow.Steps[0].Fault.During[1].Fault.Hold *= 40
	scale := plan.Step{Do: plan.ActionScale, Replicas: new(1), Bound: plan.Duration(time.Minute)}
	return []illegal{
		{"more than the default", alone, "bounds.maxNodes: steps[0] may hurt 2 nodes at the same time, and 1 of 3 " +
			"workers may be hurt; use 2, or put the faults one after another"},
		{"more than the plan allows", three, "bounds.maxNodes: steps[0] may hurt 3 nodes at the same time, and 2 of 3"},
		{"more than there are", many, "bounds.maxNodes: 4 is out of range; use 0 to 3"},
		{"waits for itself", planOf(hit("cordon", 0, awaitFault(1, plan.StageGone))),
			"steps[0].fault.during[0].await.step: step 1 reaches this stage only after this step has ended"},
		{"wait for each other", planOf(together(branch(awaitFault(5, ""), hit("cordon", 0)),
			branch(awaitFault(3, ""), hit("cordon", 1)))), "steps[0].branches[1][0].await.step: step 3 reaches"},
		{"has come", planOf(hit("cordon", 0, awaitFault(1, plan.StageInjected))),
			"steps[0].fault.during[0].await.step: step 1 has reached this stage before this step begins; leave"},
		{"no fault", planOf(together(branch(awaitFault(3, "")), branch(load()))),
			"steps[0].branches[0][0].await.step: step 3 is no fault"},
		{"stage", planOf(together(branch(awaitFault(3, "armed?")), branch(hit("cordon", 0)))),
			`steps[0].branches[0][0].await.stage: no stage "armed?"`},
		{"outlasts a change", planOf(plan.Step{Do: plan.ActionScale, Replicas: new(2), During: branch(outlasts),
			Bound: plan.Duration(time.Minute)}), "steps[0].during[0].fault.outlast: the step is within no fault"},
		{"holds that do not fit", slow, "steps[0].bound: what is planned takes 1m21s at least, which does not fit " +
			"into 1m0s; raise it, or shorten what is within"},
		{"one branch", planOf(together(branch(load()))), "steps[0].branches: 1 branches; use 2 to 8"},
		{"an empty branch", planOf(together(branch(load()), nil)), "steps[0].branches[1]: is empty; add steps"},
		{"no branches", planOf(together()), `steps[0].branches: is missing in a "together" step`},
		{"branches elsewhere", planOf(plan.Step{Do: plan.ActionLoad, Commits: 1, Bound: 1, Branches: [][]plan.Step{}}),
			`steps[0].branches: is set in a "load" step`},
		{"two change the set", planOf(together(branch(scale), branch(load(), scale))),
			"steps[0].branches[1]: the StatefulSet is changed in branches[0] as well; put all changes into one branch"},
		{"deleted beside", planOf(together(branch(load()), branch(plan.Step{Do: plan.ActionDeleteSet,
			Cascade: plan.CascadeOrphan, Bound: 1}))),
			"steps[0].branches[1]: the StatefulSet is deleted or made beside"},
		{"a victim that may be scaled away", planOf(together(branch(scale), branch(hit("cordon", 2)))),
			"steps[0].branches[1][0].fault.ordinal: 2 is out of range; use 0 to 0"},
		{"too deep", planOf(hit("cordon", 0, together(branch(load()), branch(together(branch(load()), branch(
			hit("pod-delete", 0, together(branch(load()), branch(load()))))))))),
			"branches: is within 4 steps already"},
	}
}

func TestOverlapsThatAreNot(t *testing.T) {
	for _, tc := range append(contradictions(), moreContradictions()...) {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.plan.Validate(partCaps())
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got:\n%v\nwant it to have %q", err, tc.want)
			}
		})
	}
}

// TestBudgetOfNodes holds how many of how many workers may be hurt when the plan does not say.
func TestBudgetOfNodes(t *testing.T) {
	for workers, want := range map[int]int{1: 1, 2: 1, 3: 1, 4: 1, 5: 2, 6: 2, 7: 3, 64: 31} {
		if got := (plan.Bounds{}).Nodes(workers); got != want {
			t.Errorf("of %d workers %d may be hurt, want %d", workers, got, want)
		}
	}
}

func TestEveryPartClashesWithItself(t *testing.T) {
	for _, p := range plan.Parts() {
		if plan.Clash([]plan.Part{p}, []plan.Part{p}, true) == "" {
			t.Errorf("two faults can have %q", p)
		}
	}
}
