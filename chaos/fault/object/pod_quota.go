package object

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
)

// PodQuota creates a ResourceQuota, named after its owner, that allows one pod less than the workload's namespace has:
// no pod can be created during the hold.
func PodQuota() fault.Definition {
	return fault.Plain(fault.Definition{
		Name:    "pod-quota",
		Summary: "Limits the pods of the workload's namespace to one less than it has.",
		Shown:   "The ResourceQuota's status has the limit, and counts at least as many pods.",
		Healed:  "The ResourceQuota of our name is deleted and gone.",
		Needs:   []string{"api"},
		// A pod that cannot be created may block deletions that would make room for it.
		Takes:    []plan.Part{plan.PartQuota},
		Upstream: "k/k#140858",
	}, func(_ plan.Fault, env fault.Env) (fault.Fault, error) {
		return &podQuota{fault.Marks{Env: env, Resource: fault.ResourceQuotas}}, nil
	})
}

const (
	// quotaEvery is the interval of requests to the API server.
	quotaEvery = 200 * time.Millisecond
	// quotaBound is how long the quota controller may take to count, or a deletion to finish.
	quotaBound = 30 * time.Second
)

type podQuota struct{ fault.Marks }

func (q *podQuota) Inject(ctx context.Context) error {
	pods, err := q.Kube.CoreV1().Pods(q.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	live := slices.DeleteFunc(pods.Items, fault.Ended) // A quota does not count those.
	if len(live) == 0 {
		return fmt.Errorf("limit the pods of namespace %q: all of its %d pods have ended", q.Namespace, len(pods.Items))
	}
	limit := *resource.NewQuantity(int64(len(live)-1), resource.DecimalSI)
	_, err = q.Kube.CoreV1().ResourceQuotas(q.Namespace).Create(ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{
			Name: q.Owner.Name(), Labels: map[string]string{clusters.ManagedByLabel: clusters.ManagedBy},
		},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: limit}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create ResourceQuota %q: %w", q.Owner.Name(), err)
	}
	return nil
}

// look returns the quota, nil if there is none.
func (q *podQuota) look(ctx context.Context) (*corev1.ResourceQuota, error) {
	quota, err := q.Kube.CoreV1().ResourceQuotas(q.Namespace).Get(ctx, q.Owner.Name(), metav1.GetOptions{})
	return fault.Optional(fmt.Sprintf("ResourceQuota %q", q.Owner.Name()), quota, err)
}

// until waits until is returns a sentence for the quota.
func (q *podQuota) until(ctx context.Context, what string, is func(*corev1.ResourceQuota) (string, error)) (
	[]fault.Fact, error,
) {
	what = fmt.Sprintf("ResourceQuota %q %s", q.Owner.Name(), what)
	return fault.Until(ctx, what, quotaEvery, quotaBound, fault.Judged(q.Env, q.look, is))
}

func (q *podQuota) Confirm(ctx context.Context) ([]fault.Fact, error) {
	return q.until(ctx, "to count pods", func(quota *corev1.ResourceQuota) (string, error) {
		if quota == nil {
			return "", fault.NotYet("there is none")
		}
		hard, limited := quota.Status.Hard[corev1.ResourcePods]
		used, counted := quota.Status.Used[corev1.ResourcePods]
		if !limited || !counted || used.Cmp(hard) < 0 {
			return "", fault.NotYet("its limit is %s, and %s are counted", hard.String(), used.String())
		}
		return fmt.Sprintf("namespace %q may have %s pods and has %s: no other can be made", q.Namespace, hard.String(),
			used.String()), nil
	})
}

func (q *podQuota) Held(ctx context.Context) ([]fault.Fact, error) {
	return fault.Judged(q.Env, q.look, func(quota *corev1.ResourceQuota) (string, error) {
		if quota == nil {
			return "", fault.NotYet("the ResourceQuota is there no more")
		}
		return fmt.Sprintf("ResourceQuota %q is there", quota.Name), nil
	})(ctx)
}

func (q *podQuota) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	return q.until(ctx, "to be gone", func(quota *corev1.ResourceQuota) (string, error) {
		if quota != nil {
			return "", fault.NotYet("it is there")
		}
		return fmt.Sprintf("namespace %q has no ResourceQuota %q", q.Namespace, q.Owner.Name()), nil
	})
}
