package historytest

import (
	"fmt"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

// The boots of the made-up nodes: all first ones began 900 s before the trial; worker2 is rebooted at +33 s.
const (
	FirstBoot  = "100.000s"
	SecondBoot = "1033.000s"
	early      = "fanotify; before containerd, kubelet: none of them ran yet"
)

// SmokePlan is the plan of Smoke: two faults, then scaling down to one and up again.
func SmokePlan() plan.Plan {
	one, three := 1, 3
	p := plan.Plan{
		Schema: plan.SchemaVersion, Scenario: "smoke", Seed: 42, Workers: 2,
		Workload: plan.Workload{
			Name: "ledger", StatefulSet: "mysql", Replicas: 3, FileSystem: "ext4", VolumeMiB: 512, Clients: 1,
			Interval: plan.Duration(200 * time.Millisecond), QuietRows: 1000,
		},
		Bounds: plan.Bounds{
			Ready: plan.Duration(time.Minute), Settle: plan.Duration(30 * time.Second),
			BlindGap: plan.Duration(5 * time.Second), MinOps: 20, MinAround: 3,
		},
		Steps: []plan.Step{
			{Do: plan.ActionLoad, Commits: 50},
			{Do: plan.ActionChecksum, Label: "before-kubelet-kill"},
			{Do: plan.ActionFault, Fault: &plan.Fault{Name: "kubelet-kill", Ordinal: 0,
				Hold: plan.Duration(5 * time.Second)}},
			{Do: plan.ActionLoad, Commits: 50},
			{Do: plan.ActionChecksum, Label: "between"},
			{Do: plan.ActionFault, Fault: &plan.Fault{Name: "node-reboot", Ordinal: 1,
				Hold: plan.Duration(5 * time.Second)}},
			{Do: plan.ActionLoad, Commits: 50},
			{Do: plan.ActionChecksum, Label: "after-node-reboot"},
			{Do: plan.ActionScale, Replicas: &one},
			{Do: plan.ActionScale, Replicas: &three},
			{Do: plan.ActionChecksum, Label: "scaled"},
		},
	}
	return numbered(p)
}

// numbered sets the numbers and bounds of a plan's steps.
func numbered(p plan.Plan) plan.Plan {
	for i := range p.Steps {
		p.Steps[i].N = i + 1
		p.Steps[i].Bound = plan.Duration(time.Minute)
	}
	return p
}

// Smoke is a whole trial in which every promise was kept: kubelet-kill under mysql-0 at +16 s, node-reboot under
// mysql-1 at +31 s, scaling at +48 s, everything read back at +71 s. More adds events before the final reads.
func Smoke(more ...func(*Trial)) *Trial {
	t := New(SmokePlan())
	t.phases(timetable{steps: []float64{10, 15, 16, 25.1, 30, 31, 42.1, 47, 48, 56, 64, 65}, load: 65.5, heal: 66,
		healed: 67, settled: 70, audit: 71, audited: 73, done: 80})
	t.watching()
	t.pods()
	t.mounts()
	t.Fault(3, "kubelet-kill", "worker", "mysql-0", FaultTimes{16.1, 16.2, 16.3, 18, 23, 23.5, 25})
	t.Fault(6, "node-reboot", "worker2", "mysql-1", FaultTimes{31.1, 31.2, 34, 36, 40, 40.5, 42})
	for k := range 3 {
		t.load(k)
	}
	for _, add := range more {
		add(t)
	}
	for k := range 3 {
		t.readBack(k, fmt.Sprintf("local-%d", k))
	}
	return t
}

// timetable holds when the phases of a trial begin and end: steps has the begin of the first step and the end of each.
type timetable struct {
	steps                                             []float64
	load, heal, healed, settled, audit, audited, done float64
}

func (t *Trial) phases(at timetable) {
	t.at = at
	t.Phase(history.PhaseSetup, 0, 0.1, 9)
	t.Phase(history.PhaseSteady, 0, 9, 10)
	t.Phase(history.PhaseLoad, 0, 10, at.load)
	for i := range t.Plan.Steps {
		t.Phase(history.PhaseStep, i+1, at.steps[i]+0.01, at.steps[i+1])
	}
	t.Phase(history.PhaseHeal, 0, at.heal, at.healed)
	t.Phase(history.PhaseSettle, 0, at.healed, at.settled)
	t.Phase(history.PhaseAudit, 0, at.audit, at.audited)
	t.Done(at.done)
}

// watching runs the observers to the end; the ledger of worker2 starts again after the reboot.
func (t *Trial) watching() {
	for _, node := range []string{"control-plane", "worker", "worker2"} {
		t.Node(node, 0.2)
	}
	for _, o := range [][2]string{{"mounts", early}, {"processes", ""}} {
		name, detail := o[0], o[1]
		t.watch(name, detail, "control-plane", 79)
		t.watch(name, detail, "worker", 79)
		t.watch(name, detail, "worker2", 31)
		t.Observer(name, "worker2", SecondBoot, history.ObserverOn, detail, 33.2, 33.2)
		t.Beats(name, "worker2", SecondBoot, 34, 79)
	}
	t.watchAPI(79)
}

// watch runs an observer of a node up to a time.
func (t *Trial) watch(name, detail, node string, to float64) {
	t.Observer(name, node, FirstBoot, history.ObserverOn, detail, 0.5, 0.5)
	t.Beats(name, node, FirstBoot, 1, to)
}

func (t *Trial) pods() {
	t.Runs("mysql-0", "worker")
	t.Runs("mysql-1", "worker2")
	t.Runs("mysql-2", "worker")
	t.Set(history.VerbAdded, "mysql", 3, 1)
	t.start("mysql-0", 1.1, 3)
	t.start("mysql-1", 3.1, 5)
	t.start("mysql-2", 5.1, 7)
	t.Process("worker", "mysqld", t.PodUID("mysql-0"), 4003, 2, 0)
	t.Process("worker2", "mysqld", t.PodUID("mysql-1"), 4001, 4, 0) // Until the reboot.
	t.Process("worker2", "mysqld", t.PodUID("mysql-1"), 4002, 35.5, 51.7)
	t.Process("worker", "mysqld", t.PodUID("mysql-2"), 4000, 6, 49.7)
	// mysql-1 is not Ready during the reboot.
	t.Pod(history.VerbModified, "mysql-1", "Running", false, false, 35)
	t.Pod(history.VerbModified, "mysql-1", "Running", true, false, 41)
	t.Set(history.VerbModified, "mysql", 1, 48.1)
	t.end("mysql-2", 48.2, 50)
	t.end("mysql-1", 50.1, 52)
	t.Set(history.VerbModified, "mysql", 3, 56.1)
	t.start("mysql-1", 56.2, 59)
	t.start("mysql-2", 59.1, 62)
	t.Process("worker2", "mysqld", t.PodUID("mysql-1"), 4004, 57.5, 0)
	t.Process("worker", "mysqld", t.PodUID("mysql-2"), 4005, 60.5, 0)
}

func (t *Trial) start(name string, from, ready float64) {
	t.Pod(history.VerbAdded, name, "Pending", false, false, from)
	t.Pod(history.VerbModified, name, "Running", false, false, (from+ready)/2)
	t.Pod(history.VerbModified, name, "Running", true, false, ready)
}

func (t *Trial) end(name string, from, gone float64) {
	t.Pod(history.VerbModified, name, "Running", true, true, from)
	t.Pod(history.VerbDeleted, name, "Succeeded", false, true, gone)
}

// mounts gives every instance a volume of its own: mysql-0 and mysql-2 on worker, mysql-1 on worker2.
func (t *Trial) mounts() {
	for k, node := range []string{"worker", "worker2", "worker"} {
		pv := fmt.Sprintf("data-mysql-%d", k)
		base := "/var/lib/seatrial/" + pv
		inode := uint64(100 + k)
		t.Volume(pv, node, base, inode, 0.9)
		wanted := 1.1 + 2*float64(k)
		t.Claim(pv, pv, wanted-0.01)
		t.LocalPV(pv, node, pv, 0.95, wanted)
		t.Mount(history.MountAttach, node, FirstBoot, inode, base, 0.8)
		pod := func(n int) string {
			uid := t.made[fmt.Sprintf("mysql-%d", k)][n-1]
			return fmt.Sprintf("/var/lib/kubelet/pods/%s/volumes/kubernetes.io~local-volume/%s", uid, pv)
		}
		id := t.Mount(history.MountAttach, node, FirstBoot, inode, pod(1), 1.5+2*float64(k))
		switch k {
		case 1:
			t.Mount(history.MountAttach, node, SecondBoot, inode, base, 33.5)
			again := t.Mount(history.MountAttach, node, SecondBoot, inode, pod(1), 35)
			t.Unmount(node, SecondBoot, again, 51.9)
			t.Mount(history.MountAttach, node, SecondBoot, inode, pod(2), 57)
		case 2:
			t.Unmount(node, FirstBoot, id, 49.9)
			t.Mount(history.MountAttach, node, FirstBoot, inode, pod(2), 60)
		}
	}
}

// load runs the client of one instance from +9.2 s to +70.4 s.
func (t *Trial) load(k int) {
	away := [][2]float64{{48.2 + 1.9*float64(2-k), 59 + 3*float64(k-1)}}
	if k == 0 {
		away = nil
	}
	if k == 1 {
		away = append(away, [2]float64{31.2, 36})
	}
	t.work(k, 306, away)
}

// work runs the client of one instance from +9.2 s on, at 5 operations a second. While the instance is away, operations
// fail, except that those of the first half second have an unknown outcome.
func (t *Trial) work(k, operations int, away [][2]float64) {
	name, client := fmt.Sprintf("mysql-%d", k), k+1
	for i := range operations {
		from := 9.2 + 0.2*float64(i)
		stage := history.StageOK
		for _, a := range away {
			switch {
			case from >= a[0] && from < a[0]+0.5:
				stage = history.StageUnknown
			case from >= a[0] && from < a[1]:
				stage = history.StageFailed
			}
		}
		if i%5 == 4 && stage == history.StageOK {
			t.Read(name, client, 1, true, from, from+0.004)
			continue
		}
		t.Insert(name, client, int64(i+1), stage, from, from+0.01)
	}
}

// readBack adds the checksums and the final read of one instance, and clean inspections of its tables and volume.
func (t *Trial) readBack(k int, pv string) {
	name, small := fmt.Sprintf("mysql-%d", k), 0.1*float64(k)
	t.Checksum(name, "quiet", true, "filled", 0, 8+small)
	for i, step := range t.Plan.Steps {
		if step.Do == plan.ActionChecksum {
			t.Checksum(name, "quiet", true, step.Label, i+1, t.at.steps[i]+0.2+small)
		}
	}
	read := t.at.audit + 0.2 + small
	t.FinalRows(name, read)
	t.Checksum(name, "quiet", true, "settled", 0, read+0.8)
	t.Checksum(name, "ledger", false, "settled", 0, read+1.1)
	t.Checksum(name, "ledger", false, "settled", 0, read+1.4)
	t.Inspections(name, pv, read+1.7)
}
