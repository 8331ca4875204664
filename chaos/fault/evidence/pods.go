package evidence

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
)

// Pod is a pod on the victim and what ran in it.
type Pod struct {
	Namespace  string
	Name       string
	UID        string
	Ready      bool
	Ending     bool              // It has its deletionTimestamp.
	Containers map[string]string // By name: the id of its running container, empty when it does not run.
}

// PodsOn returns the pods on the victim that have not ended, by namespace and name.
func PodsOn(ctx context.Context, env fault.Env) ([]Pod, error) {
	list, err := env.Kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{FieldSelector: "spec.nodeName=" + env.Node.Name()})
	if err != nil {
		return nil, fmt.Errorf("list pods on node %q: %w", env.Node.Name(), err)
	}
	var pods []Pod
	for _, p := range list.Items {
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if ended || p.Spec.NodeName != env.Node.Name() {
			continue
		}
		pod := Pod{
			Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Ending: p.DeletionTimestamp != nil,
			Containers: map[string]string{},
		}
		for _, c := range p.Status.ContainerStatuses {
			pod.Containers[c.Name] = ""
			if c.State.Running != nil {
				pod.Containers[c.Name] = c.ContainerID
			}
		}
		for _, c := range p.Status.Conditions {
			pod.Ready = pod.Ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}
		pods = append(pods, pod)
	}
	slices.SortFunc(pods, func(a, b Pod) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return pods, nil
}

// PodsBack waits until each of the pods that were on the victim is Ready again, with none of the containers that ran
// before: until the kubelet has looked, the API server still shows the pod as it was. Pods that are gone are named;
// the pod by which the victim was chosen must not be among them, unless it was to end before. Of one that was to end,
// nothing more is awaited than that it has ended, or another of its name is Ready: what is left of it is judged by the
// checks.
func PodsBack(ctx context.Context, env fault.Env, before []Pod, bound time.Duration) (fault.Fact, error) {
	return podsAre(ctx, env, "Ready with new containers", before, bound)
}

// PodsReady is PodsBack for pods whose containers may have gone on.
func PodsReady(ctx context.Context, env fault.Env, before []Pod, bound time.Duration) (fault.Fact, error) {
	before = slices.Clone(before)
	for i := range before {
		before[i].Containers = nil
	}
	return podsAre(ctx, env, "Ready", before, bound)
}

func podsAre(ctx context.Context, env fault.Env, how string, before []Pod, bound time.Duration) (fault.Fact, error) {
	var fact fault.Fact
	what := fmt.Sprintf("pods of node %q to be %s", env.Node.Name(), how)
	err := await.Until(ctx, what, look, bound, func(ctx context.Context) (bool, string, error) {
		begin := env.Clock()
		now, err := PodsOn(ctx, env)
		if err != nil {
			return false, "", err
		}
		back, gone, missing := compare(before, now)
		for _, name := range gone {
			if name == env.Namespace+"/"+env.Pod && !wasEnding(before, name) {
				missing = append(missing, name+" is gone")
			}
		}
		if len(missing) > 0 {
			return false, strings.Join(missing, "; "), nil
		}
		fact = fault.Fact{Span: history.Between(begin, env.Clock()), Sentence: fmt.Sprintf(
			"%d pods are %s: %s", len(back), how, strings.Join(back, ", "))}
		if len(gone) > 0 {
			fact.Sentence += "; gone from the node: " + strings.Join(gone, ", ")
		}
		return true, "", nil
	})
	return fact, err
}

// wasEnding reports whether the pod of that name was to end already.
func wasEnding(before []Pod, name string) bool {
	return slices.ContainsFunc(before, func(p Pod) bool { return p.Namespace+"/"+p.Name == name && p.Ending })
}

// compare sorts the pods of before into those that are back, gone, and not back yet.
func compare(before, now []Pod) (back, gone, missing []string) {
	for _, old := range before {
		name := old.Namespace + "/" + old.Name
		i := slices.IndexFunc(now, func(p Pod) bool { return p.Namespace == old.Namespace && p.Name == old.Name })
		switch {
		case i < 0:
			gone = append(gone, name)
		case !now[i].Ready:
			missing = append(missing, name+" is not Ready")
		case sharesContainer(old, now[i]):
			missing = append(missing, name+" is shown with a container of before")
		default:
			back = append(back, name)
		}
	}
	return back, gone, missing
}

func sharesContainer(a, b Pod) bool {
	for name, id := range a.Containers {
		if id != "" && b.Containers[name] == id {
			return true
		}
	}
	return false
}
