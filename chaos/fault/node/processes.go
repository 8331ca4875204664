package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/seatrial/seatrial/chaos/mark"
	"github.com/seatrial/seatrial/chaos/probe"
	"github.com/seatrial/seatrial/clusters"
)

// processes asks the agent on the node for the processes with the pids, and those of the pods with the UIDs.
func processes(ctx context.Context, node clusters.Node, pids []int, pods []string) (probe.Processes, error) {
	argv := []string{mark.AgentPath, "probe", "process"}
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
