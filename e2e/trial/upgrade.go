package trial

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/upgrade"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// upgrade carries out a step that upgrades a node, and the steps during it.
func (c *runner) upgrade(ctx context.Context, s plan.Step, in enclosing) error {
	stocker, ok := c.Cluster.(clusters.Stocker)
	image := c.nodeImages[s.Upgrade.To]
	if !ok || image == "" {
		return fmt.Errorf("carry out step %d: cluster %q has no node image of %s to take programs from", s.N,
			c.Cluster.Name(), s.Upgrade.To)
	}
	within, err := c.enclose(ctx)
	if err != nil {
		return err
	}
	within.open = in.open // Faults outlast the enclosing fault, not this step.
	node, err := c.toUpgrade(ctx, s, within)
	if err != nil {
		return fmt.Errorf("carry out step %d: %w", s.N, err)
	}
	env := fault.Env{
		Cluster: c.Cluster, Kube: c.kube, Node: node, Namespace: c.namespace(), RunID: c.RunID,
		Clock: bootclock.Now, Log: c.log.With("step", s.N), Watchdog: c.Watchdog,
	}
	return upgrade.Config{
		Env: env, Step: s, Stocker: stocker, NodeImage: image,
		Drained: func(ctx context.Context, during func(context.Context) error) error {
			return c.drained(ctx, s, env, during)
		},
		Settle:  func(ctx context.Context) error { return c.workload.Converge(ctx, s.Bound.D()) },
		Version: func(ctx context.Context) (version.Info, error) { return serverVersion(ctx, c.kube) },
		During:  func(ctx context.Context) error { return c.inOrder(ctx, s.During, within) },
		RecordEtcd: func(span history.Span, d history.EtcdData) {
			c.record(history.KindEtcdData, span, func(e *history.Event) { e.EtcdData = &d })
		},
		Record: func(span history.Span, u history.Upgrade) {
			c.record(history.KindUpgrade, span, func(e *history.Event) { e.Upgrade = &u })
			if !u.End {
				fmt.Fprintf(c.Progress, "%8s    %s: %s\n", c.sinceBegin(span.NotAfter), u.Node, u.Part)
			}
		},
	}.Run(ctx)
}

func (c *runner) toUpgrade(ctx context.Context, s plan.Step, in enclosing) (clusters.Node, error) {
	if s.Upgrade.Ordinal != nil {
		return c.victim(ctx, c.podName(*s.Upgrade.Ordinal), in)
	}
	worker, _ := s.Upgrade.Worker()
	if worker == 0 {
		return c.nodes[0], nil // Of the control plane.
	}
	workers := slices.DeleteFunc(slices.Clone(c.nodes), func(n clusters.Node) bool {
		return n.Role() != clusters.RoleWorker
	})
	if worker > len(workers) {
		return nil, fmt.Errorf("cluster %q has %d workers", c.Cluster.Name(), len(workers))
	}
	return workers[worker-1], nil
}

// drainLimit is how long a drain may take within an upgrade: a pod such as CoreDNS may use its grace of 30 s on a busy
// node after the others.
const drainLimit = 4 * time.Minute

// uncordonLimit is how long the API server may refuse to uncordon: the new kubelet of a control plane starts it again,
// and until it has read the roles it forbids everything.
const uncordonLimit = 2 * time.Minute

// drained runs a function while a node is drained. The drain is a fault: the node is made schedulable again even if the
// harness is killed. A node without pods to evict is cordoned.
func (c *runner) drained(
	ctx context.Context, s plan.Step, env fault.Env, during func(context.Context) error,
) error {
	pods, err := env.Evictable(ctx)
	if err != nil {
		return err
	}
	def := drain(len(pods) > 0)
	s.Fault = &plan.Fault{Name: def.Name, Hold: plan.Duration(time.Millisecond), Life: s.Bound}
	g, release, err := c.guard(def, fault.Config{
		Step: s, Env: env, During: during, Limits: fault.Limits{Confirm: drainLimit, Heal: uncordonLimit},
	})
	if err != nil {
		return err
	}
	defer release()
	return g.Run(ctx)
}

// How often the API server is asked for its version, and how long one answer may take.
const (
	versionEvery = time.Second
	versionBound = 5 * time.Second
)

// watchVersion records the version that the API server reports, until stop is called. Nothing is recorded while it does
// not answer: other observers record its absence.
func (c *runner) watchVersion(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			begin := bootclock.Now()
			is, err := serverVersion(ctx, c.kube)
			if err != nil {
				return
			}
			c.record(history.KindVersion, history.Between(begin, bootclock.Now()), func(e *history.Event) {
				e.Version = &history.Version{Component: history.ComponentAPIServer, Version: is.GitVersion}
			})
		}, versionEvery)
	})
	return func() { cancel(); group.Wait() }
}

func serverVersion(ctx context.Context, kube kubernetes.Interface) (version.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, versionBound)
	defer cancel()
	var info version.Info
	raw, err := kube.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx)
	if err == nil {
		err = json.Unmarshal(raw, &info)
	}
	if err != nil {
		return info, fmt.Errorf("ask the API server for its version: %w", err)
	}
	return info, nil
}
