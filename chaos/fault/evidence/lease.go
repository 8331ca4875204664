package evidence

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
)

// leaseNamespace is where kubelets keep their leases.
const leaseNamespace = "kube-node-lease"

// leaseMargin is how much longer than its renew interval a lease must be silent. A kubelet on a busy machine renews
// late by a second or two; one whose renewal failed tries again within 7 s (component-helpers apimachinery/lease).
const leaseMargin = 5 * time.Second

// look is how often the API server is asked.
const look = 500 * time.Millisecond

// Leases is the leases of all nodes at one moment.
type Leases struct {
	At      history.Time
	Renewed map[string]time.Time // By node: the renewTime that its kubelet wrote.
	// Every is the renew interval: a quarter of the lease's duration (kubelet's nodeLeaseRenewIntervalFraction).
	Every time.Duration
}

// ReadLeases reads the leases of all nodes.
func ReadLeases(ctx context.Context, env fault.Env) (Leases, error) {
	list, err := env.Kube.CoordinationV1().Leases(leaseNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return Leases{}, fmt.Errorf("list node leases: %w", err)
	}
	now := Leases{At: env.Clock(), Renewed: map[string]time.Time{}, Every: 10 * time.Second}
	for _, l := range list.Items {
		if l.Spec.RenewTime == nil {
			continue
		}
		now.Renewed[l.Name] = l.Spec.RenewTime.Time
		if l.Spec.LeaseDurationSeconds != nil {
			now.Every = time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second / 4
		}
	}
	return now, nil
}

// LeaseSilent waits until the node's lease was not renewed for longer than its renew interval and a margin, while
// that of another node was. Since is when the lease is first expected to be silent.
func LeaseSilent(ctx context.Context, env fault.Env, since Leases, bound time.Duration) (fault.Fact, error) {
	node := env.Node.Name()
	if _, ok := since.Renewed[node]; !ok {
		return fault.Fact{}, fmt.Errorf("node %q had no lease to begin with", node)
	}
	begin := since
	var fact fault.Fact
	what := fmt.Sprintf("lease of node %q not to be renewed", node)
	err := await.Until(ctx, what, look, bound, func(ctx context.Context) (bool, string, error) {
		now, err := ReadLeases(ctx, env)
		if err != nil {
			return false, "", err
		}
		if renewed := now.Renewed[node]; !renewed.Equal(begin.Renewed[node]) {
			state := fmt.Sprintf("it was renewed at %s", renewed.Format(time.StampMilli))
			begin = now
			return false, state, nil
		}
		silent := now.At.Sub(begin.At)
		other := renewedSince(begin, now, node)
		state := fmt.Sprintf("silent for %s of more than %s", silent.Round(time.Second), now.Every+leaseMargin)
		if other == "" {
			return false, state + ", that of no other node renewed", nil
		}
		if silent <= now.Every+leaseMargin {
			return false, state, nil
		}
		fact = fault.Fact{Span: history.Between(begin.At, now.At), Sentence: fmt.Sprintf(
			"the lease of node %q was not renewed for %s, that of node %q was",
			node, silent.Round(100*time.Millisecond), other)}
		return true, "", nil
	})
	return fact, err
}

// renewedSince returns the first node but one, by name, whose lease was renewed between two readings.
func renewedSince(before, after Leases, but string) string {
	first := ""
	for name, renewed := range after.Renewed {
		old, known := before.Renewed[name]
		if name != but && known && !renewed.Equal(old) && (first == "" || name < first) {
			first = name
		}
	}
	return first
}

// LeaseRenewed waits until the node's lease is renewed after since was read. When since is zero, nothing was read yet:
// whatever is renewed after the first answer of the API server is good enough.
func LeaseRenewed(ctx context.Context, env fault.Env, since Leases, bound time.Duration) (fault.Fact, error) {
	node := env.Node.Name()
	var fact fault.Fact
	what := fmt.Sprintf("lease of node %q to be renewed", node)
	err := await.Until(ctx, what, look, bound, func(ctx context.Context) (bool, string, error) {
		now, err := ReadLeases(ctx, env)
		if err != nil {
			return false, "", err
		}
		if since.At == 0 {
			since = now
		}
		renewed, ok := now.Renewed[node]
		if !ok || renewed.Equal(since.Renewed[node]) {
			return false, fmt.Sprintf("last renewed at %s", renewed.Format(time.StampMilli)), nil
		}
		fact = fault.Fact{Span: history.Between(since.At, now.At),
			Sentence: fmt.Sprintf("the lease of node %q was renewed again", node)}
		return true, "", nil
	})
	return fact, err
}
