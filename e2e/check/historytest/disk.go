package historytest

import (
	"fmt"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

// DiskPlan is the plan of Disk: one fault, then scaling down to one and up again, on storage shared-disk.
func DiskPlan() plan.Plan {
	one, two := 1, 2
	p := SmokePlan()
	p.Scenario = "disk"
	p.Workload.Replicas = 2
	p.Workload.Storage, p.Workload.Fencing = plan.StorageSharedDisk, "single"
	p.Bounds.Settle = plan.Duration(10 * time.Second)
	p.Steps = []plan.Step{
		{Do: plan.ActionLoad, Commits: 50},
		{Do: plan.ActionChecksum, Label: "before"},
		{Do: plan.ActionFault, Fault: &plan.Fault{Name: "kubelet-kill", Ordinal: 0,
			Hold: plan.Duration(5 * time.Second)}},
		{Do: plan.ActionLoad, Commits: 50},
		{Do: plan.ActionChecksum, Label: "after"},
		{Do: plan.ActionScale, Replicas: &one},
		{Do: plan.ActionScale, Replicas: &two},
		{Do: plan.ActionChecksum, Label: "scaled"},
	}
	return numbered(p)
}

// Disk is a whole trial on storage shared-disk in which every promise was kept. mysql-0 has volume pvc-0 on worker; its
// kubelet is killed at +16 s. mysql-1 has volume pvc-1 on worker2 until it is scaled down at +31 s, and on worker from
// +39 s on. The backing files are inodes 100 and 101. More adds events before the final reads.
func Disk(more ...func(*Trial)) *Trial {
	t := New(DiskPlan())
	t.phases(timetable{steps: []float64{10, 15, 16, 25.1, 30, 31, 39, 47, 48}, load: 48.5, heal: 49, healed: 50,
		settled: 53, audit: 54, audited: 56, done: 60})
	t.diskWatching()
	t.PV("pvc-0", "data-mysql-0", "ReadWriteOnce", 1.15)
	t.PV("pvc-1", "data-mysql-1", "ReadWriteOnce", 3.15)
	t.Claim("data-mysql-0", "pvc-0", 1.12)
	t.Claim("data-mysql-1", "pvc-1", 3.12)
	t.Set(history.VerbAdded, "mysql", 2, 1)
	t.comes("mysql-0", "pvc-0", "worker", 100, 1.1).stays(t)
	first := t.comes("mysql-1", "pvc-1", "worker2", 101, 3.1)
	t.Set(history.VerbModified, "mysql", 1, 31.1)
	first.goes(t, 31.2)
	t.Set(history.VerbModified, "mysql", 2, 39.1)
	t.comes("mysql-1", "pvc-1", "worker", 101, 39.2).stays(t)
	t.Fault(3, "kubelet-kill", "worker", "mysql-0", FaultTimes{16.1, 16.2, 16.3, 18, 23, 23.5, 25})
	t.work(0, 221, nil)
	t.work(1, 221, [][2]float64{{31.2, 42}})
	for _, add := range more {
		add(t)
	}
	for k := range 2 {
		t.readBack(k, fmt.Sprintf("pvc-mysql-%d", k))
	}
	zero := Writer{"start-a", "worker", t.PodUID("mysql-0"), 2.5, 40}
	t.Witness("mysql-0", "pvc-0", "worker", "scaled", 47.5, zero)
	zero.Entries = 50
	t.Witness("mysql-0", "pvc-0", "worker", history.FinalRead, 55, zero)
	one := Writer{"start-c", "worker", t.PodUID("mysql-1"), 41, 6}
	away := Writer{"start-b", "worker2", first.uid, 4.5, 27}
	t.Witness("mysql-1", "pvc-1", "worker", "scaled", 47.6, away, one)
	one.Entries = 12
	t.Witness("mysql-1", "pvc-1", "worker", history.FinalRead, 55.1, away, one)
	return t
}

// stay is a pod on a node with two mounts of its volume: the global one and the pod's.
type stay struct {
	name, uid, pv, node string
	inode               uint64
	from                float64
	global, mounted     uint64
}

// comes adds a pod that comes up on a node.
func (t *Trial) comes(name, pv, node string, inode uint64, from float64) stay {
	at := func(after float64) float64 { return from + after }
	t.Runs(name, node)
	t.Pod(history.VerbAdded, name, "Pending", false, false, from)
	s := stay{name: name, uid: t.PodUID(name), pv: pv, node: node, inode: inode, from: from}
	t.Attachment(history.VerbAdded, pv, node, false, false, at(0.1))
	t.Call("ControllerPublishVolume", pv, node, at(0.2), at(0.3), On(node))
	t.Attachment(history.VerbModified, pv, node, true, false, at(0.35))
	t.InUse(node, at(0.36), pv)
	t.Call("NodeStageVolume", pv, node, at(0.4), at(0.6), nil)
	s.global = t.Mount(history.MountAttach, node, FirstBoot, inode, GlobalPath(pv), at(0.5))
	t.Call("NodePublishVolume", pv, node, at(0.7), at(0.8), Target(PodPath(s.uid, pv)))
	s.mounted = t.Mount(history.MountAttach, node, FirstBoot, inode, PodPath(s.uid, pv), at(0.75))
	t.Pod(history.VerbModified, name, "Running", false, false, at(1.2))
	t.Pod(history.VerbModified, name, "Running", true, false, at(1.9))
	return s
}

// stays keeps the pod running to the end.
func (s stay) stays(t *Trial) {
	t.Process(s.node, "mysqld", s.uid, 4000+int(s.inode), s.from+1.1, 0)
	t.Holding(s.node, s.inode, s.uid, s.from+1.1, 0)
}

// goes ends the pod, and unmounts and detaches its volume.
func (s stay) goes(t *Trial, gone float64) {
	after := func(x float64) float64 { return gone + x }
	t.Pod(history.VerbModified, s.name, "Running", true, true, gone)
	t.Process(s.node, "mysqld", s.uid, 4000+int(s.inode), s.from+1.1, after(1.3))
	t.Holding(s.node, s.inode, s.uid, s.from+1.1, after(1.4))
	t.Call("NodeUnpublishVolume", s.pv, s.node, after(1.6), after(1.7), Target(PodPath(s.uid, s.pv)))
	t.Unmount(s.node, FirstBoot, s.mounted, after(1.65))
	t.Pod(history.VerbDeleted, s.name, "Succeeded", false, true, after(1.8))
	t.Call("NodeUnstageVolume", s.pv, s.node, after(2), after(2.2), nil)
	t.Unmount(s.node, FirstBoot, s.global, after(2.1))
	t.InUse(s.node, after(2.4))
	t.Attachment(history.VerbModified, s.pv, s.node, true, true, after(2.5))
	t.Call("ControllerUnpublishVolume", s.pv, s.node, after(2.6), after(2.7), On())
	t.Attachment(history.VerbDeleted, s.pv, s.node, false, true, after(2.8))
}

func (t *Trial) diskWatching() {
	for _, node := range []string{"control-plane", "worker", "worker2"} {
		t.Node(node, 0.2)
		t.watch("mounts", early, node, 59)
		for _, name := range []string{"processes", "holdings", "csi"} {
			t.watch(name, "", node, 59)
		}
	}
	t.watch("csi-controller", "", "control-plane", 59)
	t.watchAPI(59)
}
