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
	// every is how often the API server is asked.
	every = 500 * time.Millisecond
	// actBound is how long the API server and its controllers may take over what is theirs alone to do. It takes well
	// under a second on an idle machine.
	actBound = 30 * time.Second
)

// victim is the pod that a fault deletes.
type victim struct {
	fault.Env
	uid   types.UID     // Empty until it was found.
	grace time.Duration // Its own.
}

// find notes which pod is the victim.
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

// look returns the pod that has the victim's name now, nil when none has.
func (v *victim) look(ctx context.Context) (*corev1.Pod, error) {
	pod, err := v.Kube.CoreV1().Pods(v.Namespace).Get(ctx, v.Pod, metav1.GetOptions{})
	return fault.Optional(v.String(), pod, err)
}

// remove deletes the victim and no later pod of its name. Without a grace, it is given its own.
func (v *victim) remove(ctx context.Context, grace *int64) error {
	err := v.Kube.CoreV1().Pods(v.Namespace).Delete(ctx, v.Pod, metav1.DeleteOptions{
		GracePeriodSeconds: grace, Preconditions: &metav1.Preconditions{UID: &v.uid},
	})
	if err != nil {
		return fmt.Errorf("delete %s: %w", v, err)
	}
	return nil
}

// String names the pod for a sentence.
func (v *victim) String() string {
	name := fmt.Sprintf("pod %q", v.Namespace+"/"+v.Pod)
	if v.uid != "" {
		name += fmt.Sprintf(" (uid %s)", v.uid)
	}
	return name
}

// await waits until the pod of the victim's name is as wanted.
func (v *victim) await(ctx context.Context, what string, bound time.Duration,
	is func(*corev1.Pod) (string, error),
) ([]fault.Fact, error) {
	return fault.Until(ctx, what, every, bound, fault.Judged(v.Env, v.look, is))
}

// gone is the sentence of a victim that the API server has no more; empty while it has it.
func (v *victim) gone(pod *corev1.Pod) string {
	switch {
	case pod == nil:
		return fmt.Sprintf("the API server has no %s any more, and none of its name", v)
	case pod.UID != v.uid:
		return fmt.Sprintf("the API server has no %s any more, but another with uid %s", v, pod.UID)
	}
	return ""
}

// replaced waits until a pod of the victim's name is there that is not on its way out: a later one, in whatever phase,
// or the victim itself when it was never deleted.
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
