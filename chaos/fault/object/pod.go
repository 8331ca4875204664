package object

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
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
	env   fault.Env
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
	if pod.Spec.NodeName != v.env.Node.Name() {
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
	pod, err := v.env.Kube.CoreV1().Pods(v.env.Namespace).Get(ctx, v.env.Pod, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", v, err)
	}
	return pod, nil
}

// remove deletes the victim and no later pod of its name. Without a grace, it is given its own.
func (v *victim) remove(ctx context.Context, grace *int64) error {
	err := v.env.Kube.CoreV1().Pods(v.env.Namespace).Delete(ctx, v.env.Pod, metav1.DeleteOptions{
		GracePeriodSeconds: grace, Preconditions: &metav1.Preconditions{UID: &v.uid},
	})
	if err != nil {
		return fmt.Errorf("delete %s: %w", v, err)
	}
	return nil
}

// String names the pod for a sentence.
func (v *victim) String() string {
	name := fmt.Sprintf("pod %q", v.env.Namespace+"/"+v.env.Pod)
	if v.uid != "" {
		name += fmt.Sprintf(" (uid %s)", v.uid)
	}
	return name
}

// await waits until a look at the pod, nil when there is none of its name, gives a sentence.
func (v *victim) await(ctx context.Context, what string, bound time.Duration,
	judge func(*corev1.Pod) (sentence, state string),
) (fault.Fact, error) {
	var fact fault.Fact
	err := await.Until(ctx, what, every, bound, func(ctx context.Context) (bool, string, error) {
		begin := v.env.Clock()
		pod, err := v.look(ctx)
		if err != nil {
			return false, "", err
		}
		sentence, state := judge(pod)
		fact = fault.Fact{Span: history.Between(begin, v.env.Clock()), Sentence: sentence}
		return sentence != "", state, nil
	})
	return fact, err
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
	fact, err := v.await(ctx, what, 2*time.Minute+v.grace, func(pod *corev1.Pod) (string, string) {
		switch {
		case pod == nil:
			return "", "there is none"
		case v.uid != "" && pod.UID != v.uid:
			return fmt.Sprintf("in place of %s there is one with uid %s, %s on node %q", v, pod.UID, pod.Status.Phase,
				pod.Spec.NodeName), ""
		case pod.DeletionTimestamp != nil:
			return "", fmt.Sprintf("the one with uid %s is still being deleted", pod.UID)
		case v.uid != "":
			return fmt.Sprintf("%s was never deleted", v), ""
		}
		return fmt.Sprintf("%s is there with uid %s and is not being deleted", v, pod.UID), ""
	})
	if err != nil {
		return nil, err
	}
	return []fault.Fact{fact}, nil
}

// errNoVictim is what a fault says that is asked for its effect before it had one.
var errNoVictim = errors.New("no pod was deleted yet")
