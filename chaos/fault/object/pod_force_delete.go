package object

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
)

// PodForceDelete returns the fault that takes the victim's pod out of the API at once, as kubectl delete --force does:
// whether its processes have ended, nobody has looked.
//
// What: DELETE with a grace period of 0, on condition of the pod's uid.
//
// Shown: the API server has no pod of that uid.
//
// Healed: its controller makes another of the same name. There is nothing to undo.
func PodForceDelete() fault.Definition {
	return fault.Definition{
		Name:    "pod-force-delete",
		Summary: "Deletes the victim's pod with a grace period of 0: the API forgets it, whatever still runs.",
		Shown:   "The API server has no pod of that uid.",
		Healed:  "Nothing is to be undone; a pod of the same name and another uid is there, in whatever phase.",
		Needs:   []string{"api"},
		// The twin starts elsewhere while the node that was cut off still runs the first.
		Upstream: "k/k#61832",
		New: func(_ plan.Fault, _ int, env fault.Env) (fault.Fault, error) {
			return &podForceDelete{victim{env: env}}, nil
		},
	}
}

type podForceDelete struct{ victim }

// Inject deletes the pod. One that is being deleted already is what this is mostly used on.
func (d *podForceDelete) Inject(ctx context.Context) error {
	if _, err := d.find(ctx); err != nil {
		return err
	}
	now := int64(0)
	return d.remove(ctx, &now)
}

// Confirm shows that the API server has it no more.
func (d *podForceDelete) Confirm(ctx context.Context) ([]fault.Fact, error) {
	if d.uid == "" {
		return nil, errNoVictim
	}
	what := fmt.Sprintf("%s to be gone from the API", &d.victim)
	fact, err := d.await(ctx, what, actBound, func(pod *corev1.Pod) (string, string) {
		if gone := d.gone(pod); gone != "" {
			return gone, ""
		}
		return "", fmt.Sprintf("it is there, %s, with finalizers %q", pod.Status.Phase, pod.Finalizers)
	})
	if err != nil {
		return nil, err
	}
	return []fault.Fact{fact}, nil
}

// Heal has nothing to undo: a deletion cannot be taken back.
func (d *podForceDelete) Heal(context.Context) error { return nil }

// ConfirmHealed shows the pod that took its place.
func (d *podForceDelete) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	return d.replaced(ctx)
}
