package node

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/evidence"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/probe"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/e2e/history"
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
			return &runtimeKill{env: env}, nil
		},
	}
}

// shimName is the name of a shim's process as the kernel has it, which is cut to 15 characters.
const shimName = "containerd-shim"

type runtimeKill struct {
	env      fault.Env
	restarts int             // Before.
	old      probe.Process   // The one that was killed.
	pods     probe.Processes // The workload's, before.
	shims    []probe.Process // Theirs.
	leases   evidence.Leases // When the old one was gone.
}

// note notes what runs.
func (k *runtimeKill) note(ctx context.Context) error {
	before, old, err := mainProcess(ctx, k.env.Node, containerd)
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
	k.restarts, k.old = before.Restarts, old
	return nil
}

// Inject notes what runs, and kills containerd.
func (k *runtimeKill) Inject(ctx context.Context) error {
	if err := k.note(ctx); err != nil {
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
	var facts []fault.Fact
	what := fmt.Sprintf("containerd pid %d to be gone and a later one to serve", k.old.PID)
	begin := k.env.Clock()
	err := await.Until(ctx, what, 200*time.Millisecond, restartBound,
		func(ctx context.Context) (bool, string, error) {
			seen, state, err := k.killed(ctx, begin)
			facts = seen
			return seen != nil, state, err
		})
	return facts, err
}

// killed looks once. It returns no facts until there is one for each thing to be shown.
func (k *runtimeKill) killed(ctx context.Context, begin history.Time) ([]fault.Fact, string, error) {
	now, err := evidence.ReadUnit(ctx, k.env.Node, containerd)
	if err != nil {
		return nil, "", err
	}
	pids := append([]int{k.old.PID, now.PID}, append(pidsOf(k.pods.Processes...), pidsOf(k.shims...)...)...)
	found, err := processes(ctx, k.env.Node, pids, nil)
	if err != nil {
		return nil, "", err
	}
	if same(found.Processes, k.old) {
		return nil, fmt.Sprintf("pid %d is still there", k.old.PID), nil
	}
	if k.leases.At == 0 {
		if k.leases, err = evidence.ReadLeases(ctx, k.env); err != nil {
			return nil, "", err
		}
	}
	later, ok := find(found.Processes, now.PID)
	switch {
	case !ok || later.Start < k.old.Start:
		return nil, fmt.Sprintf("containerd is %s with pid %d, which is no later process", now.State, now.PID), nil
	case now.Restarts <= k.restarts:
		return nil, fmt.Sprintf("systemd counts %d restarts as before", now.Restarts), nil
	}
	live, err := k.containers(found.Processes)
	if err != nil {
		return nil, "", await.Stop(err)
	}
	if _, err := clusters.Run(ctx, k.env.Node, "ctr", "version"); err != nil {
		return nil, "", err
	}
	span := history.Between(begin, found.At)
	return []fault.Fact{
		{Span: span, Sentence: fmt.Sprintf("containerd pid %d, started at %s, is gone", k.old.PID, k.old.Start)},
		{Span: history.Between(later.Start, found.At),
			Sentence: fmt.Sprintf("containerd pid %d was started at %s", later.PID, later.Start)},
		{Span: span, Sentence: fmt.Sprintf("systemd counts %d restarts, %d before", now.Restarts, k.restarts)},
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
