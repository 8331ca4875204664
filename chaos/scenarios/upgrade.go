package scenarios

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

// The versions of the scenario upgrade.
const (
	UpgradeFrom = "v1.36.3"
	UpgradeTo   = "v1.37.0"
)

// minors are versions of successive minor versions, the oldest first.
func minors() []string { return []string{"v1.34.4", "v1.35.4", UpgradeFrom, UpgradeTo} }

// upgradeWorkers is how many workers are upgraded: one for each of the instances.
const upgradeWorkers = 3

// Upgrade is an upgrade of a whole cluster under load: the control plane, and then one worker after another,
// in an order that the seed chooses.
func Upgrade(from, to string) plan.Scenario {
	return plan.Scenario{
		Name: "upgrade",
		Summary: fmt.Sprintf("Kubernetes upgraded from %s to %s by kubeadm, node by node, three MySQL instances under "+
			"load behind a PodDisruptionBudget.", from, to),
		Build: func(r *rand.Rand) plan.Plan {
			return upgrading(r, from, to, 2, upgradeOrder(r)...)
		},
	}
}

// upgrading upgrades nodes one after another; of three instances, evictions must leave some available.
func upgrading(r *rand.Rand, from, to string, available int, nodes ...string) plan.Plan {
	return upgradeTrial(r, from, available, upgradeEach(to, nodes...))
}

// upgradeTrial is a trial under load on a cluster that begins with a version.
func upgradeTrial(r *rand.Rand, from string, available int, upgrades []plan.Step) plan.Plan {
	w := eitherFileSystem(r, MySQL(3))
	w.MinAvailable = available
	p := Trial(w, append([]plan.Step{Load(150), Checksum("before")}, upgrades...)...)
	p.Workers, p.Kubernetes = upgradeWorkers, from
	return p
}

// upgradeEach upgrades nodes, and after each one looks at the data.
func upgradeEach(to string, nodes ...string) []plan.Step {
	var steps []plan.Step
	for _, node := range nodes {
		steps = append(steps, plan.Step{
			Do: plan.ActionUpgrade, Upgrade: &plan.Upgrade{To: to, Node: node}, Bound: plan.Duration(10 * time.Minute),
		}, Load(60), Checksum("after"))
	}
	return steps
}

// upgradeOrder is the control plane, and then the workers in an order that the seed chooses.
func upgradeOrder(r *rand.Rand) []string {
	nodes := []string{plan.UpgradeControlPlane}
	for _, i := range r.Perm(upgradeWorkers) {
		nodes = append(nodes, fmt.Sprintf("worker-%d", i+1))
	}
	return nodes
}

// halfWay is an hour in which kubelets are older than the API server; at its end one is killed.
func halfWay(r *rand.Rand) []plan.Step {
	return []plan.Step{
		{Do: plan.ActionPause, Lasting: plan.Duration(time.Hour), Bound: plan.Duration(65 * time.Minute)},
		Checksum("half-way"), Fault("kubelet-kill", r.IntN(3), 5*time.Second, 5*time.Minute),
		Load(60), Checksum("after"),
	}
}

// replaced has the workers of upgrades replaced.
func replaced(steps []plan.Step) []plan.Step {
	for _, s := range steps {
		if s.Upgrade != nil {
			s.Upgrade.Replaced = s.Upgrade.Node != plan.UpgradeControlPlane
		}
	}
	return steps
}

// upgrades are the scenarios of upgrades: one that is sound, one with faults, and self-tests.
func upgrades() []plan.Scenario {
	return []plan.Scenario{
		Upgrade(UpgradeFrom, UpgradeTo),
		{
			Name: "upgrade-chain",
			Summary: fmt.Sprintf("As upgrade, the whole cluster from %s to %s, each minor version in between.",
				minors()[0], UpgradeTo),
			Build: func(r *rand.Rand) plan.Plan {
				var steps []plan.Step
				for _, to := range minors()[1:] {
					steps = append(steps, upgradeEach(to, upgradeOrder(r)...)...)
				}
				return upgradeTrial(r, minors()[0], 2, steps)
			},
		},
		{
			Name: "upgrade-half-way",
			Summary: "As upgrade, and for an hour two workers stay one minor version older than the rest; at its end " +
				"a kubelet is killed.",
			Build: func(r *rand.Rand) plan.Plan {
				order := upgradeOrder(r)
				steps := append(upgradeEach(UpgradeTo, order[:2]...), halfWay(r)...)
				return upgradeTrial(r, UpgradeFrom, 2, append(steps, upgradeEach(UpgradeTo, order[2:]...)...))
			},
		},
		{
			Name: "upgrade-skew",
			Summary: "The control plane is upgraded by three minor versions; for an hour the workers stay three " +
				"minor versions older, at its end a kubelet is killed, and then they are replaced.",
			Build: func(r *rand.Rand) plan.Plan {
				var steps []plan.Step
				order := upgradeOrder(r)
				for _, to := range minors()[1:] {
					steps = append(steps, upgradeEach(to, order[0])...)
				}
				steps = append(steps, halfWay(r)...)
				return upgradeTrial(r, minors()[0], 2, append(steps, replaced(upgradeEach(UpgradeTo, order[1:]...))...))
			},
		},
		{
			Name: "upgrade-replaced",
			Summary: "As upgrade, and every worker is replaced: drained, its Node deleted, reset, and joined again " +
				"at the new version. Its local volumes stay, and their pods come back.",
			Build: func(r *rand.Rand) plan.Plan {
				p := upgrading(r, UpgradeFrom, UpgradeTo, 2, upgradeOrder(r)...)
				replaced(p.Steps)
				return p
			},
		},
		{
			Name: "upgrade-back",
			Summary: "The control plane is upgraded and taken back under load: its API server emulates the former " +
				"version, then its components are replaced, which kubeadm does not support. Then it is upgraded again.",
			Build: func(r *rand.Rand) plan.Plan {
				back := upgradeEach(UpgradeTo, plan.UpgradeControlPlane)
				back[0].Upgrade.Back = true
				return upgradeTrial(r, UpgradeFrom, 2,
					append(back, upgradeEach(UpgradeTo, plan.UpgradeControlPlane, "worker-1")...))
			},
		},
		{
			Name: "upgrade-trouble",
			Summary: "Kubernetes upgraded under load, the API server frozen while kubeadm applies the upgrade, and " +
				"the node of an instance rebooted and the kubelet of another's killed right after their kubelets " +
				"were replaced.",
			Build: func(r *rand.Rand) plan.Plan {
				victims := r.Perm(3)
				p := upgrading(r, UpgradeFrom, UpgradeTo, 2, plan.UpgradeControlPlane, "worker-1", "worker-2")
				// Before, kubeadm replaces etcd and the API server, whose absence would hide the fault.
				upgraded := Await(plan.AwaitVersion, 0, 10*time.Minute)
				upgraded.Await.Version = UpgradeTo
				frozen := Fault("apiserver-freeze", victims[0], 10*time.Second, 5*time.Minute)
				faults := []string{"kubelet-kill", "node-reboot"}
				for i := range p.Steps {
					s := &p.Steps[i]
					switch {
					case s.Upgrade == nil:
					case s.Upgrade.Node == plan.UpgradeControlPlane:
						s.Upgrade.At, s.Bound = "apply", plan.Duration(15*time.Minute)
						s.During = []plan.Step{upgraded, frozen}
					default:
						n := len(faults) - 1
						s.Upgrade.Node, s.Upgrade.Ordinal, s.Upgrade.At = "", &victims[n], "ready"
						s.During = []plan.Step{Fault(faults[n], victims[n], 5*time.Second, 5*time.Minute)}
						faults = faults[:n]
					}
				}
				return p
			},
		},
		selftest("upgrade-order", "FAIL", "a worker's kubelet is upgraded before the API server, and with its "+
			"pods there;", plan.Sign{Check: "upgrade-order", Says: "which is newer than the API server"},
			func(r *rand.Rand) plan.Plan {
				p := upgrading(r, UpgradeFrom, UpgradeTo, 2, "worker-1")
				for _, s := range p.Steps {
					if s.Upgrade != nil {
						s.Upgrade.Undrained = true
					}
				}
				return p
			}),
		selftest("upgrade-deleted-row", "FAIL", "one acknowledged row is deleted behind the workload's back when "+
			"the control plane is upgraded and the workers are not;",
			plan.Sign{Check: "rows", Says: "lost a row"}, func(r *rand.Rand) plan.Plan {
				steps := upgradeEach(UpgradeTo, plan.UpgradeControlPlane)
				steps = append(steps, tamper(plan.Tamper{Kind: "delete-row", Ordinal: r.IntN(3)}))
				return upgradeTrial(r, UpgradeFrom, 2, append(steps, upgradeEach(UpgradeTo, "worker-1")...))
			}),
		selftest("upgrade-twins", "FAIL", "the control plane is upgraded, and then a node with an old kubelet "+
			"that is only cut off gets the out-of-service taint: two nodes have its volumes;",
			plan.Sign{Check: "mounts", Says: "at once"}, func(r *rand.Rand) plan.Plan {
				steps := append([]plan.Step{Load(50 + r.IntN(50)), Checksum("before")},
					upgradeEach(UpgradeTo, plan.UpgradeControlPlane)...)
				p := diskTrial(onOneNode("single"), append(steps, cutOff())...)
				p.Kubernetes = UpgradeFrom
				return p
			}),
		selftest("upgrade-blocked", "UNKNOWN", "a PodDisruptionBudget allows no eviction, so no worker can be "+
			"drained;", plan.Sign{Check: "version-reached", Says: `stood at "drain"`}, func(r *rand.Rand) plan.Plan {
			return upgrading(r, UpgradeFrom, UpgradeTo, 3, plan.UpgradeControlPlane, "worker-1")
		}),
	}
}
