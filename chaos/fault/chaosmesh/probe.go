package chaosmesh

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// stressors are the programs that Chaos Mesh stresses with, as the kernel has their names.
func stressors() []string { return []string{"stress-ng", "memStress"} }

// stressed looks for a program that stresses among the processes of the pod.
func stressed(_, now []nodeprobe.Process) (string, error) {
	for _, p := range now {
		if slices.ContainsFunc(stressors(), func(name string) bool { return strings.HasPrefix(p.Name, name) }) {
			return fmt.Sprintf("%s, pid %d, runs in the pod since %s", p.Name, p.PID, p.Start), nil
		}
	}
	return "", fault.NotYet("none of %d processes in the pod is one of %q", len(now), stressors())
}

// failed checks that none of the processes that ran in the pod before is left.
func failed(before, now []nodeprobe.Process) (string, error) {
	if len(before) == 0 {
		return "", fault.NotYet("there was no process in the pod")
	}
	for _, p := range now {
		if slices.ContainsFunc(before, func(q nodeprobe.Process) bool { return q.PID == p.PID && q.Start == p.Start }) {
			return "", fault.NotYet("%s, pid %d, runs in the pod as before", p.Name, p.PID)
		}
	}
	return fmt.Sprintf("none of the %d processes that ran in the pod is left", len(before)), nil
}

// processes is a probe that looks at the processes of the victim's pod on its node.
type processes struct {
	env   fault.Env
	judge func(before, now []nodeprobe.Process) (string, error)
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
	if sentence, err := p.judge(nil, found.Processes); err == nil {
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
	return fault.Until(ctx, "effect to be seen in the pod", look, injectBound/3,
		func(ctx context.Context) ([]fault.Fact, error) {
			found, _, err := p.look(ctx)
			if err != nil {
				return nil, err
			}
			sentence, err := p.judge(p.old, found.Processes)
			if err != nil {
				return nil, err
			}
			return fault.Seen(history.At(found.At), "%s", sentence), nil
		})
}

// gone waits until the pod is Ready, and no program of the experiment runs in it.
func (p *processes) gone(ctx context.Context) ([]fault.Fact, error) {
	return fault.Until(ctx, "pod to be Ready without the effect", look, recoverBound,
		func(ctx context.Context) ([]fault.Fact, error) {
			found, pod, err := p.look(ctx)
			if err != nil {
				return nil, err
			}
			if sentence, err := stressed(nil, found.Processes); err == nil {
				return nil, fault.NotYet("%s", sentence)
			}
			if !fault.Ready(&pod) || len(found.Processes) == 0 {
				return nil, fault.NotYet("Ready is %t", fault.Ready(&pod))
			}
			return fault.Seen(history.At(found.At), "pod %q is Ready with %d processes, none of which stresses",
				pod.Name, len(found.Processes)), nil
		})
}
