package historytest

import (
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

// The versions of the made-up upgrade.
const (
	From = "v1.36.3"
	To   = "v1.37.0"
)

// UpgradePlan is the plan of Upgrade: the control plane and then both workers, behind a budget of two.
func UpgradePlan() plan.Plan {
	p := SmokePlan()
	p.Scenario, p.Kubernetes, p.Workload.MinAvailable = "upgrade", From, 2
	p.Steps = nil
	for _, node := range []string{plan.UpgradeControlPlane, "worker-1", "worker-2"} {
		p.Steps = append(p.Steps, plan.Step{Do: plan.ActionUpgrade, Upgrade: &plan.Upgrade{To: To, Node: node}})
	}
	return numbered(p)
}

// Upgrade is the part of a whole trial that concerns versions and evictions: the API server is upgraded at +14 s, the
// kubelets at +17 s, +27 s and +37 s, and mysql-0 is evicted at +25 s; it goes to a node that stays as it is, and the
// others run on such a node. The API server reports its version each second.
func Upgrade() *Trial {
	t := New(UpgradePlan())
	t.phases(timetable{steps: []float64{10, 20, 30, 40}, load: 41, heal: 41, healed: 42, settled: 45, audit: 46,
		audited: 47, done: 50})
	t.watchAPI(49)
	for i, node := range []string{"control-plane", "worker", "worker2"} {
		at := 10*float64(i) + 10
		t.Kubelet(node, From, history.VerbListed, 0.4)
		t.UpgradePart(i+1, node, history.UpgradeStock, at+1, at+2)
		t.UpgradePart(i+1, node, history.UpgradeKubelet, at+6, at+7)
		t.UpgradePart(i+1, node, history.UpgradeSettled, at+8, at+9)
		t.Kubelet(node, To, history.VerbModified, at+7)
	}
	for s := 1.0; s < 48; s++ {
		version := From
		if s > 14 {
			version = To
		}
		t.Version(version, s)
	}
	t.Set(history.VerbAdded, "mysql", 3, 1)
	for i, node := range []string{"worker", "worker3", "worker3"} {
		name := []string{"mysql-0", "mysql-1", "mysql-2"}[i]
		t.Runs(name, node)
		t.start(name, 1.1+2*float64(i), 3+2*float64(i))
	}
	t.Evict("mysql-0", 25, 25.5)
	t.Runs("mysql-0", "worker4")
	t.start("mysql-0", 25.6, 28)
	return t
}

// Kubelet adds a node status with a kubelet version.
func (t *Trial) Kubelet(node, version string, verb history.Verb, at float64) {
	t.object("nodes", "", node, "node-"+node, verb,
		fields{"status": fields{"nodeInfo": fields{"kubeletVersion": version}}}, at)
}

// Version adds a version reported by the API server.
func (t *Trial) Version(version string, at float64) {
	t.fact("trial", at, at+0.01, history.Event{Kind: history.KindVersion,
		Version: &history.Version{Component: history.ComponentAPIServer, Version: version}})
}

// Replaced adds that the kubelet of worker3, with mysql-1 and mysql-2 on it, is replaced from +30 s to +31 s.
func (t *Trial) Replaced(to string) {
	t.Kubelet("worker3", From, history.VerbListed, 0.5)
	t.UpgradePart(2, "worker3", history.UpgradeKubelet, 30, 30.9)
	t.Kubelet("worker3", to, history.VerbModified, 31)
}

// UpgradePart adds the begin and the end of a part of a node's upgrade; no end if to is 0.
func (t *Trial) UpgradePart(step int, node string, part history.UpgradePart, from, to float64) {
	u := history.Upgrade{Step: step, Node: node, Part: part, To: To}
	begin := u
	t.fact("trial", from, from, history.Event{Kind: history.KindUpgrade, Upgrade: &begin})
	if to != 0 {
		u.End = true
		t.fact("trial", to, to, history.Event{Kind: history.KindUpgrade, Upgrade: &u})
	}
}

// Evict adds the eviction of a Ready pod and its end.
func (t *Trial) Evict(name string, at, gone float64) { t.EvictIn("Running", name, at, gone) }

// EvictIn is Evict for a pod in a phase.
func (t *Trial) EvictIn(phase, name string, at, gone float64) {
	p := TalePod{UID: t.uids[name], Node: t.nodes[name], Revision: Revision("mysql", ""), Phase: phase,
		Hostname: name, Ready: phase == "Running", Ending: true, Evicted: true}
	t.say(history.VerbModified, name, &p, at)
	t.say(history.VerbDeleted, name, &p, gone)
}

// Applied adds kubeadm upgrade apply of step 1, which fails unless failed is empty, and what was seen of etcd then.
func (t *Trial) Applied(failed string, data *history.EtcdData) {
	u := history.Upgrade{Step: 1, Node: "control-plane", Part: history.UpgradeApply, To: To, End: true, Error: failed}
	t.fact("trial", 12, 12, history.Event{Kind: history.KindUpgrade, Upgrade: &u})
	if data != nil {
		data.Step, data.Node = u.Step, u.Node
		t.fact("trial", 11, 12, history.Event{Kind: history.KindEtcdData, EtcdData: data})
	}
}
