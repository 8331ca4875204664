package main

import (
	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/scenarios"
)

// newCertifyUpgrade runs the scenario upgrade with versions of the user's.
func newCertifyUpgrade() *cobra.Command {
	var f runFlags
	var from, to string
	cmd := &cobra.Command{
		Use:   "upgrade --to VERSION",
		Short: "Upgrade a cluster by kubeadm under MySQL load, node by node, and judge it",
		Long: `Upgrade makes a kind cluster of the version --from, with three MySQL instances that clients write to all
through, upgrades it in place to the version --to, judges the record and deletes the cluster unless --keep is given: the
control plane first, then each worker, drained by eviction. It is the scenario "upgrade".

The exit code is the verdict: 0 PASS, 1 FAIL, 2 UNKNOWN. 254: a version is not known, is not later, or skips a minor
version; nothing was touched.`,
		Example: "  seatrial certify upgrade --to " + scenarios.UpgradeTo + " --seed 42",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return badArguments("--to is missing: give the version to upgrade to, for example %s",
					scenarios.UpgradeTo)
			}
			if why, fix := plan.UpgradeRefused(from, to); why != "" {
				return badArguments("--to: %s; %s", why, fix)
			}
			seed, err := seedOrNew(f.seed)
			if err != nil {
				return err
			}
			p := plan.Make(scenarios.Upgrade(from, to), seed)
			if _, err := f.cluster.version(p); err != nil {
				return err
			}
			return f.run(cmd.Context(), p, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&from, "from", scenarios.UpgradeFrom, "version that the cluster is made with")
	cmd.Flags().StringVar(&to, "to", "", "version to upgrade to")
	return cmd
}
