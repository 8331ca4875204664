package object

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
)

// PodDelete deletes the victim's pod by uid, as kubectl delete does, and does not wait for its end. Its controller
// recreates it.
func PodDelete() fault.Definition {
	return fault.Define(fault.Definition{
		Name:    "pod-delete",
		Summary: "Deletes the victim's pod with its own grace period, and does not wait for its end.",
		Shown:   "The API server says that the pod of that uid is being deleted, or does not have it.",
		Healed:  "Nothing is undone; a pod of the same name and another uid exists, in any phase.",
		Needs:   []string{"api"},
		// The kubelet is restarted while the pod terminates: its volumes must stay until it is gone.
		Upstream: "k/k#113979",
	}, func(p podDeleteParams, _ plan.Fault, env fault.Env) (fault.Fault, error) {
		return &podDelete{victim: victim{Env: env}, grace: p.Grace}, nil
	})
}

type podDeleteParams struct {
	Grace *plan.Duration `json:"grace,omitempty"` // Grace period in whole seconds; nil is the pod's own.
}

func (p podDeleteParams) Validate(plan.Setting) (errs plan.FieldErrors) {
	if p.Grace != nil && (*p.Grace < 0 || p.Grace.D() > time.Hour || p.Grace.D()%time.Second != 0) {
		errs.Add("grace", "use whole seconds, 0s to 1h0m0s", "%s is out of range", *p.Grace)
	}
	return errs
}

// PodForceDelete deletes the victim's pod from the API at once, as kubectl delete --force does: nothing checks that its
// processes have ended. Its controller recreates it.
func PodForceDelete() fault.Definition {
	return fault.Plain(fault.Definition{
		Name:    "pod-force-delete",
		Summary: "Deletes the victim's pod with a grace period of 0: it leaves the API even if it still runs.",
		Shown:   "The API server has no pod of that uid.",
		Healed:  "Nothing is undone; a pod of the same name and another uid exists, in any phase.",
		Needs:   []string{"api"},
		// The replacement starts elsewhere while the cut-off node still runs the first.
		Upstream: "k/k#61832",
	}, func(_ plan.Fault, env fault.Env) (fault.Fault, error) {
		now := plan.Duration(0)
		return &podDelete{victim: victim{Env: env}, grace: &now, force: true}, nil
	})
}

type podDelete struct {
	victim
	grace *plan.Duration // Nil is the pod's own.
	force bool           // The pod must be gone, and may already be being deleted.
}

// Inject deletes the pod. A forced deletion is mostly used on a pod that is already being deleted.
func (d *podDelete) Inject(ctx context.Context) error {
	pod, err := d.find(ctx)
	if err != nil {
		return err
	}
	if pod.DeletionTimestamp != nil && !d.force {
		return fmt.Errorf("delete %s: it is being deleted already, since before this fault", &d.victim)
	}
	if d.grace == nil {
		return d.remove(ctx, nil)
	}
	seconds := int64(d.grace.D() / time.Second)
	if !d.force {
		d.victim.grace = d.grace.D()
	}
	return d.remove(ctx, &seconds)
}

// Confirm shows that the API server has accepted the deletion.
func (d *podDelete) Confirm(ctx context.Context) ([]fault.Fact, error) {
	if d.uid == "" {
		return nil, errors.New("no pod was deleted yet")
	}
	what := "to be deleted"
	if d.force {
		what = "to be gone from the API"
	}
	return d.await(ctx, fmt.Sprintf("%s %s", &d.victim, what), actBound, func(pod *corev1.Pod) (string, error) {
		gone := d.gone(pod)
		switch {
		case gone != "":
			return gone, nil
		case d.force:
			return "", fault.NotYet("it is there, %s, with finalizers %q", pod.Status.Phase, pod.Finalizers)
		case pod.DeletionTimestamp == nil:
			return "", fault.NotYet("it is there, and is not being deleted")
		}
		seconds := int64(0)
		if pod.DeletionGracePeriodSeconds != nil {
			seconds = *pod.DeletionGracePeriodSeconds
		}
		return fmt.Sprintf("%s is being deleted with a grace of %d s", &d.victim, seconds), nil
	})
}

// Heal does nothing: a deletion cannot be undone.
func (d *podDelete) Heal(context.Context) error { return nil }

func (d *podDelete) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) { return d.replaced(ctx) }
