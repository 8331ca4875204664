package object

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/seatrial/seatrial/chaos/fault"
)

const (
	// every is the interval of requests to the API server.
	every = 100 * time.Millisecond
	// actBound is how long the API server and its controllers may take for one action; it takes well under 1 s on an
	// idle machine.
	actBound = 30 * time.Second
)

// victim is the pod that a fault deletes.
type victim struct {
	fault.Env
	uid   types.UID     // Empty until find.
	grace time.Duration // The pod's own grace period.
}

func (v *victim) find(ctx context.Context) (*corev1.Pod, error) {
	pod, err := v.look(ctx)
	if err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, fmt.Errorf("find %s: it is not there", v)
	}
	if pod.Spec.NodeName != v.Node.Name() {
		return nil, fmt.Errorf("find %s: it is on node %q by now", v, pod.Spec.NodeName)
	}
	v.uid = pod.UID
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		v.grace = time.Duration(*s) * time.Second
	}
	return pod, nil
}

// look returns the pod that has the victim's name now, nil if there is none.
func (v *victim) look(ctx context.Context) (*corev1.Pod, error) {
	pod, err := v.Kube.CoreV1().Pods(v.Namespace).Get(ctx, v.Pod, metav1.GetOptions{})
	return fault.Optional(v.String(), pod, err)
}

// remove deletes the victim by uid. A nil grace is the pod's own.
func (v *victim) remove(ctx context.Context, grace *int64) error {
	err := v.Kube.CoreV1().Pods(v.Namespace).Delete(ctx, v.Pod, metav1.DeleteOptions{
		GracePeriodSeconds: grace, Preconditions: &metav1.Preconditions{UID: &v.uid},
	})
	if err != nil {
		return fmt.Errorf("delete %s: %w", v, err)
	}
	return nil
}

// String returns the pod's name and uid, for a sentence.
func (v *victim) String() string {
	name := fmt.Sprintf("pod %q", v.Namespace+"/"+v.Pod)
	if v.uid != "" {
		name += fmt.Sprintf(" (uid %s)", v.uid)
	}
	return name
}

// await waits until is returns a sentence for the pod of the victim's name.
func (v *victim) await(ctx context.Context, what string, bound time.Duration,
	is func(*corev1.Pod) (string, error),
) ([]fault.Fact, error) {
	return fault.Until(ctx, what, every, bound, fault.Judged(v.Env, v.look, is))
}

// gone returns a sentence if the victim is gone from the API, and "" otherwise.
func (v *victim) gone(pod *corev1.Pod) string {
	switch {
	case pod == nil:
		return fmt.Sprintf("the API server has no %s any more, and none of its name", v)
	case pod.UID != v.uid:
		return fmt.Sprintf("the API server has no %s any more, but another with uid %s", v, pod.UID)
	}
	return ""
}

// replaced waits for a pod of the victim's name that is not being deleted: a later one, in any phase, or the victim if
// it was never deleted.
func (v *victim) replaced(ctx context.Context) ([]fault.Fact, error) {
	what := fmt.Sprintf("%s to be there again", v)
	return v.await(ctx, what, 2*time.Minute+v.grace, func(pod *corev1.Pod) (string, error) {
		switch {
		case pod == nil:
			return "", fault.NotYet("there is none")
		case v.uid != "" && pod.UID != v.uid:
			return fmt.Sprintf("in place of %s there is one with uid %s, %s on node %q", v, pod.UID, pod.Status.Phase,
				pod.Spec.NodeName), nil
		case pod.DeletionTimestamp != nil:
			return "", fault.NotYet("the one with uid %s is still being deleted", pod.UID)
		case v.uid != "":
			return fmt.Sprintf("%s was never deleted", v), nil
		}
		return fmt.Sprintf("%s is there with uid %s and is not being deleted", v, pod.UID), nil
	})
}
