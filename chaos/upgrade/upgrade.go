// Package upgrade upgrades a node to another Kubernetes version in place with kubeadm (plan.Upgrade). It records the
// begin and end of every part.
package upgrade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/yaml"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
)

const (
	// readyBound is how long a node may take to be Ready at the new version.
	readyBound = 2 * time.Minute
	lookEvery  = 250 * time.Millisecond
	// lastLines is how many lines of a failed command its error holds.
	lastLines = 12
	// ignored are the errors of kubeadm's preflight checks that do not stop it.
	ignored = "CreateJob,SystemVerification"
)

// Config is the upgrade of one node.
type Config struct {
	fault.Env // Node is the one to upgrade.

	Step      plan.Step        // Its Upgrade is set.
	Stocker   clusters.Stocker // Env's Cluster.
	NodeImage string           // Of the version to upgrade to.
	// Drained drains the node, does something, and makes the node schedulable again whatever came of it.
	Drained func(ctx context.Context, during func(context.Context) error) error
	Settle  func(ctx context.Context) error // Waits until the workload has converged.
	Record  func(history.Span, history.Upgrade)
	// RecordEtcd gets what is left of etcd's data when kubeadm fails to upgrade the control plane.
	RecordEtcd func(history.Span, history.EtcdData)
	// Version asks the API server for its version.
	Version func(ctx context.Context) (version.Info, error)
	// During runs beside the upgrade, from the begin of the part that the plan names (plan.Upgrade.At).
	During func(ctx context.Context) error
}

// Run upgrades the node: on the control plane first the components, then the kubelet. It imports the images on all
// nodes before, since addons run everywhere.
func (c Config) Run(ctx context.Context) error {
	nodes, err := c.Stocker.Nodes(ctx)
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	var dir string
	err = c.part(ctx, history.UpgradeStock, func(ctx context.Context) error {
		if dir, err = c.Stocker.Stock(ctx, c.NodeImage); err != nil || c.Node.Role() == clusters.RoleWorker {
			return err
		}
		for _, n := range nodes {
			_, err := clusters.Run(ctx, n, "ctr", "--namespace=k8s.io", "images", "import", "--all-platforms",
				"--no-unpack", path.Join(dir, "images.tar"))
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = c.part(ctx, history.UpgradeKubeadm, func(ctx context.Context) error {
		return c.replace(ctx, dir, "kubeadm")
	})
	if err != nil {
		return err
	}
	var former map[string]string
	if c.Step.Upgrade.Back {
		if former, err = c.manifests(ctx); err != nil {
			return err
		}
	}
	switch {
	case c.Node.Role() == clusters.RoleControlPlane:
		err = c.kubeadm(ctx, history.UpgradePlan, "plan", c.Step.Upgrade.To)
		if err == nil {
			err = c.kubeadm(ctx, history.UpgradeApply, c.apply()...)
		}
	case !c.Step.Upgrade.Replaced:
		err = c.kubeadm(ctx, history.UpgradeNode, "node")
	}
	if err != nil {
		return err
	}
	if c.Step.Upgrade.Back {
		if err := c.back(ctx, former); err != nil {
			return err
		}
		return c.part(ctx, history.UpgradeSettled, c.Settle)
	}
	if err := c.emptied(ctx, func(ctx context.Context) error { return c.kubelet(ctx, dir, nodes) }); err != nil {
		return err
	}
	return c.part(ctx, history.UpgradeSettled, c.Settle)
}

// apply is kubeadm's upgrade of the control plane. What it will be taken back from stays as it is: kube-proxy, for one,
// must not be newer than the API server.
func (c Config) apply() []string {
	args := []string{"apply", "--yes", c.Step.Upgrade.To}
	if c.Step.Upgrade.Back {
		args = append(args, "--skip-phases=upload-config,kubelet-config,bootstrap-token,addon,post-upgrade")
	}
	return args
}

// part carries a part out and records its begin and end.
func (c Config) part(ctx context.Context, part history.UpgradePart, do func(context.Context) error) error {
	u := history.Upgrade{Step: c.Step.N, Node: c.Node.Name(), Part: part, To: c.Step.Upgrade.To}
	begin := c.Clock()
	c.Record(history.At(begin), u)
	err := c.beside(ctx, part, do)
	if err != nil {
		err = fmt.Errorf("upgrade node %q to %s: %s: %w", u.Node, u.To, part, err)
		u.Error = err.Error()
	}
	u.End = true
	end := c.Clock()
	c.Record(history.At(end), u)
	c.Log.Info("upgrade", "node", u.Node, "part", part, "took", end.Sub(begin), "err", u.Error)
	return err
}

// beside carries a part out, beside During if the plan names the part. During is cancelled if the part fails; the part
// goes on if During fails.
func (c Config) beside(ctx context.Context, part history.UpgradePart, do func(context.Context) error) error {
	if string(part) != c.Step.Upgrade.At {
		return do(ctx)
	}
	within, end := context.WithCancelCause(ctx)
	defer end(nil)
	ended := make(chan error, 1)
	go func() { ended <- c.During(within) }()
	err := do(ctx)
	if err != nil {
		end(fmt.Errorf("the upgrade failed: %w", err))
	}
	return errors.Join(err, <-ended)
}

// emptied calls during while the node is drained, unless the plan leaves its pods there.
func (c Config) emptied(ctx context.Context, during func(context.Context) error) error {
	if c.Step.Upgrade.Undrained {
		return during(ctx)
	}
	var inner error
	err := c.part(ctx, history.UpgradeDrain, func(ctx context.Context) error {
		return c.Drained(ctx, func(ctx context.Context) error {
			inner = during(ctx)
			return inner
		})
	})
	if inner != nil {
		return inner // It names the part that failed.
	}
	return err
}

// kubelet replaces kubelet and kubectl, or the whole node, and waits until it is Ready at the new version.
func (c Config) kubelet(ctx context.Context, dir string, nodes []clusters.Node) error {
	err := c.part(ctx, history.UpgradeKubelet, func(ctx context.Context) error {
		if c.Step.Upgrade.Replaced {
			return c.rejoin(ctx, dir, nodes)
		}
		if err := c.replace(ctx, dir, "kubelet", "kubectl"); err != nil {
			return err
		}
		if err := c.run(ctx, "systemctl", "daemon-reload"); err != nil {
			return err
		}
		return c.run(ctx, "systemctl", "restart", "kubelet")
	})
	if err != nil {
		return err
	}
	return c.part(ctx, history.UpgradeReady, func(ctx context.Context) error {
		what := fmt.Sprintf("node %q to be Ready at %s", c.Node.Name(), c.Step.Upgrade.To)
		return await.Until(ctx, what, lookEvery, readyBound, func(ctx context.Context) (bool, string, error) {
			n, err := c.ReadNode(ctx)
			if n == nil {
				return false, "there is no such Node", err
			}
			at := n.Status.NodeInfo.KubeletVersion
			ready, _ := fault.NodeIsReady(n)
			return ready && at == c.Step.Upgrade.To, fmt.Sprintf("kubelet %s, Ready %t", at, ready), nil
		})
	})
}

// kubeadm runs kubeadm upgrade as a part. It ignores the preflight error SystemVerification, which refuses cgroup v1,
// as kind nodes on such a host have. The configuration comes from standard input, so that no file is left on the node.
func (c Config) kubeadm(ctx context.Context, part history.UpgradePart, args ...string) error {
	return c.part(ctx, part, func(ctx context.Context) error {
		cmd := clusters.Command{Argv: append([]string{"kubeadm", "upgrade"}, args...)}
		cmd.Argv = append(cmd.Argv, "--ignore-preflight-errors="+ignored)
		if part == history.UpgradeApply && len(c.Step.Upgrade.Timeouts) > 0 {
			config, err := yaml.Marshal(map[string]any{
				"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "UpgradeConfiguration",
				"apply":    map[string]any{"kubernetesVersion": c.Step.Upgrade.To},
				"timeouts": c.Step.Upgrade.Timeouts,
			})
			if err != nil {
				return fmt.Errorf("encode kubeadm's configuration: %w", err)
			}
			cmd.Argv, cmd.Stdin = append(cmd.Argv, "--config=/dev/stdin"), bytes.NewReader(config)
		}
		text, err := c.said(ctx, cmd)
		if err != nil && part == history.UpgradeApply {
			c.lookAtEtcd(ctx, text)
		}
		return err
	})
}

// replace replaces programs of the node by rename, so that running ones go on.
func (c Config) replace(ctx context.Context, dir string, programs ...string) error {
	for _, name := range programs {
		at := path.Join("/usr/bin", name)
		if err := c.run(ctx, "cp", path.Join(dir, name), at+".new"); err != nil {
			return err
		}
		if err := c.run(ctx, "mv", at+".new", at); err != nil {
			return err
		}
	}
	return nil
}

// run runs a command on the node and logs its output. An error holds the last lines.
func (c Config) run(ctx context.Context, argv ...string) error {
	_, err := c.said(ctx, clusters.Command{Argv: argv})
	return err
}

// said is run for a command that may have input. It returns the command's output too.
func (c Config) said(ctx context.Context, cmd clusters.Command) (string, error) {
	var out bytes.Buffer
	cmd.Stdout = &out
	res, err := c.Node.Exec(ctx, cmd)
	text := strings.TrimSpace(out.String() + string(res.Stderr))
	c.Log.Info("ran on node", "node", c.Node.Name(), "argv", cmd.Argv, "said", text, "err", err)
	if err == nil {
		return text, nil
	}
	lines := strings.Split(text, "\n")
	return text, fmt.Errorf("%w; it said last: %s", err, strings.Join(lines[max(0, len(lines)-lastLines):], "; "))
}
