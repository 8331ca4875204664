package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

func upgradeOf(u plan.Upgrade, during ...plan.Step) plan.Step {
	if u.To == "" {
		u.To = "v1.37.0"
	}
	return plan.Step{Do: plan.ActionUpgrade, Upgrade: &u, During: during, Bound: plan.Duration(10 * time.Minute)}
}

func upgradePlan(steps ...plan.Step) plan.Plan {
	p := planOf(steps...)
	p.Kubernetes = "v1.36.3"
	return p
}

func upgradeCaps() plan.Caps {
	c := partCaps()
	c.Faults = append(c.Faults, plan.FaultCaps{
		Name: "manager-stop", Takes: []plan.Part{plan.PartManager}, Manifest: true,
	})
	return c
}

func TestUpgradesThatAreLegal(t *testing.T) {
	control, one := plan.Upgrade{Node: plan.UpgradeControlPlane, At: "apply"}, 1
	for name, p := range map[string]plan.Plan{
		"one after another": upgradePlan(upgradeOf(plan.Upgrade{Node: plan.UpgradeControlPlane}),
			upgradeOf(plan.Upgrade{Node: "worker-2"}), upgradeOf(plan.Upgrade{Node: "worker-2", To: "v1.38.1"})),
		"of a pod's node": upgradePlan(upgradeOf(plan.Upgrade{Ordinal: &one, At: "ready"}, hit("kubelet-kill", 1))),
		"without the API": upgradePlan(upgradeOf(control, load(), hit("api-server-stop", 0))),
		"undrained": upgradePlan(upgradeOf(plan.Upgrade{Node: "worker-1", Undrained: true, At: "kubelet"},
			load())),
		"a worker after three minor versions": upgradePlan(upgradeOf(plan.Upgrade{Node: "worker-1", To: "v1.39.0",
			Replaced: true})),
		"back, and again": upgradePlan(upgradeOf(plan.Upgrade{Node: plan.UpgradeControlPlane, Back: true, At: "back"},
			load()), upgradeOf(plan.Upgrade{Node: plan.UpgradeControlPlane})),
		"a patch": upgradePlan(upgradeOf(plan.Upgrade{Node: "worker-1", To: "v1.36.4"})),
		"a manifest of a worker's": upgradePlan(upgradeOf(plan.Upgrade{Node: "worker-1", At: "node"},
			hit("manager-stop", 0))),
	} {
		if err := p.Validate(upgradeCaps()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUpgradesThatAreRefused(t *testing.T) {
	ordinal, none, worker := 1, 3, plan.Upgrade{Node: "worker-1"}
	at := func(node, part string, during ...plan.Step) plan.Plan {
		return upgradePlan(upgradeOf(plan.Upgrade{Node: node, At: part}, during...))
	}
	to := func(version string) plan.Plan {
		return upgradePlan(upgradeOf(plan.Upgrade{Node: "worker-1", To: version}))
	}
	cannot := upgradeCaps()
	cannot.Cannot = map[string]string{plan.NeedUpgrade: "it is yours"}
	unknown := upgradePlan(upgradeOf(worker))
	unknown.Kubernetes = ""
	for _, c := range []struct {
		name string
		p    plan.Plan
		want string
	}{
		{"no such node", at("worker-4", ""), `upgrade.node: there is no node "worker-4"; use "control-plane", ` +
			`"worker-1" to "worker-3", or ordinal`},
		{"no node", at("", ""), `upgrade.node: there is no node ""`},
		{"a node that is no number", at("worker-01", ""), `upgrade.node: there is no node "worker-01"`},
		{"node and ordinal", upgradePlan(upgradeOf(plan.Upgrade{Node: "worker-1", Ordinal: &ordinal})),
			"upgrade.ordinal: is set beside node; leave one of them out"},
		{"no such pod", upgradePlan(upgradeOf(plan.Upgrade{Ordinal: &none})), "upgrade.ordinal: 3 is out of range"},
		{"no version to begin with", unknown, `kubernetes: is missing, and steps[] upgrade from it; set it`},
		{"no version", to("1.37"), `upgrade.to: "1.37" is no version of Kubernetes; write it like v1.37.0`},
		{"downgrade", to("v1.35.9"), "upgrade.to: v1.35.9 is not later than v1.36.3, which worker-1 has then"},
		{"the same", to("v1.36.3"), "upgrade.to: v1.36.3 is not later than v1.36.3"},
		{"a minor skipped", upgradePlan(upgradeOf(plan.Upgrade{Node: plan.UpgradeControlPlane, To: "v1.38.0"})),
			"upgrade.to: v1.38.0 is too many minor versions after v1.36.3, at most 1 are allowed, which " +
				"control-plane has then; upgrade to a version in between first"},
		{"a worker's skipped", to("v1.38.0"), "v1.38.0 is too many minor versions after v1.36.3, at most 1"},
		{"a new worker's skipped", upgradePlan(upgradeOf(plan.Upgrade{Node: "worker-1", To: "v1.40.0",
			Replaced: true})), "upgrade.to: v1.40.0 is too many minor versions after v1.36.3, at most 3"},
		{"another major", to("v2.36.3"), "upgrade.to: v2.36.3 is too many minor versions after v1.36.3"},
		{"twice", upgradePlan(upgradeOf(worker), upgradeOf(worker)), "steps[1].upgrade.to: v1.37.0 is not later than " +
			"v1.37.0, which worker-1 has then"},
		{"twice, by a pod", upgradePlan(upgradeOf(plan.Upgrade{Ordinal: &ordinal}),
			upgradeOf(plan.Upgrade{Ordinal: &ordinal})), "steps[1].upgrade.to: v1.37.0 is not later than v1.37.0, " +
			"which the node of mysql-1 has then"},
		{"no such timeout", upgradePlan(upgradeOf(plan.Upgrade{Node: plan.UpgradeControlPlane,
			Timeouts: map[string]plan.Duration{"discovery": plan.Duration(time.Minute)}})),
			`upgrade.timeouts: no timeout of kubeadm "discovery"`},
		{"the control plane replaced", upgradePlan(upgradeOf(plan.Upgrade{Node: plan.UpgradeControlPlane,
			Replaced: true})), "upgrade.replaced: only a worker that is drained can be replaced; leave it out"},
		{"no part of a node that is replaced", upgradePlan(upgradeOf(plan.Upgrade{Node: "worker-1", Replaced: true,
			At: "node"}, load())), `upgrade.at: no part of this upgrade "node"`},
		{"a worker taken back", upgradePlan(upgradeOf(plan.Upgrade{Node: "worker-1", Back: true})),
			"upgrade.back: only the control plane is taken back"},
		{"a kubelet that is not upgraded", upgradePlan(upgradeOf(plan.Upgrade{Node: plan.UpgradeControlPlane,
			Back: true, At: "ready"}, load())), `upgrade.at: no part of this upgrade "ready"`},
		{"no time", upgradePlan(upgradeOf(plan.Upgrade{Node: plan.UpgradeControlPlane,
			Timeouts: map[string]plan.Duration{"etcdAPICall": 0}})), "upgrade.timeouts.etcdAPICall: is 0s; use at " +
			"least 1s"},
		{"timeouts of a worker", upgradePlan(upgradeOf(plan.Upgrade{Node: "worker-1",
			Timeouts: map[string]plan.Duration{"etcdAPICall": plan.Duration(time.Minute)}})),
			"upgrade.timeouts: only the upgrade of the control plane has timeouts; leave it out"},
		{"no such part", at("worker-1", "begin", load()), `upgrade.at: no part of this upgrade "begin"`},
		{"a part of the control plane", at("worker-1", "apply", load()), `upgrade.at: no part of this upgrade "apply"`},
		{"a part of workers", at(plan.UpgradeControlPlane, "node", load()),
			`upgrade.at: no part of this upgrade "node"`},
		{"no part", at("worker-1", "", load()), `upgrade.at: no part of this upgrade ""`},
		{"nothing to begin", at("worker-1", "node"), "upgrade.at: nothing begins with it; leave it out, or set during"},
		{"not drained", upgradePlan(upgradeOf(plan.Upgrade{Node: "worker-1", Undrained: true, At: "drain"}, load())),
			`upgrade.at: no part of this upgrade "drain"`},
		{"the old manifest", at(plan.UpgradeControlPlane, "apply", load(), hit("manager-stop", 0)),
			`steps[0].during: fault "manager-stop" of step 3 puts a manifest back as it was, over that of kubeadm`},
		{"a step that is none", at("worker-1", "node", plan.Step{Do: "lode", Bound: plan.Duration(time.Second)}),
			`steps[0].during[0].do: no action "lode"`},
		{"without the API", upgradePlan(together(branch(upgradeOf(worker)), branch(hit("api-server-stop", 0)))),
			"it needs the API, and step 3 may have taken the api-server away then"},
	} {
		err := c.p.Validate(upgradeCaps())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
	err := upgradePlan(upgradeOf(worker)).Validate(cannot)
	if want := `an upgrade needs "upgrade", which is not to be had here: it is yours`; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}
