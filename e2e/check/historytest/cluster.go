package historytest

import (
	"fmt"

	"github.com/seatrial/seatrial/chaos/history"
)

// Observer adds what an observer says of itself.
func (t *Trial) Observer(name, node, boot string, state history.ObserverState, detail string, from, to float64) {
	source := "api"
	if node != "" {
		source = "ledger/" + node
	}
	t.fact(source, from, to, history.Event{Kind: history.KindObserver,
		Observer: &history.Observer{Name: name, Node: node, Boot: boot, State: state, Detail: detail}})
}

// Beats adds a beat of the observer each second in [from, to].
func (t *Trial) Beats(name, node, boot string, from, to float64) {
	for s := from; s <= to; s++ {
		t.Observer(name, node, boot, history.ObserverBeat, "", s, s)
	}
}

// Mount adds a mount that appears or is present, and returns its id. Its moments are known to 0.1 ms.
func (t *Trial) Mount(action history.MountAction, node, boot string, inode uint64, path string, at float64) uint64 {
	t.mountID++
	t.fact("ledger/"+node, at, at+0.0001, history.Event{Kind: history.KindMount,
		Mount: &history.Mount{Action: action, Node: node, Boot: boot, MountID: t.mountID, Root: "/", Path: path,
			FSType: "ext4", Identity: Identity(inode)}})
	return t.mountID
}

// Unmount adds the end of a mount.
func (t *Trial) Unmount(node, boot string, id uint64, at float64) {
	t.fact("ledger/"+node, at, at+0.0001, history.Event{Kind: history.KindMount,
		Mount: &history.Mount{Action: history.MountDetach, Node: node, Boot: boot, MountID: id}})
}

// Identity is that of a loop device over the backing file with the given inode.
func Identity(inode uint64) history.Identity {
	return history.Identity{
		Device: fmt.Sprintf("7:%d", inode), BackingDev: "8:1", BackingInode: inode,
		BackingFile: fmt.Sprintf("/var/lib/seatrial/volumes/%d.img", inode),
	}
}

// Volume adds which storage stands behind a PersistentVolume.
func (t *Trial) Volume(pv, node, path string, inode uint64, at float64) {
	t.fact("trial", at, at, history.Event{Kind: history.KindVolume,
		Volume: &history.Volume{PV: pv, Node: node, Path: path, Identity: Identity(inode)}})
}

// watchAPI turns the watches of the API on and lets them live to a moment.
func (t *Trial) watchAPI(to float64) {
	for _, resource := range []string{
		"controllerrevisions", "events", "nodes", "persistentvolumeclaims", "persistentvolumes", "pods", "statefulsets",
		"volumeattachments",
	} {
		t.Observer("api/"+resource, "", "", history.ObserverOn, "", 0.3, 0.3)
		t.Beats("api/"+resource, "", "", 1, to)
	}
}

// Process adds a process of a pod that ran from one moment to another, and to an unseen end when that is 0.
func (t *Trial) Process(node, name, podUID string, pid int, from, to float64) {
	t.spell(node, from, to, func(action history.ProcessAction) history.Event {
		return history.Event{Kind: history.KindProcess, Process: &history.Process{Action: action, Node: node,
			Name: name, PID: pid, Start: At(from), PodUID: podUID}}
	})
}
