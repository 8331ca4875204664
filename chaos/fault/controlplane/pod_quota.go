package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
)

// PodQuota returns the fault that lets nobody make a pod in the workload's namespace for a time: its quota is one pod
// less than there are.
//
// What: a ResourceQuota with spec.hard of pods, by the name of its owner.
//
// Shown: its status has the limit and what is used of it, which is at the limit or above.
//
// Healed: the ResourceQuota of that name is deleted, and is there no more. A timer on the control plane does it when
// nobody heals it.
func PodQuota() fault.Definition {
	return fault.Definition{
		Name:    "pod-quota",
		Summary: "Gives the workload's namespace a quota of one pod less than there are, whatever the victim.",
		Shown:   "The ResourceQuota's status has the limit, and as many pods or more are counted against it.",
		Healed:  "The ResourceQuota that bears our name is deleted, and there is none of that name.",
		Needs:   []string{"api", "systemd"},
		// A pod that must be made and cannot be keeps others from being deleted, which would make room for it.
		Takes:    []plan.Part{plan.PartQuota},
		Upstream: "k/k#140858",
		New: func(_ plan.Fault, step int, env fault.Env) (fault.Fault, error) {
			q := &podQuota{env: env, owner: undo.Owner{Run: env.RunID, Step: step}}
			return q, q.owner.Check()
		},
	}
}

const (
	// quotaEvery is how often the API server is asked.
	quotaEvery = 200 * time.Millisecond
	// quotaBound is how long the quota's controller may take to count, or a deletion to be done.
	quotaBound = 30 * time.Second
)

type podQuota struct {
	env   fault.Env
	owner undo.Owner
}

// Undo has the control plane delete what bears the owner's mark.
func (q *podQuota) Undo(ctx context.Context) ([]undo.Task, error) {
	return undo.OnControlPlane(ctx, q.env.Cluster)
}

// Inject counts the pods and makes the quota.
func (q *podQuota) Inject(ctx context.Context) error {
	pods, err := q.env.Kube.CoreV1().Pods(q.env.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	if len(pods.Items) == 0 {
		return fmt.Errorf("limit the pods of namespace %q: there is none", q.env.Namespace)
	}
	limit := *resource.NewQuantity(int64(len(pods.Items)-1), resource.DecimalSI)
	_, err = q.env.Kube.CoreV1().ResourceQuotas(q.env.Namespace).Create(ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: q.owner.Name()},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: limit}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create ResourceQuota %q: %w", q.owner.Name(), err)
	}
	return nil
}

// look returns the quota, nil when there is none.
func (q *podQuota) look(ctx context.Context) (*corev1.ResourceQuota, error) {
	quota, err := q.env.Kube.CoreV1().ResourceQuotas(q.env.Namespace).Get(ctx, q.owner.Name(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get ResourceQuota %q: %w", q.owner.Name(), err)
	}
	return quota, nil
}

// Confirm shows that pods are counted against the quota.
func (q *podQuota) Confirm(ctx context.Context) ([]fault.Fact, error) {
	var fact fault.Fact
	what := fmt.Sprintf("ResourceQuota %q to count pods", q.owner.Name())
	err := await.Until(ctx, what, quotaEvery, quotaBound, func(ctx context.Context) (bool, string, error) {
		begin := q.env.Clock()
		quota, err := q.look(ctx)
		if err != nil || quota == nil {
			return false, "there is none", err
		}
		hard, limited := quota.Status.Hard[corev1.ResourcePods]
		used, counted := quota.Status.Used[corev1.ResourcePods]
		fact = fault.Fact{
			Span: history.Between(begin, q.env.Clock()),
			Sentence: fmt.Sprintf("namespace %q may have %s pods and has %s, so nobody can make another",
				q.env.Namespace, hard.String(), used.String()),
		}
		state := fmt.Sprintf("its limit is %s, and %s are counted", hard.String(), used.String())
		return limited && counted && used.Cmp(hard) >= 0, state, nil
	})
	if err != nil {
		return nil, err
	}
	return []fault.Fact{fact}, nil
}

// Held shows that the quota is still there.
func (q *podQuota) Held(ctx context.Context) ([]fault.Fact, error) {
	begin := q.env.Clock()
	quota, err := q.look(ctx)
	if err == nil && quota == nil {
		err = errors.New("the ResourceQuota is there no more")
	}
	if err != nil {
		return nil, err
	}
	return []fault.Fact{{
		Span: history.Between(begin, q.env.Clock()), Sentence: fmt.Sprintf("ResourceQuota %q is there", quota.Name),
	}}, nil
}

// Heal deletes the quota.
func (q *podQuota) Heal(ctx context.Context) error {
	err := q.env.Kube.CoreV1().ResourceQuotas(q.env.Namespace).Delete(ctx, q.owner.Name(), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete ResourceQuota %q: %w", q.owner.Name(), err)
	}
	return nil
}

// ConfirmHealed shows that it is gone.
func (q *podQuota) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	var fact fault.Fact
	what := fmt.Sprintf("ResourceQuota %q to be gone", q.owner.Name())
	err := await.Until(ctx, what, quotaEvery, quotaBound, func(ctx context.Context) (bool, string, error) {
		begin := q.env.Clock()
		quota, err := q.look(ctx)
		fact = fault.Fact{
			Span:     history.Between(begin, q.env.Clock()),
			Sentence: fmt.Sprintf("namespace %q has no ResourceQuota %q", q.env.Namespace, q.owner.Name()),
		}
		return err == nil && quota == nil, "it is there", err
	})
	if err != nil {
		return nil, err
	}
	return []fault.Fact{fact}, nil
}
