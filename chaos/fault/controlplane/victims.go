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

	"github.com/seatrial/seatrial/chaos/await"
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
	env   fault.Env
	of    component
	old   []victim            // Those of before.
	heard map[string][]string // By node: the URLs at which they told their health.
}

// now returns the processes that there are.
func (v *victims) now(ctx context.Context) ([]victim, error) {
	var all []victim
	err := eachControlNode(ctx, v.env, func(n clusters.Node) error {
		found, err := v.of.processes(ctx, n)
		for _, p := range found {
			all = append(all, victim{n, p})
		}
		return err
	})
	return all, err
}

// note takes down what there is before the act. What is not well cannot be shown to be hurt: that is an error.
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
	_, err := readLeadership(ctx, v.env.Kube, manager)
	if err != nil && ctx.Err() != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return err
}

// among reports whether one of the victims of before is among some.
func (v *victims) among(some []victim) (victim, bool) {
	i := slices.IndexFunc(some, func(p victim) bool { return slices.ContainsFunc(v.old, p.is) })
	if i < 0 {
		return victim{}, false
	}
	return some[i], true
}

// each returns a fact about each of the victims of before.
func (v *victims) each(span history.Span, what string) []fault.Fact {
	facts := make([]fault.Fact, len(v.old))
	for i, p := range v.old {
		facts[i] = fault.Fact{Span: span, Sentence: fmt.Sprintf("%s pid %d, started at %s, on node %q %s", v.of.name,
			p.PID, p.Start, p.node.Name(), what)}
	}
	return facts
}

// look is one look at victims: what it shows, or a state that is not empty and says what is not so.
type look func(context.Context) (facts []fault.Fact, state string, err error)

// still is the look again, which must show the same.
func (l look) still(ctx context.Context) ([]fault.Fact, error) {
	facts, state, err := l(ctx)
	if err == nil && state != "" {
		err = errors.New(state)
	}
	return facts, err
}

// missing waits until a look shows what was done to the component, nobody tells its health, and it is missed.
func (v *victims) missing(ctx context.Context, what string, bound time.Duration, l look) ([]fault.Fact, error) {
	var facts []fault.Fact
	err := await.Until(ctx, what, 200*time.Millisecond, bound, func(ctx context.Context) (bool, string, error) {
		seen, state, err := l(ctx)
		facts = seen
		return err == nil && state == "", state, err
	})
	if err != nil {
		return nil, err
	}
	quiet, err := v.quiet(ctx)
	if err != nil {
		return facts, err
	}
	missed, err := v.missed(ctx)
	return append(append(facts, quiet...), missed), err
}

const quietBound = 20 * time.Second

// quiet waits until nobody tells the health of the component any longer, at any address where it was told before.
func (v *victims) quiet(ctx context.Context) ([]fault.Fact, error) {
	var facts []fault.Fact
	err := await.Until(ctx, v.of.name+" not to tell its health", 200*time.Millisecond, quietBound,
		func(ctx context.Context) (bool, string, error) {
			facts = nil
			for _, n := range v.nodes() {
				begin := v.env.Clock()
				answers, err := v.of.health(ctx, n)
				if err != nil {
					return false, "", err
				}
				heard := v.heard[n.Name()]
				for _, url := range heard {
					if answers[url] != 0 {
						return false, fmt.Sprintf("%s answers %d on node %q", url, answers[url], n.Name()), nil
					}
				}
				facts = append(facts, fault.Fact{Span: history.Between(begin, v.env.Clock()), Sentence: fmt.Sprintf(
					"nothing answers on node %q at %s", n.Name(), strings.Join(heard, ", "))})
			}
			return true, "", nil
		})
	return facts, err
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

// missed waits until the rest of the cluster has to do without it: no request is answered, or nobody leads.
func (v *victims) missed(ctx context.Context) (fault.Fact, error) {
	if v.of.serves {
		return v.unanswered(ctx)
	}
	return v.leaderless(ctx)
}

const unansweredBound = 25 * time.Second

// unanswered waits until the API server answers no request of the harness.
func (v *victims) unanswered(ctx context.Context) (fault.Fact, error) {
	var fact fault.Fact
	err := await.Until(ctx, "a request to the API server not to be answered", 200*time.Millisecond, unansweredBound,
		func(ctx context.Context) (bool, string, error) {
			begin := v.env.Clock()
			failure := v.request(ctx)
			if failure == nil {
				return false, "the last was answered", nil
			}
			if ctx.Err() != nil {
				return false, "", failure
			}
			if refusal(failure) {
				return false, fmt.Sprintf("the last was answered: %.300s", failure), nil
			}
			fact = fault.Fact{Span: history.Between(begin, v.env.Clock()),
				Sentence: fmt.Sprintf("the API server did not answer a request: %.300s", failure)}
			return true, "", nil
		})
	return fact, err
}

// refusal reports whether an error is an answer of an API server that is at work: it has looked, and says no. That it
// cannot look, in whatever words, is none.
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
func (v *victims) leaderless(ctx context.Context) (fault.Fact, error) {
	var fact fault.Fact
	var last leadership
	since := v.env.Clock()
	what := fmt.Sprintf("the lease of %s not to be renewed", v.of.name)
	err := await.Until(ctx, what, lookEvery/2, leaderlessBound, func(ctx context.Context) (bool, string, error) {
		begin := v.env.Clock()
		now, err := readLeadership(ctx, v.env.Kube, v.of.name)
		if err != nil {
			return false, "", err
		}
		if !now.renewed.Equal(last.renewed) {
			last, since = now, v.env.Clock()
		}
		silent := begin.Sub(since) // Both readings bound it from within.
		state := fmt.Sprintf("silent for %s of more than %s", silent.Round(100*time.Millisecond), leaderSilence)
		if silent <= leaderSilence {
			return false, state, nil
		}
		fact = fault.Fact{Span: history.Between(since, v.env.Clock()), Sentence: fmt.Sprintf(
			"the lease %s/%s of %q was not renewed for %s", managerNamespace, v.of.name, now.holder,
			silent.Round(100*time.Millisecond))}
		return true, "", nil
	})
	return fact, err
}
