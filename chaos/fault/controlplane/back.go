package controlplane

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/evidence"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters"
)

// The bounds of what is to be shown after the heal. The kubelet makes a container wait that has ended several times
// within ten minutes, 80 s after the fourth time, and those that lead end when they cannot renew their leases.
const (
	backBound    = 150 * time.Second
	kubeletBound = 25 * time.Second // It renews every 10 s, and tries again after at most 7 s.
	renewals     = 2                // One that was let go on may renew its lease once before it finds that it is over.
)

// back waits until the component is at work again: one that was not killed runs on every node and tells that it is
// well, requests are answered, and the leases are renewed that depend on it.
func (v *victims) back(ctx context.Context) ([]fault.Fact, error) {
	var facts []fault.Fact
	var seen []victim
	var leases *renewed
	var since history.Time
	err := await.Until(ctx, v.of.name+" to be at work", lookEvery/2, backBound,
		func(ctx context.Context) (bool, string, error) {
			begin := v.env.Clock()
			now, shown, state, err := v.well(ctx)
			if err != nil || state != "" {
				seen = nil
				return false, state, err
			}
			if !slices.EqualFunc(seen, now, victim.is) {
				seen, leases, since = now, newRenewed(v.of.leaders()), begin
			}
			if state, err = v.renewed(ctx, leases); err != nil || state != "" {
				return false, state, err
			}
			facts = append(shown, fault.Fact{Span: history.Between(since, v.env.Clock()), Sentence: fmt.Sprintf(
				"the API server answers, and renewed were the leases of %s", leases)})
			return true, "", nil
		})
	if err != nil || !v.of.serves {
		return facts, err
	}
	read, err := evidence.ReadLeases(ctx, v.env)
	if err != nil {
		return facts, err
	}
	fact, err := evidence.LeaseRenewed(ctx, v.env, read, kubeletBound)
	if err != nil {
		return facts, err
	}
	return append(facts, fact), nil
}

// well looks once whether one that is not a victim of a kill runs on every node, is not frozen, and tells that it is
// well at every address where it was heard before, at one at least. A state that is not empty says what is not so.
func (v *victims) well(ctx context.Context) (now []victim, facts []fault.Fact, state string, err error) {
	nodes, err := controlNodes(ctx, v.env)
	if err != nil {
		return nil, nil, "", err
	}
	for _, n := range nodes {
		begin := v.env.Clock()
		found, err := v.of.processes(ctx, n)
		if err != nil {
			return nil, nil, "", err
		}
		if len(found) == 0 {
			return nil, nil, fmt.Sprintf("no %s runs on node %q", v.of.name, n.Name()), nil
		}
		for _, p := range found {
			if p.Frozen() {
				return nil, nil, fmt.Sprintf("%s %s is frozen", v.of.name, victim{n, p}), nil
			}
			now = append(now, victim{n, p})
		}
		told, state, err := v.told(ctx, n)
		if err != nil || state != "" {
			return nil, nil, state, err
		}
		facts = append(facts, fault.Fact{Span: history.Between(begin, v.env.Clock()), Sentence: fmt.Sprintf(
			"%s pid %d, started at %s, on node %q tells that it is well at %s", v.of.name, found[0].PID, found[0].Start,
			n.Name(), strings.Join(told, ", "))})
	}
	return now, facts, "", nil
}

// told returns the URLs at which the component of a node tells that it is well.
func (v *victims) told(ctx context.Context, n clusters.Node) (told []string, state string, err error) {
	answers, err := v.of.health(ctx, n)
	if err != nil {
		return nil, "", err
	}
	for _, url := range v.of.urls() {
		switch status := answers[url]; {
		case status == healthOK:
			told = append(told, url)
		case status != 0 || slices.Contains(v.heard[n.Name()], url):
			return nil, fmt.Sprintf("%s on node %q answers %d", url, n.Name(), status), nil
		}
	}
	if len(told) == 0 {
		return nil, fmt.Sprintf("nothing answers for %s on node %q", v.of.name, n.Name()), nil
	}
	return told, "", nil
}

// renewed counts how often leases were renewed.
type renewed struct {
	names []string
	last  map[string]leadership
	count map[string]int
}

func newRenewed(names []string) *renewed {
	return &renewed{names: names, last: map[string]leadership{}, count: map[string]int{}}
}

// String names the leases and their holders.
func (r *renewed) String() string {
	var all []string
	for _, name := range r.names {
		all = append(all, fmt.Sprintf("%s by %q", name, r.last[name].holder))
	}
	return strings.Join(all, ", ")
}

// renewed looks once whether all leases were renewed often enough.
func (v *victims) renewed(ctx context.Context, r *renewed) (state string, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestBound)
	defer cancel()
	for _, name := range r.names {
		now, err := readLeadership(ctx, v.env.Kube, name)
		if err != nil {
			return "", err
		}
		last, known := r.last[name]
		if known && !now.renewed.Equal(last.renewed) {
			r.count[name]++
		}
		r.last[name] = now
		if r.count[name] < renewals {
			state = fmt.Sprintf("the lease %s of %q was renewed %d times, want %d", name, now.holder, r.count[name],
				renewals)
		}
	}
	return state, nil
}
