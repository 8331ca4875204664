package object

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
)

// PodDelete returns the fault that deletes the victim's pod as kubectl delete does, and does not wait for its end.
//
// What: DELETE with the pod's own grace period, or with that of podDeleteParams.Grace, on condition of its uid.
//
// Shown: the pod of that uid is being deleted, or is gone.
//
// Healed: its controller makes another of the same name. There is nothing to undo.
func PodDelete() fault.Definition {
	return fault.Define(fault.Definition{
		Name:    "pod-delete",
		Summary: "Deletes the victim's pod with its own grace period, and does not wait until it is gone.",
		Shown:   "The API server says that the pod of that uid is being deleted, or has it no more.",
		Healed:  "Nothing is to be undone; a pod of the same name and another uid is there, in whatever phase.",
		Needs:   []string{"api"},
		// A pod that terminates while the kubelet is restarted: its volumes must stay until it is gone.
		Upstream: "k/k#113979",
	}, func(p podDeleteParams, _ plan.Fault, _ int, env fault.Env) (fault.Fault, error) {
		return &podDelete{victim: victim{env: env}, grace: p.Grace}, nil
	})
}

type podDeleteParams struct {
	Grace *plan.Duration `json:"grace,omitempty"` // The grace period in whole seconds; nil is the pod's own.
}

// Validate implements fault.Validator.
func (p podDeleteParams) Validate(plan.Setting) (errs plan.FieldErrors) {
	if p.Grace != nil && (*p.Grace < 0 || p.Grace.D() > time.Hour || p.Grace.D()%time.Second != 0) {
		errs.Add("grace", "use whole seconds, 0s to 1h0m0s", "%s is out of range", *p.Grace)
	}
	return errs
}

type podDelete struct {
	victim
	grace *plan.Duration // Nil for the pod's own.
}

// Inject deletes the pod.
func (d *podDelete) Inject(ctx context.Context) error {
	pod, err := d.find(ctx)
	if err != nil {
		return err
	}
	if pod.DeletionTimestamp != nil {
		return fmt.Errorf("delete %s: it is being deleted already, since before this fault", &d.victim)
	}
	if d.grace == nil {
		return d.remove(ctx, nil)
	}
	seconds := int64(d.grace.D() / time.Second)
	d.victim.grace = d.grace.D()
	return d.remove(ctx, &seconds)
}

// Confirm shows that the API server has taken it.
func (d *podDelete) Confirm(ctx context.Context) ([]fault.Fact, error) {
	if d.uid == "" {
		return nil, errNoVictim
	}
	what := fmt.Sprintf("%s to be deleted", &d.victim)
	fact, err := d.await(ctx, what, actBound, func(pod *corev1.Pod) (string, string) {
		if gone := d.gone(pod); gone != "" {
			return gone, ""
		}
		if pod.DeletionTimestamp == nil {
			return "", "it is there, and is not being deleted"
		}
		seconds := int64(0)
		if pod.DeletionGracePeriodSeconds != nil {
			seconds = *pod.DeletionGracePeriodSeconds
		}
		return fmt.Sprintf("%s is being deleted with a grace of %d s", &d.victim, seconds), ""
	})
	if err != nil {
		return nil, err
	}
	return []fault.Fact{fact}, nil
}

// Heal has nothing to undo: a deletion cannot be taken back.
func (d *podDelete) Heal(context.Context) error { return nil }

// ConfirmHealed shows the pod that took its place.
func (d *podDelete) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) { return d.replaced(ctx) }
