package undo

import (
	"fmt"
	"strconv"
	"time"

	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
)

// The actions below call the agent, which looks first whether there is anything to undo.

// Thaw is the action after which none of the processes is stopped. A later process that has the pid of one is left
// alone.
func Thaw(all ...probe.Process) Action {
	argv := []string{AgentPath, "thaw"}
	for _, p := range all {
		argv = append(argv, fmt.Sprintf("%d:%d", p.PID, p.Ticks()))
	}
	return Action{Argv: argv}
}

// Stop is the command that stops processes with SIGSTOP.
func Stop(all ...probe.Process) []string {
	argv := []string{"kill", "-s", "STOP"}
	for _, p := range all {
		argv = append(argv, strconv.Itoa(p.PID))
	}
	return argv
}

// Restore is the action after which a file has the content that it had, unless it has it already.
func Restore(path, content string) Action {
	return Action{Argv: []string{AgentPath, "restore", path}, Stdin: content}
}

// RemoveQdisc is the action after which a device has no queueing discipline of the owner.
func RemoveQdisc(owner Owner, device string) Action {
	return Action{Argv: append(append([]string{AgentPath, "qdisc"}, owner.flags()...), device)}
}

// MendVolumes is the action that undoes the damage that the owner has done to volumes of the node.
func MendVolumes(owner Owner) Action {
	return Action{Argv: append([]string{AgentPath, "injury", "mend"}, owner.flags()...)}
}

// SetClock is the command that puts a node's wall clock that much ahead of its boot clock, in the boot of that name. In
// another boot it does nothing: the boot clock began again.
func SetClock(ahead time.Duration, boot string) []string {
	return []string{AgentPath, "clock", "--ahead", ahead.String(), "--boot", boot}
}

// DeleteTable is the action after which the owner's nftables table is gone, whether it was there or not: adding a table
// that is there changes nothing.
func DeleteTable(owner Owner) Action {
	return Action{
		Argv:  []string{"nft", "-f", "-"},
		Stdin: fmt.Sprintf("add table inet %[1]s\ndelete table inet %[1]s\n", owner.Table()),
	}
}
