package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/scenarios"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/e2e/certify/audit"
	"github.com/seatrial/seatrial/e2e/certify/reader"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/trial"
)

// secondLook is how long after the first audit the cluster is read again if objects disagree that do not change at one
// moment: on a busy cluster they agree by then.
const secondLook = 15 * time.Second

func newCertify() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "certify",
		Short: "Audit a cluster before an upgrade, certify it, make a twin of it, or upgrade a kind cluster under load",
		Args:  unknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAudit(), newCertifyRun(), newTwin(), newCertifyUpgrade())
	return cmd
}

type auditFlags struct {
	access     accessFlags
	to, output string
	role, pods bool
	yes        string // The context on whose nodes pods may be put.
	again      time.Duration
}

func newAudit() *cobra.Command {
	f := auditFlags{again: secondLook}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Find what endangers data when a cluster is upgraded; writes nothing without --with-pod",
		Long: fmt.Sprintf(`Audit finds what endangers the data of a cluster, and what an upgrade by one minor version
changes. Without --kubeconfig and --context it reads the cluster of the current context. It sends GET requests only, at
most %d per second, and reads no Secret. Mounts and kubelets are read only with --with-pod, which puts a privileged pod
on each node while the audit runs; without it they are listed as not read, and the exit code is not 0.

Exit codes: 0 nothing dangerous, 1 danger, 2 no danger but not everything could be read, 254 bad arguments, 255 the
cluster could not be read.`, reader.QPS),
		Example: "  seatrial certify audit\n  seatrial certify audit --context prod --to v1.37 -o markdown\n" +
			"  seatrial certify audit --rbac | kubectl apply -f -",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkTarget(f.to); err != nil {
				return err
			}
			if f.role {
				return reader.WriteRole(cmd.OutOrStdout())
			}
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.access.register(cmd)
	cmd.Flags().BoolVar(&f.pods, "with-pod", false, "read the nodes too, through a pod on each; requires --yes-context")
	cmd.Flags().StringVar(&f.yes, "yes-context", "", "let --with-pod put pods on the cluster of this context")
	cmd.Flags().StringVar(&f.to, "to", "", "minor version to upgrade to, for example v1.37 (default: the next one)")
	outputFlag(cmd, &f.output, "rules with findings", "markdown")
	cmd.Flags().BoolVar(&f.role, "rbac", false, "print the ClusterRole that the audit needs; reads no cluster")
	return cmd
}

// checkTarget refuses a version that no cluster can be upgraded to; "" is the next one.
func checkTarget(to string) error {
	if _, err := audit.ParseTarget(to); to != "" && err != nil {
		return badArguments("--to: %w", err)
	}
	return nil
}

func (f *auditFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	begun := time.Now()
	r, access, name, err := f.access.read(ctx, "audit", stderr)
	if err != nil {
		return err
	}
	upgrade, err := audit.ParseUpgrade(r.Version, f.to)
	if err != nil {
		if f.to == "" {
			return fmt.Errorf("audit the cluster of context %q: %w", name, err)
		}
		return badArguments("--to: %w", err)
	}
	read := r.Read
	if f.pods {
		if err := confirmed(f.yes, name, "look at the nodes of"); err != nil {
			return err
		}
		cluster, err := trial.OpenExisting(ctx, access, name)
		if err != nil {
			return err
		}
		defer func() {
			if err := cluster.Close(context.WithoutCancel(ctx)); err != nil {
				say(stderr, "could not take the pods away: %v; `seatrial clean --context %s` tries again", err, name)
			}
		}()
		read = withNodes(r, cluster)
	}
	_, found, err := look(ctx, read, upgrade, f.again, stderr)
	if err != nil {
		return err
	}
	say(stderr, "read with %d GET requests in %s, at most %d a second", r.Requests(),
		time.Since(begun).Round(100*time.Millisecond), reader.QPS)
	if err := writeAudit(stdout, found, f.output); err != nil {
		return err
	}
	return verdictExit(found.Verdict)
}

func withNodes(r *reader.Reader, cluster clusters.Cluster) func(context.Context) (audit.Cluster, error) {
	return func(ctx context.Context) (audit.Cluster, error) {
		c, err := r.Read(ctx)
		if err != nil {
			return c, err
		}
		nodes, err := cluster.Nodes(ctx)
		if err != nil {
			return c, fmt.Errorf("look at the nodes: %w", err)
		}
		r.ReadNodes(ctx, nodes, &c)
		return c, nil
	}
}

// look reads and audits the cluster, and again some time later if a finding of the first audit may be gone then.
func look(
	ctx context.Context, read func(context.Context) (audit.Cluster, error), upgrade audit.Upgrade, again time.Duration,
	stderr io.Writer,
) (audit.Cluster, audit.Report, error) {
	cluster, err := read(ctx)
	if err != nil {
		return cluster, audit.Report{}, err
	}
	first := audit.Audit(cluster, upgrade)
	if !first.Moving() {
		return cluster, first, nil
	}
	say(stderr, "pods, attachments and nodes disagree; reading again in %s to see whether that lasts", again)
	if err := await.For(ctx, again); err != nil {
		return cluster, audit.Report{}, err
	}
	if cluster, err = read(ctx); err != nil {
		return cluster, audit.Report{}, err
	}
	return cluster, audit.Confirm(first, audit.Audit(cluster, upgrade)), nil
}

func writeAudit(w io.Writer, found audit.Report, output string) error {
	if output == "markdown" {
		return report.WriteAuditMarkdown(w, found)
	}
	var rules []string
	for _, f := range found.Findings {
		if !slices.Contains(rules, f.Rule) {
			rules = append(rules, f.Rule)
		}
	}
	return writeAs(w, output, found, rules, func() error { return report.WriteAudit(w, found) })
}

// newCertifyUpgrade runs the scenario upgrade with versions of the user's.
func newCertifyUpgrade() *cobra.Command {
	var f runFlags
	var from, to string
	cmd := &cobra.Command{
		Use:   "upgrade --to VERSION",
		Short: "Upgrade a kind cluster by kubeadm under MySQL load, node by node, and judge it",
		Long: `Upgrade makes a kind cluster of the version --from with three MySQL instances, upgrades it in place to
the version --to while clients write, and judges the record: the control plane first, then each worker, drained by
eviction. The cluster is deleted unless --keep is given. It is the scenario "upgrade". A cluster that --kubeconfig or
--context names cannot be upgraded and is refused.

The exit code is the verdict: 0 PASS, 1 FAIL, 2 UNKNOWN. It is 254, and nothing was touched, if --to is unknown, is not
later than --from, or skips a minor version.`,
		Example: "  seatrial certify upgrade --to " + scenarios.UpgradeTo + " --seed 42",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return badArguments("--to is missing: give the version to upgrade to, for example %s",
					scenarios.UpgradeTo)
			}
			if why, fix := plan.UpgradeRefused(from, to, plan.MinorsInPlace); why != "" {
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
	seedFlag(cmd, &f.seed)
	cmd.Flags().StringVar(&from, "from", scenarios.UpgradeFrom, "version that the cluster is made with")
	cmd.Flags().StringVar(&to, "to", "", "version to upgrade to")
	return cmd
}
