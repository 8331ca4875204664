package node

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
)

// containerParams are the parameters of faults of one container.
type containerParams struct {
	Container string `json:"container,omitempty"` // Its name; empty is the workload's, or the pod's first.
}

func (p containerParams) Validate(plan.Setting) (errs plan.FieldErrors) {
	if p.Container != "" && len(validation.IsDNS1123Label(p.Container)) > 0 {
		errs.Add("container", "use the name of a container of the pod", "%q is not a name", p.Container)
	}
	return errs
}

// tasks returns a ctr command on the tasks in the kubelet's containerd namespace.
func tasks(args ...string) []string {
	return append([]string{"ctr", "--namespace", "k8s.io", "tasks"}, args...)
}

// idRule is the grammar of container ids; it excludes anything that looks like a flag.
var idRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// container is the victim of a fault of one container.
type container struct {
	fault.Env
	name     string        // Empty for the first container.
	pod      string        // The UID of the victim's pod.
	old      string        // The container's id, before the act.
	restarts int32         // Before the act.
	process  probe.Process // The container's first process.
}

// status returns the container's status from the API server, and its pod.
func (k *container) status(ctx context.Context) (corev1.ContainerStatus, *corev1.Pod, error) {
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

// task returns the pid of a container's first process, 0 if the runtime runs none.
func (k *container) task(ctx context.Context, id string) (int, error) {
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
func (k *container) running(ctx context.Context, c corev1.ContainerStatus) (string, probe.Process, error) {
	_, id, _ := strings.Cut(c.ContainerID, "://")
	if !idRule.MatchString(id) {
		return "", probe.Process{}, fmt.Errorf("container %q has the id %q, which is not a containerd id", c.Name,
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

// note records the container that runs in the victim's pod on the node. It is an error if none does.
func (k *container) note(ctx context.Context) error {
	c, pod, err := k.status(ctx)
	if err != nil {
		return err
	}
	if pod.DeletionTimestamp != nil || pod.Spec.NodeName != k.Node.Name() {
		return fmt.Errorf("container %q: its pod is being deleted or on node %q", c.Name, pod.Spec.NodeName)
	}
	if k.old, k.process, err = k.running(ctx, c); err != nil {
		return err
	}
	k.name, k.pod, k.restarts = c.Name, string(pod.UID), c.RestartCount
	return nil
}
