package object

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
)

// Cordon sets spec.unschedulable of the victim's Node, for which the node lifecycle controller adds a taint.
func Cordon() fault.Definition {
	return fault.Plain(fault.Definition{
		Name:    "cordon",
		Summary: "Makes the victim's node unschedulable; its pods go on.",
		Shown:   "spec.unschedulable is true, and the Node has the taint that the control plane adds for it.",
		Healed:  "It is taken back if it bears our mark; neither the field nor the taint is set.",
		Needs:   []string{"api", "systemd"},
		// What kubectl drain begins with; a pod that comes back must come up elsewhere.
		Takes:    []plan.Part{plan.PartSchedulable},
		Upstream: "kubernetes.io/docs/reference/labels-annotations-taints",
	}, func(_ plan.Fault, env fault.Env) (fault.Fault, error) { return cordon(env), nil })
}

func cordon(env fault.Env) *mark {
	return &mark{
		Env: env, annotation: undo.Cordon, what: "unschedulable", taint: corev1.TaintNodeUnschedulable,
		set:   func(node *corev1.Node) { node.Spec.Unschedulable = true },
		isSet: func(node *corev1.Node) bool { return node.Spec.Unschedulable },
	}
}
