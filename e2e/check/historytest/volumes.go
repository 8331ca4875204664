package historytest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/seatrial/seatrial/chaos/history"
)

// Driver is the name of the made-up CSI driver.
const Driver = "shared.disk"

// Handle returns the handle of a made-up volume: "disk-pvc-0" for "pvc-0".
func Handle(pv string) string { return "disk-" + pv }

// GlobalPath returns where the kubelet mounts a volume for all pods of a node.
func GlobalPath(pv string) string {
	sum := sha256.Sum256([]byte(Handle(pv)))
	return "/var/lib/kubelet/plugins/kubernetes.io/csi/" + Driver + "/" + hex.EncodeToString(sum[:]) + "/globalmount"
}

// PodPath returns where the kubelet mounts a volume for one pod.
func PodPath(podUID, pv string) string {
	return "/var/lib/kubelet/pods/" + podUID + "/volumes/kubernetes.io~csi/" + pv + "/mount"
}

// Call adds a call of the driver: its begin, and its end unless to is 0. Controller methods run on the control plane.
// The times are exact; the span of the end covers the whole call.
func (t *Trial) Call(rpc, pv, node string, from, to float64, more func(*history.CSI)) {
	t.calls++
	c := history.CSI{Node: node, Boot: FirstBoot, Call: fmt.Sprintf("call-%d", t.calls), RPC: rpc, Volume: Handle(pv),
		For: node}
	switch rpc {
	case "ControllerPublishVolume", "ControllerUnpublishVolume":
		c.Node = "control-plane"
	case "NodeStageVolume", "NodeUnstageVolume":
		c.Staging = GlobalPath(pv)
	}
	end := c
	end.End, end.Code = true, "OK"
	if more != nil {
		more(&end)
	}
	c.Target, c.Staging, c.Boot = end.Target, end.Staging, end.Boot
	t.fact("csi/"+c.Node, from, from, history.Event{Kind: history.KindCSI, CSI: &c})
	if to != 0 {
		t.fact("csi/"+c.Node, from, to, history.Event{Kind: history.KindCSI, CSI: &end})
	}
}

// On returns an option of Call: the nodes that the volume is attached to afterwards.
func On(nodes ...string) func(*history.CSI) {
	return func(c *history.CSI) { c.Attached = nodes }
}

// Target returns an option of Call: the path that it publishes or unpublishes.
func Target(path string) func(*history.CSI) { return func(c *history.CSI) { c.Target = path } }

// Holding adds a container that has a volume mounted between two times; no end if to is 0.
func (t *Trial) Holding(node string, inode uint64, podUID string, from, to float64) {
	t.mountID++
	namespace := 4_026_000_000 + t.mountID
	t.spell(node, from, to, func(action history.ProcessAction) history.Event {
		return history.Event{Kind: history.KindHolding, Holding: &history.Holding{Action: action, Node: node,
			Boot: FirstBoot, Namespace: namespace, Identity: Identity(inode), Path: "/var/lib/mysql", PID: 5000,
			Start: At(from), Program: "mysqld", PodUID: podUID}}
	})
}

// Writer is one start of a witness writer, which writes one entry each second.
type Writer struct {
	Start, Node, PodUID string
	From                float64
	Entries             int
}

// Witness adds a reading of a volume's witness file, written by one writer after the other.
func (t *Trial) Witness(instance, pv, node, label string, at float64, writers ...Writer) {
	w := history.Witness{Instance: instance, PodUID: t.PodUID(instance), PV: pv, Node: node, Label: label,
		Volume: Handle(pv)}
	for _, by := range writers {
		for i := range by.Entries {
			w.Entries = append(w.Entries, history.WitnessEntry{Volume: Handle(pv), Node: by.Node, PodUID: by.PodUID,
				Start: by.Start, Seq: int64(i + 1), At: At(by.From + float64(i))})
		}
	}
	t.fact("trial", at, at+0.05, history.Event{Kind: history.KindWitness, Witness: &w})
}

// Pull adds a proven pull of a volume's disk, backed by the file of that inode, out of a node between two times.
func (t *Trial) Pull(pv, node string, inode uint64, from, to float64, more func(*history.Pull)) {
	p := history.Pull{
		Node: node, Boot: FirstBoot, Volume: Handle(pv), Identity: Identity(inode), ShutDown: GlobalPath(pv),
		Tries: []history.Try{
			{Of: history.TryDevice, What: "read of 4096 bytes at 0 with O_DIRECT"},
			{Of: history.TryFileSystem, What: "sync of the root", Errno: history.EIO},
		},
	}
	if more != nil {
		more(&p)
	}
	t.fact("csi/"+node, from, to, history.Event{Kind: history.KindPull, Pull: &p})
}

// Inspections adds clean inspections of the tables of an instance and then of the file system of its volume.
func (t *Trial) Inspections(instance, pv string, at float64) {
	for i, in := range []history.Inspection{
		{Tool: "CHECK TABLE", Instance: instance, Table: "quiet", Clean: true},
		{Tool: "CHECK TABLE", Instance: instance, Table: "ledger", Clean: true},
		{Tool: "e2fsck", PV: pv, Node: "worker", Clean: true},
	} {
		from := at + float64(i)/10
		t.fact("trial", from, from+0.05, history.Event{Kind: history.KindInspection, Inspection: &in})
	}
}

// Observer adds an observer fact.
func (t *Trial) Observer(name, node, boot string, state history.ObserverState, detail string, from, to float64) {
	source := "api"
	if node != "" {
		source = "ledger/" + node
	}
	t.fact(source, from, to, history.Event{Kind: history.KindObserver,
		Observer: &history.Observer{Name: name, Node: node, Boot: boot, State: state, Detail: detail}})
}

// Beats adds an observer's beat each second in [from, to].
func (t *Trial) Beats(name, node, boot string, from, to float64) {
	for s := from; s <= to; s++ {
		t.Observer(name, node, boot, history.ObserverBeat, "", s, s)
	}
}

// Mount adds a mount that appears or is present, and returns its id. Its times are known to 0.1 ms.
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

// Identity returns the identity of a loop device over the backing file with the given inode.
func Identity(inode uint64) history.Identity {
	return history.Identity{
		Device: fmt.Sprintf("7:%d", inode), BackingDev: "8:1", BackingInode: inode,
		BackingFile: fmt.Sprintf("/var/lib/seatrial/volumes/%d.img", inode),
	}
}

// Volume adds a volume fact: the identity of a PersistentVolume's storage.
func (t *Trial) Volume(pv, node, path string, inode uint64, at float64) {
	t.fact("trial", at, at, history.Event{Kind: history.KindVolume,
		Volume: &history.Volume{PV: pv, Node: node, Path: path, Identity: Identity(inode)}})
}

// watchAPI runs the API watches up to a time.
func (t *Trial) watchAPI(to float64) {
	for _, resource := range []string{
		"controllerrevisions", "events", "nodes", "persistentvolumeclaims", "persistentvolumes", "pods", "statefulsets",
		"volumeattachments",
	} {
		t.Observer("api/"+resource, "", "", history.ObserverOn, "", 0.3, 0.3)
		t.Beats("api/"+resource, "", "", 1, to)
	}
}

// Process adds a process of a pod that ran between two times; no end if to is 0.
func (t *Trial) Process(node, name, podUID string, pid int, from, to float64) {
	t.spell(node, from, to, func(action history.ProcessAction) history.Event {
		return history.Event{Kind: history.KindProcess, Process: &history.Process{Action: action, Node: node,
			Name: name, PID: pid, Start: At(from), PodUID: podUID}}
	})
}
