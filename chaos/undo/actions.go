package undo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
)

// ManifestDir is the kubelet's directory of static pods on a kubeadm node. It reads every file there, whatever its
// extension.
const ManifestDir = "/etc/kubernetes/manifests/"

// BesideManifests is where the owner prepares a manifest: in the file system of ManifestDir, so that a rename moves it
// there, and outside of what the kubelet reads.
func BesideManifests(owner Owner) string {
	return path.Join(path.Dir(path.Clean(ManifestDir)), owner.Name()+".yaml")
}

// ask returns an action that calls the agent. The agent's commands are idempotent.
func ask(args ...string) Action { return Command(append([]string{nodeagent.Path}, args...)...) }

func askFor(owner Owner, args ...string) Action { return ask(slices.Concat(args, owner.Flags())...) }

// Thaw returns the action that continues stopped processes. It leaves a later process with the same pid alone.
func Thaw(all ...probe.Process) Action {
	args := []string{"thaw"}
	for _, p := range all {
		args = append(args, fmt.Sprintf("%d:%d", p.PID, p.Ticks()))
	}
	return ask(args...)
}

// Signal returns the command that sends processes a signal, such as "STOP".
func Signal(name string, all ...probe.Process) []string {
	argv := []string{"kill", "-s", name}
	for _, p := range all {
		argv = append(argv, strconv.Itoa(p.PID))
	}
	return argv
}

// Restore returns the action that restores a file's former content.
func Restore(path, content string) Action {
	return Action{Argv: []string{nodeagent.Path, "restore", path}, Stdin: content}
}

// RemoveQdisc returns the action that removes the owner's queueing discipline from a device.
func RemoveQdisc(owner Owner, device string) Action {
	action := askFor(owner, "qdisc")
	action.Argv = append(action.Argv, device)
	return action
}

// MendVolumes returns the action that undoes the owner's damage to volumes of the node.
func MendVolumes(owner Owner) Action { return askFor(owner, "damage", "mend") }

// SetClock returns the command that sets a node's wall clock ahead of its boot clock. It does nothing in another boot
// than the given one, since the boot clock restarted.
func SetClock(ahead time.Duration, boot string) []string {
	return []string{nodeagent.Path, "clock", "--ahead", ahead.String(), "--boot", boot}
}

// DeleteTable returns the action that deletes the owner's nftables table. It adds the table first, so that deleting
// never fails. The command is one argument, by which the agent on an existing cluster sees what it does.
func DeleteTable(owner Owner) Action {
	return Command("nft", fmt.Sprintf("add table inet %[1]s; delete table inet %[1]s", owner.Table()))
}

// DropOrder returns the action that ends the order that the owner gave a node, and removes it.
func DropOrder(owner Owner) Action { return askFor(owner, "order", "drop") }

// ListPoints returns the command that lists the fault points of a service of the shared disk's driver as JSON.
func ListPoints(service string) []string {
	return []string{nodeagent.DiskPath, "points", "list", "--state", nodeagent.DiskStates + service}
}

// ClearPoint is the command that clears a fault point of a service, if it is set.
func ClearPoint(service, id string) []string {
	return []string{nodeagent.DiskPath, "points", "clear", "--state", nodeagent.DiskStates + service, "--id", id}
}

// Qdisc is a queueing discipline as tc prints it.
type Qdisc struct {
	Kind       string `json:"kind"`
	Handle     string `json:"handle"` // "5ea:".
	Device     string `json:"dev"`
	Root       bool   `json:"root"`
	Bytes      uint64 `json:"bytes"`      // Sent.
	Drops      uint64 `json:"drops"`      // Packets dropped.
	Overlimits uint64 `json:"overlimits"` // How often it delayed a packet.
}

// ListQdiscs returns the owner's queueing disciplines on the node, identified by handle and kind.
func ListQdiscs(ctx context.Context, run Runner, owner Owner) ([]Qdisc, error) {
	out, err := run(ctx, []string{"tc", "-s", "-json", "qdisc", "show"}, "")
	if err != nil {
		return nil, fmt.Errorf("list queueing disciplines: %w", err)
	}
	if strings.TrimSpace(out) == "" {
		return nil, nil
	}
	var all, ours []Qdisc
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		return nil, fmt.Errorf("list queueing disciplines: decode answer %.80q: %w", out, err)
	}
	for _, q := range all {
		if q.Root && q.Handle == owner.Qdisc() && (q.Kind == "netem" || q.Kind == "tbf") {
			ours = append(ours, q)
		}
	}
	return ours, nil
}

// QdiscGone removes the owner's queueing discipline from a device, if it is there. The kernel then restores its
// default.
func QdiscGone(ctx context.Context, run Runner, owner Owner, device string) error {
	there := func() (bool, error) {
		ours, err := ListQdiscs(ctx, run, owner)
		return slices.ContainsFunc(ours, func(q Qdisc) bool { return q.Device == device }), err
	}
	if is, err := there(); err != nil || !is {
		return err
	}
	// The kernel refuses any handle but the present one.
	_, err := run(ctx, []string{"tc", "qdisc", "del", "dev", device, "root", "handle", owner.Qdisc()}, "")
	if err == nil {
		return nil
	}
	is, again := there()
	if again == nil && !is {
		return nil // Another heal removed it.
	}
	return errors.Join(fmt.Errorf("remove queueing discipline %s of device %q: %w", owner.Qdisc(), device, err), again)
}
