package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/clusters"
)

// victim is one process of a component.
type victim struct {
	node clusters.Node
	probe.Process
}

// String names it.
func (v victim) String() string { return fmt.Sprintf("pid %d on node %q", v.PID, v.node.Name()) }

func (v victim) is(o victim) bool {
	return v.node.Name() == o.node.Name() && v.PID == o.PID && v.Start == o.Start
}

// victims are the processes of a component on all nodes of the control plane: what kill, freeze and stop have in
// common.
type victims struct {
	fault.Env
	of    component
	old   []victim            // The processes before the act.
	heard map[string][]string // By node: the URLs that answered then.
}

// now returns the processes that there are.
func (v *victims) now(ctx context.Context) ([]victim, error) {
	var all []victim
	err := eachControlNode(ctx, v.Env, func(n clusters.Node) error {
		found, err := v.of.processes(ctx, n)
		for _, p := range found {
			all = append(all, victim{n, p})
		}
		return err
	})
	return all, err
}

// note records the processes and their health endpoints before the act. A component that is not at work is an error:
// its absence could not be shown.
func (v *victims) note(ctx context.Context) error {
	found, err := v.now(ctx)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("%s does not run on any node of the control plane: start it first", v.of.name)
	}
	v.heard = map[string][]string{}
	for _, p := range found {
		if p.Frozen() {
			return fmt.Errorf("%s %s is frozen already: let it go on first", v.of.name, p)
		}
		answers, err := v.of.health(ctx, p.node)
		if err != nil {
			return err
		}
		var heard []string
		for _, url := range v.of.urls() {
			if answers[url] != 0 {
				heard = append(heard, url)
			}
		}
		if len(heard) == 0 {
			return fmt.Errorf("%s %s does not tell its health at any of %s: its silence could not be shown", v.of.name,
				p, strings.Join(v.of.urls(), ", "))
		}
		v.heard[p.node.Name()] = heard
	}
	if v.of.serves {
		if err := v.request(ctx); err != nil {
			return fmt.Errorf("a request to the API server is not answered before anything was done: %w", err)
		}
	}
	v.old = found
	return nil
}

// request asks the API server for something that is in etcd.
func (v *victims) request(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, requestBound, fmt.Errorf("no answer within %s", requestBound))
	defer cancel()
	_, err := readLeadership(ctx, v.Kube, manager)
	if err != nil && ctx.Err() != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return err
}

// among returns the first of some processes that is one of the victims.
func (v *victims) among(some []victim) (victim, bool) {
	i := slices.IndexFunc(some, func(p victim) bool { return slices.ContainsFunc(v.old, p.is) })
	if i < 0 {
		return victim{}, false
	}
	return some[i], true
}

// each returns a fact about each victim.
func (v *victims) each(span history.Span, what string) []fault.Fact {
	facts := make([]fault.Fact, len(v.old))
	for i, p := range v.old {
		facts[i] = fault.Fact{Span: span, Sentence: fmt.Sprintf("%s pid %d, started at %s, on node %q %s", v.of.name,
			p.PID, p.Start, p.node.Name(), what)}
	}
	return facts
}

// missing waits until the look succeeds, the health endpoints are silent, and the component is missed.
func (v *victims) missing(ctx context.Context, what string, bound time.Duration, look fault.Show) ([]fault.Fact,
	error) {
	missed := v.leaderless
	if v.of.serves {
		missed = v.unanswered
	}
	return fault.All(ctx, fault.Await(what, 200*time.Millisecond, bound, look), v.quiet, missed)
}

const quietBound = 20 * time.Second

// quiet waits until no health endpoint answers that did before.
func (v *victims) quiet(ctx context.Context) ([]fault.Fact, error) {
	return fault.Until(ctx, v.of.name+" not to tell its health", 200*time.Millisecond, quietBound,
		func(ctx context.Context) (facts []fault.Fact, err error) {
			for _, n := range v.nodes() {
				begin := v.Clock()
				answers, err := v.of.health(ctx, n)
				if err != nil {
					return nil, err
				}
				heard := v.heard[n.Name()]
				for _, url := range heard {
					if answers[url] != 0 {
						return nil, fault.NotYet("%s answers %d on node %q", url, answers[url], n.Name())
					}
				}
				facts = append(facts, v.Saw(begin, "nothing answers on node %q at %s", n.Name(),
					strings.Join(heard, ", "))...)
			}
			return facts, nil
		})
}

// nodes returns the nodes of the victims of before, each once.
func (v *victims) nodes() []clusters.Node {
	var all []clusters.Node
	for _, p := range v.old {
		if !slices.ContainsFunc(all, func(n clusters.Node) bool { return n.Name() == p.node.Name() }) {
			all = append(all, p.node)
		}
	}
	return all
}

const unansweredBound = 25 * time.Second

// unanswered waits until the API server answers no request of the harness.
func (v *victims) unanswered(ctx context.Context) ([]fault.Fact, error) {
	return fault.Until(ctx, "a request to the API server not to be answered", 200*time.Millisecond, unansweredBound,
		func(ctx context.Context) ([]fault.Fact, error) {
			begin := v.Clock()
			failure := v.request(ctx)
			switch {
			case failure == nil:
				return nil, fault.NotYet("the last was answered")
			case ctx.Err() != nil:
				return nil, failure
			case refusal(failure):
				return nil, fault.NotYet("the last was answered: %.300s", failure)
			}
			return v.Saw(begin, "the API server did not answer a request: %.300s", failure), nil
		})
}

// refusal reports whether an error is the answer of an API server at work, which looked and says no. An answer that it
// cannot look is none.
func refusal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusTooManyRequests
}

const (
	// leaderSilence is three times as long as a leader takes to renew its lease.
	leaderSilence   = 3 * lookEvery
	leaderlessBound = 25 * time.Second
)

// leaderless waits until the component's lease was not renewed for some time.
func (v *victims) leaderless(ctx context.Context) ([]fault.Fact, error) {
	var last leadership
	since := v.Clock()
	what := fmt.Sprintf("the lease of %s not to be renewed", v.of.name)
	return fault.Until(ctx, what, lookEvery/2, leaderlessBound, func(ctx context.Context) ([]fault.Fact, error) {
		begin := v.Clock()
		now, err := readLeadership(ctx, v.Kube, v.of.name)
		if err != nil {
			return nil, err
		}
		if !now.renewed.Equal(last.renewed) {
			last, since = now, v.Clock()
		}
		silent := begin.Sub(since) // Both readings bound it from within.
		if silent <= leaderSilence {
			return nil, fault.NotYet("silent for %s of more than %s", silent.Round(100*time.Millisecond),
				leaderSilence)
		}
		return v.Saw(since, "the lease %s/%s of %q was not renewed for %s", managerNamespace, v.of.name, now.holder,
			silent.Round(100*time.Millisecond)), nil
	})
}

// The bounds of what is to be shown after the heal. The kubelet makes a container wait that has ended several times
// within ten minutes, 80 s after the fourth time, and those that lead end when they cannot renew their leases.
const (
	backBound    = 150 * time.Second
	kubeletBound = 25 * time.Second // It renews every 10 s, and tries again after at most 7 s.
	renewals     = 2                // One that was let go on may renew its lease once before it finds that it is over.
)

// ConfirmHealed shows that the component runs on every node and is healthy, that requests are answered, and that the
// leases that depend on it are renewed.
func (v *victims) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	shows := []fault.Show{func(ctx context.Context) ([]fault.Fact, error) {
		return v.atWork(ctx, v.of.name+" to be at work", backBound, renewals, v.onNodes(v.well))
	}}
	if v.of.serves {
		var read fault.Leases
		shows = append(shows, v.NoteLeases(&read), v.LeaseRenewed(&read, kubeletBound))
	}
	return fault.All(ctx, shows...)
}

// running looks at the processes of a component and returns those of now, with what they show.
type running func(ctx context.Context) (now []victim, facts []fault.Fact, err error)

// onNodes looks at the processes on every node of the control plane. Each must run one; judge says what they show.
func (v *victims) onNodes(judge func(ctx context.Context, n clusters.Node, found []probe.Process) ([]string, error),
) running {
	return func(ctx context.Context) (now []victim, facts []fault.Fact, err error) {
		nodes, err := v.ControlPlane(ctx)
		if err != nil {
			return nil, nil, err
		}
		for _, n := range nodes {
			begin := v.Clock()
			found, err := v.of.processes(ctx, n)
			if err == nil && len(found) == 0 {
				err = fault.NotYet("no %s runs on node %q", v.of.name, n.Name())
			}
			if err != nil {
				return nil, nil, err
			}
			sentences, err := judge(ctx, n, found)
			if err != nil {
				return nil, nil, err
			}
			for _, p := range found {
				now = append(now, victim{n, p})
			}
			for _, sentence := range sentences {
				facts = append(facts, v.Saw(begin, "%s", sentence)...)
			}
		}
		return now, facts, nil
	}
}

// atWork waits until the processes are as wanted, and until the leases that depend on them were renewed so many times
// meanwhile. Renewals count from when only the processes of now were there: the last one of an old process does not.
func (v *victims) atWork(ctx context.Context, what string, bound time.Duration, times int, look running) (
	[]fault.Fact, error,
) {
	var seen []victim
	var leases map[string]leadership
	var since history.Time
	return fault.Until(ctx, what, lookEvery/2, bound, func(ctx context.Context) ([]fault.Fact, error) {
		begin := v.Clock()
		now, shown, err := look(ctx)
		if err != nil {
			seen = nil
			return nil, err
		}
		if !slices.EqualFunc(seen, now, victim.is) {
			seen, leases, since = now, map[string]leadership{}, begin
		}
		if err := v.renewed(ctx, leases, times); err != nil {
			return nil, err
		}
		var holders []string
		for _, name := range v.of.leaders() {
			holders = append(holders, fmt.Sprintf("%s by %q", name, leases[name].holder))
		}
		return append(shown, v.Saw(since, "the API server answers, and leases are renewed: %s",
			strings.Join(holders, ", "))...), nil
	})
}

// well judges whether the component on a node is not frozen, and says that it is healthy at every address where it did
// before and at one at least.
func (v *victims) well(ctx context.Context, n clusters.Node, found []probe.Process) ([]string, error) {
	for _, p := range found {
		if p.Frozen() {
			return nil, fault.NotYet("%s %s is frozen", v.of.name, victim{n, p})
		}
	}
	answers, err := v.of.health(ctx, n)
	if err != nil {
		return nil, err
	}
	var healthy []string
	for _, url := range v.of.urls() {
		switch status := answers[url]; {
		case status == http.StatusOK:
			healthy = append(healthy, url)
		case status != 0 || slices.Contains(v.heard[n.Name()], url):
			return nil, fault.NotYet("%s on node %q answers %d", url, n.Name(), status)
		}
	}
	if len(healthy) == 0 {
		return nil, fault.NotYet("nothing answers for %s on node %q", v.of.name, n.Name())
	}
	return []string{fmt.Sprintf("%s pid %d, started at %s, on node %q tells that it is well at %s", v.of.name,
		found[0].PID, found[0].Start, n.Name(), strings.Join(healthy, ", "))}, nil
}

// renewed reads the leases that depend on the component, and looks whether all were renewed often enough since the
// first reading.
func (v *victims) renewed(ctx context.Context, leases map[string]leadership, times int) error {
	ctx, cancel := context.WithTimeout(ctx, requestBound)
	defer cancel()
	var missing error
	for _, name := range v.of.leaders() {
		now, err := readLeadership(ctx, v.Kube, name)
		if err != nil {
			return err
		}
		last, known := leases[name]
		now.renewals = last.renewals
		if known && !now.renewed.Equal(last.renewed) {
			now.renewals++
		}
		leases[name] = now
		if now.renewals < times {
			missing = fault.NotYet("the lease %s of %q was renewed %d times, want %d", name, now.holder, now.renewals,
				times)
		}
	}
	return missing
}
