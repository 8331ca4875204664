package undo

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
)

// ManifestDir is where kubeadm has the kubelet take static pods from. The kubelet reads every file in it, whatever its
// name ends with.
const ManifestDir = "/etc/kubernetes/manifests/"

// BesideManifests is the path at which the owner makes a manifest ready: in the file system of ManifestDir, so that it
// can be moved there at once, and where the kubelet does not look.
func BesideManifests(owner Owner) string {
	return path.Join(path.Dir(path.Clean(ManifestDir)), owner.Name()+".yaml")
}

// ask is an action that calls the agent, which looks first whether there is anything to undo.
func ask(args ...string) Action { return Command(append([]string{nodeagent.Path}, args...)...) }

func askFor(owner Owner, args ...string) Action { return ask(slices.Concat(args, owner.Flags())...) }

// Thaw is the action after which none of the processes is stopped. A later process that has the pid of one is left
// alone.
func Thaw(all ...probe.Process) Action {
	args := []string{"thaw"}
	for _, p := range all {
		args = append(args, fmt.Sprintf("%d:%d", p.PID, p.Ticks()))
	}
	return ask(args...)
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
	return Action{Argv: []string{nodeagent.Path, "restore", path}, Stdin: content}
}

// RemoveQdisc is the action after which a device has no queueing discipline of the owner.
func RemoveQdisc(owner Owner, device string) Action {
	action := askFor(owner, "qdisc")
	action.Argv = append(action.Argv, device)
	return action
}

// MendVolumes is the action that undoes the damage that the owner has done to volumes of the node.
func MendVolumes(owner Owner) Action { return askFor(owner, "damage", "mend") }

// SetClock is the command that puts a node's wall clock that much ahead of its boot clock, in the boot of that name. In
// another boot it does nothing: the boot clock began again.
func SetClock(ahead time.Duration, boot string) []string {
	return []string{nodeagent.Path, "clock", "--ahead", ahead.String(), "--boot", boot}
}

// DeleteTable is the action after which the owner's nftables table is gone, whether it was there or not: adding a table
// that is there changes nothing.
func DeleteTable(owner Owner) Action {
	return Action{
		Argv:  []string{"nft", "-f", "-"},
		Stdin: fmt.Sprintf("add table inet %[1]s\ndelete table inet %[1]s\n", owner.Table()),
	}
}

// ListPoints is the command that lists the fault points of a service of the shared disk's driver as JSON.
func ListPoints(service string) []string {
	return []string{nodeagent.DiskPath, "points", "list", "--state", nodeagent.DiskStates + service}
}

// ClearPoint is the command after which the service has no fault point of that id, whether it had one or not.
func ClearPoint(service, id string) []string {
	return []string{nodeagent.DiskPath, "points", "clear", "--state", nodeagent.DiskStates + service, "--id", id}
}
