package node

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/evidence"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
)

// RuntimeKill returns the fault that kills the container runtime with SIGKILL, whatever it is doing. Containers hang on
// their shims and go on.
//
// What: SIGKILL to containerd's main process alone. Its shims are in the unit's control group, and would go with it if
// the whole unit were killed. Systemd starts it again after a second.
//
// Shown: the process with the old pid and start time is gone, systemd counts one restart more, a later process is
// containerd and answers, and the workload's processes and their shims of before are all there.
//
// Healed: systemd has done it; a containerd that is not active is started. It is active, the kubelet is healthy, the
// node's lease is renewed, and the node is Ready.
func RuntimeKill() fault.Definition {
	return fault.Definition{
		Name:    "runtime-kill",
		Summary: "Kills containerd on the victim's node with SIGKILL; containers and their shims go on.",
		Shown: "The old process is gone, systemd counts a restart more, a later process answers, and the workload's " +
			"processes and their shims are those of before.",
		Healed: "Systemd starts it again; containerd is active, the kubelet healthy, the node's lease renewed, and " +
			"the node Ready.",
		Needs: []string{"systemd"},
		// A runtime that comes back finds its containers by their shims.
		Takes:    []plan.Part{plan.PartRuntime},
		Upstream: "containerd.io/docs: KillMode=process, runtime v2 shims",
		New: func(_ plan.Fault, _ int, env fault.Env) (fault.Fault, error) {
			k := newRuntimeKill(env)
			return &k, nil
		},
	}
}

// shimName is the name of a shim's process as the kernel has it, which is cut to 15 characters.
const shimName = "containerd-shim"

type runtimeKill struct {
	env   fault.Env
	pods  probe.Processes // The workload's, before.
	shims []probe.Process // Theirs.
	restart
}

func newRuntimeKill(env fault.Env) runtimeKill {
	return runtimeKill{env: env, restart: restart{service: containerd}}
}

// noteAll notes what runs: containerd, the workload and its shims.
func (k *runtimeKill) noteAll(ctx context.Context) error {
	err := k.note(ctx, k.env.Node)
	if err != nil {
		return err
	}
	if k.pods, err = workload(ctx, k.env); err != nil {
		return err
	}
	if k.shims, err = shims(ctx, k.env.Node, k.pods.Processes); err != nil {
		return err
	}
	if len(k.shims) == 0 {
		return fmt.Errorf("none of the %d processes in namespace %q has a shim: none could be shown to go on",
			len(k.pods.Processes), k.env.Namespace)
	}
	return nil
}

// Inject notes what runs, and kills containerd.
func (k *runtimeKill) Inject(ctx context.Context) error {
	if err := k.noteAll(ctx); err != nil {
		return err
	}
	_, err := clusters.Run(ctx, k.env.Node, "systemctl", "kill", "--kill-who=main", "-s", "KILL", containerd)
	return err
}

// shims returns the shims that are the parents of some of the processes.
func shims(ctx context.Context, node clusters.Node, of []probe.Process) ([]probe.Process, error) {
	if len(of) == 0 {
		return nil, nil
	}
	list := make([]string, len(of))
	for i, pid := range pidsOf(of...) {
		list[i] = strconv.Itoa(pid)
	}
	out, err := clusters.Run(ctx, node, "ps", "-o", "ppid=", "-p", strings.Join(list, ","))
	if err != nil {
		return nil, fmt.Errorf("look for shims: %w", err)
	}
	var parents []int
	for _, text := range strings.Fields(out) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("look for shims: parent %q: %w", text, err)
		}
		parents = append(parents, pid)
	}
	found, err := processes(ctx, node, parents, nil)
	var all []probe.Process
	for _, p := range found.Processes {
		if p.Name == shimName {
			all = append(all, p)
		}
	}
	return all, err
}

// Confirm shows that the old process is gone, that a later one serves, and that the containers go on.
func (k *runtimeKill) Confirm(ctx context.Context) ([]fault.Fact, error) {
	return k.shown(ctx, k.env, k.carries, append(pidsOf(k.pods.Processes...), pidsOf(k.shims...)...)...)
}

// carries shows that containerd answers, and that the workload's containers go on.
func (k *runtimeKill) carries(ctx context.Context, found probe.Processes) ([]fault.Fact, string, error) {
	live, err := k.containers(found.Processes)
	if err != nil {
		return nil, "", await.Stop(err)
	}
	if _, err := clusters.Run(ctx, k.env.Node, "ctr", "version"); err != nil {
		return nil, "", err
	}
	return []fault.Fact{
		{Span: history.At(found.At), Sentence: live},
		{Span: history.At(k.env.Clock()), Sentence: "the new containerd tells its version"},
	}, "", nil
}

// containers says in a sentence that the workload's containers go on, or which has ended.
func (k *runtimeKill) containers(now []probe.Process) (string, error) {
	live, ended := goOn(k.pods.Processes, k.pods.At, now)
	for _, p := range k.shims {
		if !same(now, p) {
			ended = &p
		}
	}
	if ended != nil {
		return "", fmt.Errorf("%s, pid %d, ended with containerd: the containers did not go on", ended.Name, ended.PID)
	}
	return fmt.Sprintf("%d of %d processes of the workload's pods go on, and all of their %d shims", live,
		len(k.pods.Processes), len(k.shims)), nil
}

// Heal starts containerd if systemd does not do it.
func (k *runtimeKill) Heal(ctx context.Context) error {
	_, err := clusters.Run(ctx, k.env.Node, "systemctl", "start", containerd)
	return err
}

// ConfirmHealed shows that containerd is back, and that the kubelet and the node have got over it.
func (k *runtimeKill) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	active, err := evidence.UnitActive(ctx, k.env, containerd, restartBound)
	if err != nil {
		return nil, err
	}
	healthy, err := kubeletHealthy(ctx, k.env)
	if err != nil {
		return []fault.Fact{active}, err
	}
	back, err := kubeletBack(ctx, k.env, k.leases)
	return append([]fault.Fact{active, healthy}, back...), err
}
