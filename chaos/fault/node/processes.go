package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/evidence"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// The services of a node, by the names of their units.
const (
	kubelet    = "kubelet"
	containerd = "containerd"
)

// mainProcess returns what systemd knows of a service that is to be hurt, and its process. One that does not run is an
// error: what is not there cannot be taken away.
func mainProcess(ctx context.Context, node clusters.Node, service string) (evidence.Unit, probe.Process, error) {
	unit, err := evidence.ReadUnit(ctx, node, service)
	if err != nil {
		return unit, probe.Process{}, err
	}
	if !unit.Running() {
		return unit, probe.Process{}, fmt.Errorf("the %s does not run: it is %s; start it first", service, unit.State)
	}
	found, err := processes(ctx, node, []int{unit.PID}, nil)
	if err != nil {
		return unit, probe.Process{}, err
	}
	p, ok := find(found.Processes, unit.PID)
	if !ok {
		return unit, p, fmt.Errorf("pid %d of the %s is gone already", unit.PID, service)
	}
	return unit, p, nil
}

// workload returns the processes of the workload's pods on the victim, and when they were seen.
func workload(ctx context.Context, env fault.Env) (probe.Processes, error) {
	pods, err := evidence.PodsOn(ctx, env)
	if err != nil {
		return probe.Processes{}, err
	}
	var uids []string
	for _, p := range pods {
		if p.Namespace == env.Namespace {
			uids = append(uids, p.UID)
		}
	}
	if len(uids) == 0 {
		return probe.Processes{}, nil
	}
	return processes(ctx, env.Node, nil, uids)
}

// young is the age up to which a process may well end by itself: the command of a container's probe does.
const young = 10 * time.Second

// goOn returns how many of the workload's processes of before are among those of now, and the first that should be and
// is not.
func goOn(before []probe.Process, at history.Time, now []probe.Process) (live int, ended *probe.Process) {
	for _, p := range before {
		if same(now, p) {
			live++
		} else if ended == nil && at.Sub(p.Start) > young {
			ended = &p
		}
	}
	return live, ended
}

// podsGoOn says how many of the workload's processes of before are there. That they must be is for the checks to say.
// When the victim's pod was gone before, there is nothing to go on.
func podsGoOn(ctx context.Context, env fault.Env, before probe.Processes) ([]fault.Fact, error) {
	if len(before.Processes) == 0 {
		return nil, nil
	}
	now, err := processes(ctx, env.Node, pidsOf(before.Processes...), nil)
	live, _ := goOn(before.Processes, before.At, now.Processes)
	return []fault.Fact{{Span: history.At(now.At), Sentence: fmt.Sprintf(
		"%d of %d processes of the workload's pods go on", live, len(before.Processes))}}, err
}

// pidsOf returns the pids of processes.
func pidsOf(all ...probe.Process) []int {
	pids := make([]int, len(all))
	for i, p := range all {
		pids[i] = p.PID
	}
	return pids
}

// processes asks the agent on the node for the processes with the pids, and those of the pods with the UIDs.
func processes(ctx context.Context, node clusters.Node, pids []int, pods []string) (probe.Processes, error) {
	argv := []string{undo.AgentPath, "probe", "process"}
	for _, pid := range pids {
		argv = append(argv, "--pid", strconv.Itoa(pid))
	}
	for _, uid := range pods {
		argv = append(argv, "--pod", uid)
	}
	out, err := clusters.Run(ctx, node, argv...)
	if err != nil {
		return probe.Processes{}, fmt.Errorf("look for processes: %w", err)
	}
	var found probe.Processes
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		return probe.Processes{}, fmt.Errorf("look for processes: decode answer %.80q: %w", out, err)
	}
	return found, nil
}

// find returns the process with a pid.
func find(all []probe.Process, pid int) (probe.Process, bool) {
	i := slices.IndexFunc(all, func(p probe.Process) bool { return p.PID == pid })
	if i < 0 {
		return probe.Process{}, false
	}
	return all[i], true
}

// same reports whether a process, and not a later one with its pid, is among all.
func same(all []probe.Process, p probe.Process) bool {
	q, ok := find(all, p.PID)
	return ok && q.Start == p.Start
}
