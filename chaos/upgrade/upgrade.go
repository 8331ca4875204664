// Package upgrade brings a node to another version of Kubernetes, in place, by kubeadm: what a step of a plan asks for
// (plan.Upgrade). Every part that begins and ends is recorded, so that it is known where an upgrade stood.
package upgrade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
)

const (
	// readyBound is how long a kubelet of the new version may take to say that its node is Ready.
	readyBound = 2 * time.Minute
	lookEvery  = 250 * time.Millisecond
	// said is how many lines of a command that failed are told.
	said = 12
)

// Config is the upgrade of one node.
type Config struct {
	fault.Env // Node is the one to upgrade.

	Step      plan.Step        // Its Upgrade is set.
	Stocker   clusters.Stocker // Env's Cluster.
	NodeImage string           // Of the version to upgrade to.
	// Drained drains the node, does something, and makes the node schedulable again whatever came of it.
	Drained func(ctx context.Context, during func(context.Context) error) error
	Settle  func(ctx context.Context) error // Waits until the workload is as it should be.
	Record  func(history.Span, history.Upgrade)
	// During is carried out from when the part begins that the plan names (plan.Upgrade.At), beside the upgrade.
	During func(ctx context.Context) error
}

// Run upgrades the node. On the control plane the components come first, and then the kubelet; what they are images of
// is brought to all nodes before, since the addons run everywhere.
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
			if err := c.importImages(ctx, n, dir); err != nil {
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
	if c.Node.Role() == clusters.RoleControlPlane {
		err = c.kubeadm(ctx, history.UpgradePlan, "plan", c.Step.Upgrade.To)
		if err == nil {
			err = c.kubeadm(ctx, history.UpgradeApply, "apply", "--yes", c.Step.Upgrade.To)
		}
	} else {
		err = c.kubeadm(ctx, history.UpgradeNode, "node")
	}
	if err != nil {
		return err
	}
	if err := c.emptied(ctx, func(ctx context.Context) error { return c.kubelet(ctx, dir) }); err != nil {
		return err
	}
	return c.part(ctx, history.UpgradeSettled, c.Settle)
}

// part records that a part begins and that it ends.
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

// beside carries a part out, and what the plan has begin with it. The part comes to its end whatever becomes of the
// rest, which is given up when the part fails.
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

// emptied does something while the node is drained, unless the plan leaves its pods there.
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

// kubelet replaces kubelet and kubectl, and waits until the node is Ready at the new version.
func (c Config) kubelet(ctx context.Context, dir string) error {
	err := c.part(ctx, history.UpgradeKubelet, func(ctx context.Context) error {
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
			n, err := c.Kube.CoreV1().Nodes().Get(ctx, c.Node.Name(), metav1.GetOptions{})
			if err != nil {
				return false, "", fmt.Errorf("get node: %w", err)
			}
			at, ready := n.Status.NodeInfo.KubeletVersion, false
			for _, cond := range n.Status.Conditions {
				ready = ready || cond.Type == corev1.NodeReady && cond.Status == corev1.ConditionTrue
			}
			return ready && at == c.Step.Upgrade.To, fmt.Sprintf("kubelet %s, Ready %t", at, ready), nil
		})
	})
}

// kubeadm runs kubeadm upgrade as a part. Two preflight errors are ignored, by name: CreateJob runs the image of the
// pause container with -v, which must end then, and ours goes on; SystemVerification refuses cgroup v1, which kind
// nodes on such a host have. They are given as a flag: a file with an UpgradeConfiguration would be left on the node.
func (c Config) kubeadm(ctx context.Context, part history.UpgradePart, args ...string) error {
	return c.part(ctx, part, func(ctx context.Context) error {
		argv := append([]string{"kubeadm", "upgrade"}, args...)
		return c.run(ctx, append(argv, "--ignore-preflight-errors=CreateJob,SystemVerification")...)
	})
}

// importImages gives the images to a node's container runtime; what it has already is left as it is.
func (c Config) importImages(ctx context.Context, node clusters.Node, dir string) error {
	_, err := clusters.Run(ctx, node, "ctr", "--namespace=k8s.io", "images", "import", "--all-platforms", "--no-unpack",
		path.Join(dir, "images.tar"))
	return err
}

// replace puts programs in the place of those that the node has, by rename: one that runs goes on.
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

// run runs a command on the node. The error of one that failed tells its last lines, and the log has all of them.
func (c Config) run(ctx context.Context, argv ...string) error {
	var out bytes.Buffer
	res, err := c.Node.Exec(ctx, clusters.Command{Argv: argv, Stdout: &out})
	text := strings.TrimSpace(out.String() + string(res.Stderr))
	c.Log.Info("ran on node", "node", c.Node.Name(), "argv", argv, "said", text, "err", err)
	if err == nil {
		return nil
	}
	lines := strings.Split(text, "\n")
	return fmt.Errorf("%w; it said last: %s", err, strings.Join(lines[max(0, len(lines)-said):], "; "))
}
