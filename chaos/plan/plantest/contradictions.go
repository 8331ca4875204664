package plantest

import (
	"bytes"
	"fmt"

	"github.com/seatrial/seatrial/chaos/plan"
)

// Contradictions returns plans whose faults cannot be in force together, or hurt more nodes than may be hurt.
func Contradictions() []Case {
	var cases []Case
	add := func(name, field string, budget int, step plan.Step) {
		p := base("made-up-overlap", ledger(), load(), step)
		p.Bounds.MaxNodes = budget
		plan.Number(p.Steps)
		var text bytes.Buffer
		if err := p.Encode(&text); err != nil {
			panic(fmt.Sprintf("write %s: %v", name, err)) // A plan can be written.
		}
		cases = append(cases, Case{name, field, text.Bytes()})
	}
	together := func(a, b plan.Step) plan.Step {
		return plan.Step{Do: plan.ActionTogether, Branches: [][]plan.Step{{a}, {b}}, Bound: 2 * hour}
	}
	nested := func(a, b plan.Step) plan.Step {
		b.Bound = minute
		a.Fault.During = []plan.Step{b}
		return a
	}
	for ordinal := range 3 {
		for _, pair := range clashes() {
			a, b := pair[0], pair[1]
			name := fmt.Sprintf("%s and %s on %d", a, b, ordinal)
			add(name+", within", "steps[1].fault.during[0].fault", 2, nested(fault(a, ordinal), fault(b, ordinal)))
			add(name+", beside", "steps[1].branches[1][0].fault", 2, together(fault(a, ordinal), fault(b, ordinal)))
		}
		other := (ordinal + 1) % 3
		for _, pair := range [][2]string{
			{"node-partition", "kubelet-kill"}, {"node-reboot", "node-reboot"}, {"cordon", "kubelet-stop"},
			{"runtime-kill", "node-partition"}, {"node-delete", "cordon"},
		} {
			a, b := fault(pair[0], ordinal), fault(pair[1], other)
			name := fmt.Sprintf("%s on %d and %s on %d", pair[0], ordinal, pair[1], other)
			add(name+", within", "bounds.maxNodes", 0, nested(a, b))
			add(name+", beside", "bounds.maxNodes", 1, together(fault(pair[0], ordinal), b))
		}
		wait := func(step int) plan.Step {
			return await(plan.Await{For: plan.AwaitFault, Step: step, Stage: plan.StageGone})
		}
		add("waits for itself", "steps[1].fault.during[0].await.step", 2, nested(fault("cordon", ordinal), wait(2)))
		add("waits for nobody", "steps[1].fault.during[0].await.step", 2, nested(fault("cordon", ordinal), wait(1)))
		add("waits for what has come", "steps[1].fault.during[0].await.step", 2, nested(fault("cordon", ordinal), await(
			plan.Await{For: plan.AwaitFault, Step: 2, Stage: plan.StageInjected})))
		outlasts := fault("node-delete", ordinal)
		outlasts.Fault.Outlast = true
		add("outlasts nothing", "steps[1].fault.outlast", 2, outlasts)
		outlasts.Bound = minute
		add("outlasts a change", "steps[1].during[0].fault.outlast", 2,
			plan.Step{Do: plan.ActionScale, Replicas: new(2), Bound: hour, During: []plan.Step{outlasts}})
		slow := fault("cordon", ordinal)
		slow.Fault.Hold = minute - second
		outer := nested(fault("pod-delete", ordinal), slow)
		outer.Fault.Hold, outer.Bound = second, minute
		add("a hold that does not fit", "steps[1].bound", 2, outer)
	}
	return cases
}

// clashes are faults that have the same of one victim in their hands, or one of which takes the other's node away.
func clashes() [][2]string {
	pairs := [][2]string{{"kubelet-kill", "kubelet-stop"}, {"kubelet-stop", "kubelet-kill"}}
	for _, same := range []string{
		"cordon", "kubelet-kill", "kubelet-stop", "manager-kill", "node-delete", "node-partition", "node-reboot",
		"runtime-kill",
	} {
		pairs = append(pairs, [2]string{same, same})
	}
	for _, whole := range []string{"node-partition", "node-reboot"} {
		for _, other := range []string{"kubelet-kill", "kubelet-stop", "runtime-kill"} {
			pairs = append(pairs, [2]string{whole, other}, [2]string{other, whole})
		}
	}
	return append(pairs, [2]string{"node-partition", "node-reboot"}, [2]string{"node-reboot", "node-partition"})
}
