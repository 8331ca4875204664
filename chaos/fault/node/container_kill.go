package node

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
)

// ContainerKill has containerd send SIGKILL to the first process of a container of the victim's pod, whatever it is
// doing. Everything else in the container ends with it. The pod stays, with its volumes, and the kubelet starts the
// container again.
func ContainerKill() fault.Definition {
	return fault.Define(fault.Definition{
		Name:    "container-kill",
		Summary: "Kills a container of the victim's pod with SIGKILL; the pod stays.",
		Shown: "The container's first process is gone by pid and start time, and the container runtime runs no task " +
			"of it.",
		Healed: "The kubelet starts another container in the same pod: another id, a later process, a restart more; " +
			"the pod is Ready.",
		Needs: []string{"systemd"},
		// What Chaos Mesh calls container-kill.
		Takes:    []plan.Part{plan.PartContainer},
		Upstream: "chaos-mesh.org PodChaos container-kill; k/k#93651",
	}, func(p containerKillParams, _ plan.Fault, env fault.Env) (fault.Fault, error) {
		return &containerKill{Env: env, name: p.Container}, nil
	})
}

type containerKillParams struct {
	Container string `json:"container,omitempty"` // Its name; empty is the first of the pod.
}

// Validate implements fault.Validator.
func (p containerKillParams) Validate(plan.Setting) (errs plan.FieldErrors) {
	if p.Container != "" && len(validation.IsDNS1123Label(p.Container)) > 0 {
		errs.Add("container", "use the name of a container of the pod", "%q is not a name", p.Container)
	}
	return errs
}

const (
	// taskBound is how long the runtime may take to send a signal and to notice the end; it takes well under a second.
	taskBound = 20 * time.Second
	// againBound is longer than the kubelet's longest pause before it starts a container again, which is 5 min after
	// several ends in a row (KEP-4603), less what the guard allows.
	againBound = 170 * time.Second
)

// containerd's own command, in the namespace that the kubelet's containers are in.
func tasks(args ...string) []string {
	return append([]string{"ctr", "--namespace", "k8s.io", "tasks"}, args...)
}

// idRule is the grammar of container ids: nothing that could be taken for a flag.
var idRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

type containerKill struct {
	fault.Env
	name     string        // Empty for the first one.
	pod      string        // The UID of the victim's pod.
	old      string        // The id of the container that was killed.
	restarts int32         // Before.
	process  probe.Process // Its first.
}

// container returns what the API server says of the container, and of its pod.
func (k *containerKill) container(ctx context.Context) (corev1.ContainerStatus, *corev1.Pod, error) {
	what := fmt.Sprintf("container %q of pod %q", k.name, k.Namespace+"/"+k.Pod)
	pod, err := k.Kube.CoreV1().Pods(k.Namespace).Get(ctx, k.Pod, metav1.GetOptions{})
	if err != nil {
		return corev1.ContainerStatus{}, nil, fmt.Errorf("get %s: %w", what, err)
	}
	var names []string
	for _, c := range pod.Status.ContainerStatuses {
		if k.name == "" && len(pod.Spec.Containers) > 0 && c.Name != pod.Spec.Containers[0].Name {
			continue
		}
		if k.name == "" || c.Name == k.name {
			return c, pod, nil
		}
		names = append(names, c.Name)
	}
	return corev1.ContainerStatus{}, pod, fmt.Errorf("find %s: it has %q", what, names)
}

// task returns the pid of a container's first process, 0 when the runtime runs none.
func (k *containerKill) task(ctx context.Context, id string) (int, error) {
	out, err := clusters.Run(ctx, k.Node, tasks("list")...)
	if err != nil {
		return 0, fmt.Errorf("list the tasks of containerd: %w", err)
	}
	for line := range strings.Lines(out) { // For example "4f0c...    1234    RUNNING".
		word := strings.Fields(line)
		if len(word) < 3 || word[0] != id || word[2] != "RUNNING" {
			continue
		}
		pid, err := strconv.Atoi(word[1])
		if err != nil {
			return 0, fmt.Errorf("list the tasks of containerd: pid %q: %w", word[1], err)
		}
		return pid, nil
	}
	return 0, nil
}

// running returns the container's id and first process.
func (k *containerKill) running(ctx context.Context, c corev1.ContainerStatus) (string, probe.Process, error) {
	_, id, _ := strings.Cut(c.ContainerID, "://")
	if !idRule.MatchString(id) {
		return "", probe.Process{}, fmt.Errorf("container %q has the id %q, which is none of containerd", c.Name,
			c.ContainerID)
	}
	pid, err := k.task(ctx, id)
	if err != nil {
		return "", probe.Process{}, err
	}
	found, err := nodeagent.On(k.Node).Processes(ctx, probe.Query{PIDs: []int{pid}})
	if err != nil {
		return "", probe.Process{}, err
	}
	p, ok := found.Find(pid)
	if pid == 0 || !ok {
		return "", p, fmt.Errorf("container %q, id %.12s, does not run on node %q", c.Name, id, k.Node.Name())
	}
	return id, p, nil
}

// Inject notes which container runs, and kills it.
func (k *containerKill) Inject(ctx context.Context) error {
	c, pod, err := k.container(ctx)
	if err != nil {
		return err
	}
	if pod.DeletionTimestamp != nil || pod.Spec.NodeName != k.Node.Name() {
		return fmt.Errorf("kill container %q: its pod is being deleted or on node %q", c.Name, pod.Spec.NodeName)
	}
	if k.old, k.process, err = k.running(ctx, c); err != nil {
		return fmt.Errorf("kill container: %w", err)
	}
	k.name, k.pod, k.restarts = c.Name, string(pod.UID), c.RestartCount
	_, err = clusters.Run(ctx, k.Node, tasks("kill", "--signal", "SIGKILL", k.old)...)
	return err
}

// Confirm shows that the container has ended.
func (k *containerKill) Confirm(ctx context.Context) ([]fault.Fact, error) {
	what := fmt.Sprintf("container %q, id %.12s, pid %d, to be gone", k.name, k.old, k.process.PID)
	begin := k.Clock()
	ended := k.Gone(begin, k.process)
	return fault.Until(ctx, what, 100*time.Millisecond, taskBound,
		func(ctx context.Context) ([]fault.Fact, string, error) {
			facts, state, err := ended(ctx)
			if err != nil || state != "" {
				return nil, state, err
			}
			pid, err := k.task(ctx, k.old)
			if err != nil || pid != 0 {
				return nil, fmt.Sprintf("containerd runs it with pid %d", pid), err
			}
			return append(facts, k.Saw(begin, "containerd runs no task of container %q, id %.12s", k.name, k.old)...),
				"", nil
		})
}

// Heal has nothing to undo: the kubelet starts what its pods need.
func (k *containerKill) Heal(context.Context) error { return nil }

// ConfirmHealed shows the container that took its place, in the same pod.
func (k *containerKill) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	what := fmt.Sprintf("container %q of pod %q to run and be Ready", k.name, k.Namespace+"/"+k.Pod)
	return fault.Until(ctx, what, 500*time.Millisecond, againBound, k.again)
}

// again looks whether another container runs in the pod.
func (k *containerKill) again(ctx context.Context) ([]fault.Fact, string, error) {
	begin := k.Clock()
	c, pod, err := k.container(ctx)
	if err != nil {
		return nil, "", err
	}
	if state := k.notBack(c, pod); state != "" {
		return nil, state, nil
	}
	id, p, err := k.running(ctx, c)
	if err != nil {
		return nil, "", err
	}
	if k.old != "" && p.Start < k.process.Start {
		return nil, fmt.Sprintf("pid %d was started before the one that was killed", p.PID), nil
	}
	return append(k.Saw(p.Start, "container %q is id %.12s, %s pid %d, started at %s", c.Name, id, p.Name, p.PID,
		p.Start),
		k.Saw(begin, "pod %q (uid %s) is Ready; its container was restarted %d times, %d before",
			pod.Namespace+"/"+pod.Name, pod.UID, c.RestartCount, k.restarts)...), "", nil
}

// notBack says why the container is not back yet; empty when it is.
func (k *containerKill) notBack(c corev1.ContainerStatus, pod *corev1.Pod) string {
	_, id, _ := strings.Cut(c.ContainerID, "://")
	switch {
	case k.old != "" && string(pod.UID) == k.pod && (id == k.old || c.RestartCount <= k.restarts):
		return fmt.Sprintf("id %.12s, %d restarts, %d before", id, c.RestartCount, k.restarts)
	case c.State.Running == nil && c.State.Waiting != nil:
		return "it waits: " + c.State.Waiting.Reason
	case c.State.Running == nil:
		return "it does not run"
	case !fault.Ready(pod):
		return "its pod is not Ready"
	}
	return ""
}
