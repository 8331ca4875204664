package chaosmesh

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	nodeprobe "github.com/seatrial/seatrial/chaos/nodeagent/probe"
)

// probe sees the effect of an experiment without asking Chaos Mesh.
type probe interface {
	// before shows that the effect is not there yet.
	before(ctx context.Context) error
	// seen waits until the effect is seen.
	seen(ctx context.Context) ([]fault.Fact, error)
	// gone waits until the effect is not seen.
	gone(ctx context.Context) ([]fault.Fact, error)
}

// newProbe returns the probe of an experiment.
func newProbe(obj client.Object, env fault.Env) (probe, error) {
	switch o := obj.(type) {
	case *v1alpha1.IOChaos:
		return newFiles(o, env), nil
	case *v1alpha1.StressChaos:
		return &processes{env: env, judge: stressed}, nil
	case *v1alpha1.PodChaos:
		return &processes{env: env, judge: failed}, nil
	}
	return nil, fmt.Errorf("read the manifest: there is no probe for %T", obj)
}

func durationValue(d time.Duration) reflect.Value { return reflect.ValueOf(new(d.String())) }

// stressors are the programs that Chaos Mesh stresses with, as the kernel has their names.
func stressors() []string { return []string{"stress-ng", "memStress"} }

// stressed says whether a program that stresses runs in the pod.
func stressed(_, now []nodeprobe.Process) (sentence, state string) {
	for _, p := range now {
		if slices.ContainsFunc(stressors(), func(name string) bool { return strings.HasPrefix(p.Name, name) }) {
			return fmt.Sprintf("%s, pid %d, runs in the pod since %s", p.Name, p.PID, p.Start), ""
		}
	}
	return "", fmt.Sprintf("none of %d processes in the pod is one of %q", len(now), stressors())
}

// failed says whether none of the processes that ran in the pod before is left.
func failed(before, now []nodeprobe.Process) (sentence, state string) {
	if len(before) == 0 {
		return "", "there was no process in the pod"
	}
	for _, p := range now {
		if slices.ContainsFunc(before, func(q nodeprobe.Process) bool { return q.PID == p.PID && q.Start == p.Start }) {
			return "", fmt.Sprintf("%s, pid %d, runs in the pod as before", p.Name, p.PID)
		}
	}
	return fmt.Sprintf("none of the %d processes that ran in the pod is left", len(before)), ""
}

// processes is a probe that looks at the processes of the victim's pod on its node.
type processes struct {
	env   fault.Env
	judge func(before, now []nodeprobe.Process) (sentence, state string)
	old   []nodeprobe.Process // Those of before.
}

// look returns the processes of the pod, and when they were seen.
func (p *processes) look(ctx context.Context) (nodeprobe.Processes, corev1.Pod, error) {
	pods, err := p.env.PodsOn(ctx)
	if err != nil {
		return nodeprobe.Processes{}, corev1.Pod{}, err
	}
	i := slices.IndexFunc(pods, func(q corev1.Pod) bool {
		return q.Namespace == p.env.Namespace && q.Name == p.env.Pod
	})
	if i < 0 {
		return nodeprobe.Processes{}, corev1.Pod{}, fmt.Errorf("pod %q is not on node %q", p.env.Pod, p.env.Node.Name())
	}
	found, err := nodeagent.On(p.env.Node).Processes(ctx, nodeprobe.Query{PodUIDs: []string{string(pods[i].UID)}})
	return found, pods[i], err
}

func (p *processes) before(ctx context.Context) error {
	found, pod, err := p.look(ctx)
	if err != nil {
		return err
	}
	if sentence, _ := p.judge(nil, found.Processes); sentence != "" {
		return fmt.Errorf("the effect is there already: %s", sentence)
	}
	if !fault.Ready(&pod) || len(found.Processes) == 0 {
		return fmt.Errorf("pod %q has %d processes and is Ready %t: nothing could be shown of it", pod.Name,
			len(found.Processes), fault.Ready(&pod))
	}
	p.old = found.Processes
	return nil
}

func (p *processes) seen(ctx context.Context) ([]fault.Fact, error) {
	var fact fault.Fact
	err := await.Until(ctx, "effect to be seen in the pod", look, injectBound/3,
		func(ctx context.Context) (bool, string, error) {
			found, _, err := p.look(ctx)
			if err != nil {
				return false, "", err
			}
			sentence, state := p.judge(p.old, found.Processes)
			fact = fault.Fact{Span: history.At(found.At), Sentence: sentence}
			return sentence != "", state, nil
		})
	return []fault.Fact{fact}, err
}

// gone waits until the pod is Ready, and none of its processes is of the experiment's making.
func (p *processes) gone(ctx context.Context) ([]fault.Fact, error) {
	var fact fault.Fact
	err := await.Until(ctx, "pod to be Ready without the effect", look, recoverBound,
		func(ctx context.Context) (bool, string, error) {
			found, pod, err := p.look(ctx)
			if err != nil {
				return false, "", err
			}
			if sentence, _ := stressed(nil, found.Processes); sentence != "" {
				return false, sentence, nil
			}
			fact = fault.Fact{Span: history.At(found.At), Sentence: fmt.Sprintf(
				"pod %q is Ready with %d processes, none of which stresses", pod.Name, len(found.Processes))}
			return fault.Ready(&pod) && len(found.Processes) > 0, fmt.Sprintf("Ready is %t", fault.Ready(&pod)), nil
		})
	return []fault.Fact{fact}, err
}
