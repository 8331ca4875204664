package fault

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/clusters"
)

// leaseMargin is added to the renew interval before a lease counts as silent. A kubelet on a busy machine renews late
// by 1 s or 2 s; after a failed renewal it retries within 7 s (component-helpers apimachinery/lease).
const leaseMargin = 5 * time.Second

// askEvery is the interval of requests to the API server.
const askEvery = 500 * time.Millisecond

// backBound is how long a node that is back may take to renew its lease, and then to become Ready.
const backBound = time.Minute

// SilenceBound is how long it may take until a lease counts as silent: two renew intervals and a margin for a renewal
// just before. It fits into ConfirmLimit.
const SilenceBound = 40 * time.Second

// Leases are the leases of all nodes at one time.
type Leases struct {
	At      history.Time
	Renewed map[string]time.Time // By node: the renewTime that its kubelet wrote.
	// Every is the victim's renew interval: a quarter of its lease's duration (nodeLeaseRenewIntervalFraction of the
	// kubelet).
	Every time.Duration
}

// ReadLeases reads the leases of all nodes.
func (e Env) ReadLeases(ctx context.Context) (Leases, error) {
	list, err := e.Kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, metav1.ListOptions{})
	if err != nil {
		return Leases{}, fmt.Errorf("list node leases: %w", err)
	}
	now := Leases{At: e.Clock(), Renewed: map[string]time.Time{}, Every: 10 * time.Second}
	for _, l := range list.Items {
		if l.Spec.RenewTime == nil {
			continue
		}
		now.Renewed[l.Name] = l.Spec.RenewTime.Time
		if l.Spec.LeaseDurationSeconds != nil && l.Name == e.Node.Name() {
			now.Every = time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second / 4
		}
	}
	return now, nil
}

// NoteLeases returns a step that stores the present leases in into; it returns no facts.
func (e Env) NoteLeases(into *Leases) Show {
	return func(ctx context.Context) (_ []Fact, err error) {
		*into, err = e.ReadLeases(ctx)
		return nil, err
	}
}

// LeaseSilent waits until the victim's lease was not renewed for longer than its renew interval plus a margin, while
// another node's was. Since is the reading from which on the lease should be silent.
func (e Env) LeaseSilent(since *Leases) Show {
	return func(ctx context.Context) ([]Fact, error) {
		node, begin := e.Node.Name(), *since
		if _, ok := begin.Renewed[node]; !ok {
			return nil, fmt.Errorf("node %q had no lease to begin with", node)
		}
		what := fmt.Sprintf("lease of node %q not to be renewed", node)
		last := "" // Renewal that was seen.
		return Until(ctx, what, askEvery, SilenceBound, func(ctx context.Context) ([]Fact, error) {
			now, err := e.ReadLeases(ctx)
			if err != nil {
				return nil, err
			}
			if renewed := now.Renewed[node]; !renewed.Equal(begin.Renewed[node]) {
				begin, last = now, fmt.Sprintf("it was renewed at %s; ", renewed.Format(time.StampMilli))
			}
			silent, least := now.At.Sub(begin.At), now.Every+leaseMargin
			other := renewedSince(begin, now, node)
			switch {
			case other == "":
				return nil, NotYet("%ssilent for %s of more than %s, that of no other node renewed", last,
					silent.Round(time.Second), least)
			case silent <= least:
				return nil, NotYet("%ssilent for %s of more than %s", last, silent.Round(time.Second), least)
			}
			return Seen(history.Between(begin.At, now.At),
				"the lease of node %q was not renewed for %s, that of node %q was", node,
				silent.Round(100*time.Millisecond), other), nil
		})
	}
}

// renewedSince returns the first node by name, except one, whose lease was renewed between two readings.
func renewedSince(before, after Leases, except string) string {
	for _, name := range slices.Sorted(maps.Keys(after.Renewed)) {
		if old, known := before.Renewed[name]; name != except && known && !after.Renewed[name].Equal(old) {
			return name
		}
	}
	return ""
}

// LeaseRenewed waits until the victim's lease is renewed after the reading since. If since is zero, any renewal after
// the API server's first answer counts.
func (e Env) LeaseRenewed(since *Leases, bound time.Duration) Show {
	return func(ctx context.Context) ([]Fact, error) {
		node, before := e.Node.Name(), *since
		what := fmt.Sprintf("lease of node %q to be renewed", node)
		return Until(ctx, what, askEvery, bound, func(ctx context.Context) ([]Fact, error) {
			now, err := e.ReadLeases(ctx)
			if err != nil {
				return nil, err
			}
			if before.At == 0 {
				before = now
			}
			renewed, ok := now.Renewed[node]
			if !ok || renewed.Equal(before.Renewed[node]) {
				return nil, NotYet("last renewed at %s", renewed.Format(time.StampMilli))
			}
			return Seen(history.Between(before.At, now.At), "the lease of node %q was renewed again", node), nil
		})
	}
}

// ReadNode returns the victim's Node, nil if there is none.
func (e Env) ReadNode(ctx context.Context) (*corev1.Node, error) {
	node, err := e.Kube.CoreV1().Nodes().Get(ctx, e.Node.Name(), metav1.GetOptions{})
	return Optional(fmt.Sprintf("Node %q", e.Node.Name()), node, err)
}

// NodeIsReady returns whether a Node is Ready and the condition with its reason, such as "Unknown (NodeStatusUnknown)".
func NodeIsReady(node *corev1.Node) (ready bool, text string) {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue, fmt.Sprintf("%s (%s)", c.Status, c.Reason)
		}
	}
	return false, "not said"
}

// NodeReady waits until the victim is Ready. Its condition is stale while its lease is: wait for LeaseRenewed first.
func (e Env) NodeReady(bound time.Duration) Show {
	name := e.Node.Name()
	return Await(fmt.Sprintf("node %q to be Ready", name), askEvery, bound,
		Judged(e, e.ReadNode, func(node *corev1.Node) (string, error) {
			if node == nil {
				return "", NotYet("there is no Node of that name")
			}
			if ready, text := NodeIsReady(node); !ready {
				return "", NotYet("Ready is %s", text)
			}
			return fmt.Sprintf("node %q is Ready", name), nil
		}))
}

// NodeBack waits until the victim's lease is renewed and the victim is Ready.
func (e Env) NodeBack(since *Leases) Show {
	return func(ctx context.Context) ([]Fact, error) {
		return All(ctx, e.LeaseRenewed(since, backBound), e.NodeReady(backBound))
	}
}

// Unit is the state of a systemd service.
type Unit struct {
	PID      int // Of the main process; 0 if there is none.
	Restarts int
	State    string // For example "active (running)".
}

// ReadUnit reads the state of a service from systemd on the node.
func ReadUnit(ctx context.Context, node clusters.Node, name string) (Unit, error) {
	out, err := clusters.Run(ctx, node, "systemctl", "show", name,
		"--property=MainPID,NRestarts,ActiveState,SubState")
	if err != nil {
		return Unit{}, fmt.Errorf("ask for service %q: %w", name, err)
	}
	values := map[string]string{}
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[key] = value
	}
	u := Unit{State: fmt.Sprintf("%s (%s)", values["ActiveState"], values["SubState"])}
	if u.PID, err = strconv.Atoi(values["MainPID"]); err != nil {
		return Unit{}, fmt.Errorf("ask for service %q: MainPID is %q", name, values["MainPID"])
	}
	if u.Restarts, err = strconv.Atoi(values["NRestarts"]); err != nil {
		return Unit{}, fmt.Errorf("ask for service %q: NRestarts is %q", name, values["NRestarts"])
	}
	return u, nil
}

// Running reports whether the service is active and has a main process.
func (u Unit) Running() bool { return u.PID > 0 && u.State == "active (running)" }

// unit returns a function that reads a service of the victim.
func (e Env) unit(name string) func(context.Context) (Unit, error) {
	return func(ctx context.Context) (Unit, error) { return ReadUnit(ctx, e.Node, name) }
}

// UnitActive waits until a service of the victim is running.
func (e Env) UnitActive(name string, bound time.Duration) Show {
	return Await(name+" to be active", askEvery, bound, Judged(e, e.unit(name), func(u Unit) (string, error) {
		if !u.Running() {
			return "", NotYet("%s", u.State)
		}
		return fmt.Sprintf("the %s is active with pid %d", name, u.PID), nil
	}))
}

// UnitDown checks that a service of the victim is inactive.
func (e Env) UnitDown(name string) Show {
	return Judged(e, e.unit(name), func(u Unit) (string, error) {
		if u.PID > 0 || u.State != "inactive (dead)" {
			return "", NotYet("%s is %s with pid %d", name, u.State, u.PID)
		}
		return fmt.Sprintf("%s is %s", name, u.State), nil
	})
}

// PodCIDRs returns a node's pod ranges; none if the network plugin does not set them.
func (e Env) PodCIDRs(ctx context.Context, node string) ([]netip.Prefix, error) {
	n, err := e.Kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get node %q: %w", node, err)
	}
	var out []netip.Prefix
	for _, text := range n.Spec.PodCIDRs {
		cidr, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("get node %q: pod range: %w", node, err)
		}
		out = append(out, cidr)
	}
	return out, nil
}

// KubeletPort returns the port of a node's kubelet, by its Node; kubeadm's if that does not tell.
func (e Env) KubeletPort(ctx context.Context, node string) (uint16, error) {
	n, err := e.Kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("get node %q: %w", node, err)
	}
	if port := n.Status.DaemonEndpoints.KubeletEndpoint.Port; port > 0 && port <= math.MaxUint16 {
		return uint16(port), nil
	}
	return 10250, nil
}

// APIServers returns the addresses of the API servers, by the endpoints of their Service.
func (e Env) APIServers(ctx context.Context) ([]netip.AddrPort, error) {
	list, err := e.Kube.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=kubernetes",
	})
	if err != nil {
		return nil, fmt.Errorf("list the API server's endpoints: %w", err)
	}
	var out []netip.AddrPort
	for _, slice := range list.Items {
		for _, p := range slice.Ports {
			if p.Port == nil || *p.Port <= 0 || *p.Port > math.MaxUint16 {
				continue
			}
			for _, endpoint := range slice.Endpoints {
				for _, text := range endpoint.Addresses {
					a, err := netip.ParseAddr(text)
					if err != nil {
						return nil, fmt.Errorf("list the API server's endpoints: %w", err)
					}
					out = append(out, netip.AddrPortFrom(a.Unmap(), uint16(*p.Port)))
				}
			}
		}
	}
	return out, nil
}

// APIServerPort returns the port of the API servers; kubeadm's if their Service has no endpoint.
func (e Env) APIServerPort(ctx context.Context) (uint16, error) {
	at, err := e.APIServers(ctx)
	if err != nil {
		return 0, err
	}
	if len(at) == 0 {
		return 6443, nil
	}
	return at[0].Port(), nil
}

// PIDs returns the pids of processes.
func PIDs(all ...probe.Process) []int {
	pids := make([]int, len(all))
	for i, p := range all {
		pids[i] = p.PID
	}
	return pids
}

// Again looks up the given processes on the victim, by pid.
func (e Env) Again(ctx context.Context, before ...probe.Process) (probe.Processes, error) {
	return nodeagent.On(e.Node).Processes(ctx, probe.Query{PIDs: PIDs(before...)})
}

// Gone checks that all given processes have ended. Begin is the earliest time at which they can have ended.
func (e Env) Gone(begin history.Time, old ...probe.Process) Show {
	return func(ctx context.Context) ([]Fact, error) {
		now, err := e.Again(ctx, old...)
		if err != nil {
			return nil, err
		}
		var facts []Fact
		for _, p := range old {
			if now.Lives(p) {
				return nil, NotYet("%s, pid %d, is still there", p.Name, p.PID)
			}
			facts = append(facts, Seen(history.Between(begin, now.At), "%s pid %d, started at %s, is gone", p.Name,
				p.PID, p.Start)...)
		}
		return facts, nil
	}
}

// Frozen checks that every given process exists and is stopped. A process that has ended stops the wait with an error.
func (e Env) Frozen(ctx context.Context, old ...probe.Process) (probe.Processes, error) {
	now, err := e.Again(ctx, old...)
	if err != nil {
		return now, err
	}
	for _, p := range old {
		if !now.Lives(p) {
			return now, await.Stop(fmt.Errorf("%s, pid %d, is gone: it was not just frozen", p.Name, p.PID))
		}
		if is, _ := now.Find(p.PID); !is.Frozen() {
			return now, NotYet("%s, pid %d, is in state %s, not stopped", p.Name, p.PID, is.State)
		}
	}
	return now, nil
}

// LaterBoot checks that the victim booted after the given processes were read, and that all of them are gone. Begin is
// the earliest time at which they can have ended.
func (e Env) LaterBoot(begin history.Time, before probe.Processes) Show {
	return func(ctx context.Context) ([]Fact, error) {
		now, err := e.Again(ctx, before.Processes...)
		if err != nil {
			return nil, err
		}
		if now.SameBoot(before) {
			return nil, NotYet("the first process was started at %s, as before", now.BootName())
		}
		facts := Seen(history.Between(now.PID1Start, now.At), "the node was booted at %s, the boot before at %s",
			now.BootName(), before.BootName())
		for _, p := range before.Processes {
			// On another kernel a process of the same pid and start is another one.
			if now.Boot == before.Boot && now.Lives(p) {
				return nil, NotYet("%s, pid %d of the old boot, is still there", p.Name, p.PID)
			}
			facts = append(facts, Seen(history.Between(begin, now.At),
				"%s, pid %d of the old boot, started at %s, is gone", p.Name, p.PID, p.Start)...)
		}
		return facts, nil
	}
}
