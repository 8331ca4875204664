package history

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MountAction says what became of a mount.
type MountAction string

// The actions of mount facts. Present is a mount found when the ledger began (or began again after a gap).
const (
	MountPresent MountAction = "present"
	MountAttach  MountAction = "attach"
	MountDetach  MountAction = "detach"
)

// ParseBoot reads when a node's PID 1 started on the boot clock, from the name of a boot: "1353.010s 1b4e28ba". Older
// histories have no boot id of the kernel, and may have a number of nanoseconds.
func ParseBoot(boot string) (Time, bool) {
	boot, _, _ = strings.Cut(boot, " ")
	if ns, err := strconv.ParseInt(boot, 10, 64); err == nil {
		return Time(ns), ns >= 0
	}
	d, err := time.ParseDuration(boot)
	return Time(d), err == nil && d >= 0
}

// Mount is one mount in a node's mount namespace. (Node, Boot, MountID) is its identity: the kernel's unique mount
// ids are never used again while the kernel runs.
type Mount struct {
	Action   MountAction `json:"action"`
	Node     string      `json:"node"`
	Boot     string      `json:"boot"` // The node's boot, by the name that ParseBoot reads.
	MountID  uint64      `json:"mountID"`
	Identity Identity    `json:"identity"`       // Void for a detach and for an attach that vanished too soon.
	Root     string      `json:"root,omitempty"` // The directory of the file system that is mounted.
	Path     string      `json:"path,omitempty"` // Where, in the node's mount namespace.
	FSType   string      `json:"fsType,omitempty"`
	ReadOnly bool        `json:"readOnly,omitempty"`
	Unknown  bool        `json:"unknown,omitempty"` // It was seen to appear and could not be identified.
}

// Identity is what is mounted, told apart on one kernel. For a loop device it is the backing file's device and
// inode, since two loop devices over one file are one volume.
type Identity struct {
	Device       string `json:"device,omitempty"`       // "major:minor" of the file system's device.
	BackingFile  string `json:"backingFile,omitempty"`  // Path as the kernel tells it; for people, not for comparison.
	BackingDev   string `json:"backingDev,omitempty"`   // "major:minor" of the file system that holds the backing file.
	BackingInode uint64 `json:"backingInode,omitempty"` // Inode of the backing file.
}

// Key returns the string by which two mounts of one volume are the same, and "" when nothing is known.
func (i Identity) Key() string {
	switch {
	case i.BackingInode != 0:
		return fmt.Sprintf("file:%s:%d", i.BackingDev, i.BackingInode)
	case i.Device != "":
		return "dev:" + i.Device
	}
	return ""
}

// Volume says which storage stands behind a PersistentVolume.
type Volume struct {
	PV       string   `json:"pv"`
	Node     string   `json:"node"` // The node that holds it (local) or where the fact was read.
	Path     string   `json:"path"` // Where its file system is mounted for the kubelet to take it from.
	Identity Identity `json:"identity"`
}
