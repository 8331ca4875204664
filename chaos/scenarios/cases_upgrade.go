package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

func upgradeCases() []plan.Case {
	return []plan.Case{
		{
			// kubeadm copies etcd's data with "cp -r /var/lib/etcd BACKUP" before it upgrades etcd, and back with
			// "cp -r BACKUP /var/lib/etcd" if etcd does not come up (performEtcdStaticPodUpgrade and
			// rollbackEtcdData in cmd/kubeadm/app/phases/upgrade/staticpods.go). Both targets exist, so both copies
			// land below them: member/ stays as the new etcd has left it, and the old one cannot read it.
			Name:    "k8s-65580",
			Finding: plan.Sign{Check: "etcd-rollback", Says: "the backup was copied to"},
			Summary: "etcd is frozen during kubeadm upgrade apply, after it has raised the version of its data: " +
				"kubeadm says that it rolled the data back, the backup lies beside it, and no etcd comes up.",
			Build: func(*rand.Rand) plan.Plan {
				frozen := Fault("etcd-freeze", 0, 3*time.Minute, 15*time.Minute)
				frozen.Fault.Params = plan.Params{"upgraded": true}
				// With kubeadm's defaults of 5 min and 2 min it would take longer, and, as read, do the same.
				timeouts := map[string]plan.Duration{
					"upgradeManifests": plan.Duration(90 * time.Second), "etcdAPICall": plan.Duration(time.Second),
				}
				p := Trial(Light(1), plan.Step{
					Do: plan.ActionUpgrade, Bound: plan.Duration(20 * time.Minute), During: []plan.Step{frozen},
					Upgrade: &plan.Upgrade{
						To: UpgradeTo, Node: plan.UpgradeControlPlane, At: "apply", Timeouts: timeouts,
					},
				})
				p.Workers, p.Kubernetes = 1, UpgradeFrom
				p.Bounds.Settle = plan.Duration(20 * time.Second) // The control plane may not come back.
				return p
			},
			Report:   "kubernetes/kubernetes issue 65580",
			Affected: "kubeadm v1.37.0, where etcd's minor version changes; v1.34 to v1.36 have the same code, as read",
		},
	}
}
