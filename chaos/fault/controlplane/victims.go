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

func (v victim) String() string { return fmt.Sprintf("pid %d on node %q", v.PID, v.node.Name()) }

func (v victim) is(o victim) bool {
	return v.node.Name() == o.node.Name() && v.PID == o.PID && v.Start == o.Start
}

// victims are a component's processes on all control-plane nodes, as kill, freeze and stop share them.
type victims struct {
	fault.Env
	of       component
	old      []victim            // The processes before the act.
	answered map[string][]string // By node: the health URLs that answered before the act.
}

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

// note records the processes and their health endpoints before the act. A component that is not working is an error,
// since its failure could not be shown.
func (v *victims) note(ctx context.Context) error {
	found, err := v.now(ctx)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("%s does not run on any node of the control plane: start it first", v.of.name)
	}
	v.answered = map[string][]string{}
	for _, p := range found {
		if p.Frozen() {
			return fmt.Errorf("%s %s is frozen already: send it SIGCONT first", v.of.name, p)
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
			return fmt.Errorf("%s %s does not answer health requests at any of %s, so its silence could not be shown",
				v.of.name, p, strings.Join(v.of.urls(), ", "))
		}
		v.answered[p.node.Name()] = heard
	}
	if v.of.serves {
		if err := v.request(ctx); err != nil {
			return fmt.Errorf("a request to the API server is not answered before anything was done: %w", err)
		}
	}
	v.old = found
	return nil
}

// request reads an object that is stored in etcd.
func (v *victims) request(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, requestBound, fmt.Errorf("no answer within %s", requestBound))
	defer cancel()
	_, err := readLeadership(ctx, v.Kube, manager)
	if err != nil && ctx.Err() != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return err
}

// Heal continues processes, or restores manifests.
func (v *victims) Heal(ctx context.Context) error { return v.CarryOutOnControlPlane(ctx) }

// among returns the first of the given processes that is one of the victims.
func (v *victims) among(some []victim) (victim, bool) {
	i := slices.IndexFunc(some, func(p victim) bool { return slices.ContainsFunc(v.old, p.is) })
	if i < 0 {
		return victim{}, false
	}
	return some[i], true
}

func (v *victims) each(span history.Span, what string) []fault.Fact {
	facts := make([]fault.Fact, len(v.old))
	for i, p := range v.old {
		facts[i] = fault.Fact{Span: span, Sentence: fmt.Sprintf("%s pid %d, started at %s, on node %q %s", v.of.name,
			p.PID, p.Start, p.node.Name(), what)}
	}
	return facts
}

// confirmed waits until look succeeds, the health endpoints are silent, and the component's work is not done.
func (v *victims) confirmed(ctx context.Context, what string, bound time.Duration, look fault.Show) ([]fault.Fact,
	error) {
	missed := v.leaderless
	if v.of.serves {
		missed = v.unanswered
	}
	return fault.All(ctx, fault.Await(what, 200*time.Millisecond, bound, look), v.quiet, missed)
}

const quietBound = 20 * time.Second

// quiet waits until none of the health endpoints answers that did before.
func (v *victims) quiet(ctx context.Context) ([]fault.Fact, error) {
	return fault.Until(ctx, v.of.name+" not to tell its health", 200*time.Millisecond, quietBound,
		func(ctx context.Context) (facts []fault.Fact, err error) {
			for _, n := range v.nodes() {
				begin := v.Clock()
				answers, err := v.of.health(ctx, n)
				if err != nil {
					return nil, err
				}
				heard := v.answered[n.Name()]
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

// nodes returns the nodes of the recorded processes, each once.
func (v *victims) nodes() []clusters.Node {
	var all []clusters.Node
	for _, p := range v.old {
		if !slices.ContainsFunc(all, func(n clusters.Node) bool { return n.Name() == p.node.Name() }) {
			all = append(all, p.node)
		}
	}
	return all
}

// on returns the recorded processes on a node.
func (v *victims) on(n clusters.Node) []probe.Process {
	var here []probe.Process
	for _, p := range v.old {
		if p.node.Name() == n.Name() {
			here = append(here, p.Process)
		}
	}
	return here
}

const unansweredBound = 25 * time.Second

// unanswered waits until the API server does not answer the harness.
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

// refusal reports whether an error is the answer of a working API server, with a status from 400 to 499. A 429 or 5xx
// answer is not one.
func refusal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusTooManyRequests
}

const (
	// leaderSilence is three renew intervals of a leader.
	leaderSilence   = 3 * lookEvery
	leaderlessBound = 25 * time.Second
)

// leaderless waits until the component's lease has not been renewed for leaderSilence.
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
		silent := begin.Sub(since) // The silence lasts at least as long.
		if silent <= leaderSilence {
			return nil, fault.NotYet("silent for %s of more than %s", silent.Round(100*time.Millisecond),
				leaderSilence)
		}
		return v.Saw(since, "the lease %s/%s of %q was not renewed for %s", managerNamespace, v.of.name, now.holder,
			silent.Round(100*time.Millisecond)), nil
	})
}

// The bounds of ConfirmHealed. The kubelet's crash-loop back-off is 80 s after the fourth exit within ten minutes, and
// leaders exit if they cannot renew their leases.
const (
	backBound    = 150 * time.Second
	kubeletBound = 25 * time.Second // It renews every 10 s and retries within 7 s.
	renewals     = 2                // A thawed leader may renew its lease once before it notices the loss.
)

// ConfirmHealed shows that the component is healthy on every node, that the API server answers, and that the dependent
// leases are renewed.
func (v *victims) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	shows := []fault.Show{func(ctx context.Context) ([]fault.Fact, error) {
		return v.atWork(ctx, v.of.name+" to be at work", backBound, renewals, v.onNodes(v.healthy))
	}}
	if v.of.serves {
		var read fault.Leases
		shows = append(shows, v.NoteLeases(&read), v.LeaseRenewed(&read, kubeletBound))
	}
	return fault.All(ctx, shows...)
}

// running returns a component's present processes and the facts about them.
type running func(ctx context.Context) (now []victim, facts []fault.Fact, err error)

// onNodes reads the processes on every control-plane node. Each must run one; judge returns sentences about them.
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

// runsWith checks that each node runs one, and that all have an argument, or none has it.
func (v *victims) runsWith(arg string, want bool) running {
	return v.onNodes(func(ctx context.Context, n clusters.Node, found []probe.Process) (sentences []string, err error) {
		for _, p := range found {
			line, err := clusters.Run(ctx, n, "cat", fmt.Sprintf("/proc/%d/cmdline", p.PID))
			if err != nil {
				return nil, fmt.Errorf("read the command line of %s: %w", v.of.name, err)
			}
			set := slices.Contains(strings.Split(line, "\x00"), arg)
			sentence := fmt.Sprintf("%s pid %d on node %q runs %s", v.of.name, p.PID, n.Name(), carrying(arg, set))
			if set != want {
				return nil, fault.NotYet("%s", sentence)
			}
			sentences = append(sentences, sentence)
		}
		return sentences, nil
	})
}

// carrying says that a program has an argument, or not the flag of it.
func carrying(arg string, set bool) string {
	if set {
		return "with " + arg
	}
	name, _, _ := strings.Cut(arg, "=")
	return "without " + name
}

// atWork waits until look succeeds and the dependent leases have since been renewed times times. Counting restarts when
// the processes change, so the last renewal by an old process does not count.
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

// healthy checks that the component on a node is not stopped, and that it reports healthy at every address where it
// answered before and at one at least.
func (v *victims) healthy(ctx context.Context, n clusters.Node, found []probe.Process) ([]string, error) {
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
		case status != 0 || slices.Contains(v.answered[n.Name()], url):
			return nil, fault.NotYet("%s on node %q answers %d", url, n.Name(), status)
		}
	}
	if len(healthy) == 0 {
		return nil, fault.NotYet("nothing answers for %s on node %q", v.of.name, n.Name())
	}
	return []string{fmt.Sprintf("%s pid %d, started at %s, on node %q tells that it is well at %s", v.of.name,
		found[0].PID, found[0].Start, n.Name(), strings.Join(healthy, ", "))}, nil
}

// renewed reads the dependent leases and checks that each was renewed at least times times since the first reading.
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
