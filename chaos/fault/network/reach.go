package network

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
)

// reach is what an attempt to connect comes to.
type reach string

const (
	connects reach = "connects"
	refused  reach = "is refused"       // A reset comes for an answer.
	silent   reach = "does not connect" // Whatever comes.
)

// opens returns what a connection comes to that is opened in a direction, while s is done: every connection needs
// packets of both directions, and the one who opens it sees a reset only for its own.
func (s severance) opens(direction string) reach {
	switch {
	case direction == "", s.flows == flowsEstablished, s.percent > 0:
		return connects
	case s.flows == flowsNew && !s.cuts(direction):
		return connects
	case s.reject && s.cuts(direction):
		return refused
	}
	return silent
}

// tally counts the attempts on one path. Of those Tried, some Connected and some were Refused.
type tally struct {
	path      path
	want      reach
	tried     int
	connected int
	refused   int
	span      history.Span
}

// asWanted reports whether every attempt came to what is wanted.
func (t tally) asWanted() bool {
	switch t.want {
	case connects:
		return t.connected == t.tried
	case refused:
		return t.refused == t.tried
	}
	return t.connected == 0
}

// String says what was seen: "TCP worker -> 172.18.0.2:6443 connects (3 of 3 probes)".
func (t tally) String() string {
	switch {
	case t.refused == t.tried:
		return fmt.Sprintf("%s is refused (%d of %d probes)", t.path, t.refused, t.tried)
	case t.connected == 0:
		return fmt.Sprintf("%s does not connect (%d of %d probes)", t.path, t.connected, t.tried)
	case t.connected == t.tried:
		return fmt.Sprintf("%s connects (%d of %d probes)", t.path, t.connected, t.tried)
	}
	return fmt.Sprintf("%s connects at times (%d of %d probes)", t.path, t.connected, t.tried)
}

// probeTimeout is long enough for a second SYN, which goes out after 1 s: one lost packet is not a cut.
const probeTimeout = 1500 * time.Millisecond

// survey probes every path of all ways at once, rounds times one after the other. Want says what each way is to come
// to.
func survey(ctx context.Context, ways []way, rounds int, want func(direction string) reach) ([]tally, error) {
	var tallies []tally
	for _, w := range ways {
		for _, a := range w.targets() {
			tallies = append(tallies, tally{path: path{from: w.from.name, to: a}, want: want(w.direction)})
		}
	}
	for round := range rounds {
		if err := surveyOnce(ctx, ways, tallies, round == 0); err != nil {
			return nil, err
		}
	}
	return tallies, nil
}

// asked is what one end is asked in a round: all that is to be reached from it, and where the answers belong.
type asked struct {
	from    end
	targets []netip.AddrPort
	tallies []int
}

// byEnd gathers the targets of all ways by the end that they are reached from, in the order of the ways.
func byEnd(ways []way) []asked {
	var all []asked
	n := 0
	for _, w := range ways {
		i := slices.IndexFunc(all, func(a asked) bool { return a.from.name == w.from.name })
		if i < 0 {
			i = len(all)
			all = append(all, asked{from: w.from})
		}
		for _, to := range w.targets() {
			all[i].targets, all[i].tallies = append(all[i].targets, to), append(all[i].tallies, n)
			n++
		}
	}
	return all
}

func surveyOnce(ctx context.Context, ways []way, tallies []tally, first bool) error {
	type outcome struct {
		connects []probe.Connect
		err      error
	}
	all := byEnd(ways)
	outcomes := make([]chan outcome, len(all))
	ask := func(i int) {
		var o outcome
		defer func() {
			if p := recover(); p != nil { // The guard cannot catch it here, and a fault is in place.
				o.err = fmt.Errorf("probe from %s: panic: %v", all[i].from.name, p)
			}
			outcomes[i] <- o
		}()
		o.connects, o.err = probeTCP(ctx, all[i].from, all[i].targets)
	}
	nodes := map[string][]int{}
	for i, a := range all {
		outcomes[i] = make(chan outcome, 1)
		nodes[a.from.node.Name()] = append(nodes[a.from.node.Name()], i)
	}
	for _, asks := range nodes { // The nodes beside each other: a cut costs the whole timeout of a probe.
		go func() {
			for _, i := range asks {
				ask(i)
			}
		}()
	}
	var failure error
	for i, a := range all {
		o := <-outcomes[i]
		if o.err != nil {
			failure = o.err
			continue
		}
		for j, n := range a.tallies {
			tallies[n].add(o.connects[j], first)
		}
	}
	return failure
}

// add counts one attempt.
func (t *tally) add(c probe.Connect, first bool) {
	t.tried++
	if c.Connected {
		t.connected++
	}
	if c.Refused {
		t.refused++
	}
	if first {
		t.span.NotBefore = c.Begin
	}
	t.span.NotAfter = c.End
}

// probeTCP tries to connect from an end, to each of the targets once.
func probeTCP(ctx context.Context, from end, targets []netip.AddrPort) ([]probe.Connect, error) {
	if len(targets) == 0 {
		return nil, nil
	}
	args := []string{"tcp", "--timeout", probeTimeout.String()}
	for _, a := range targets {
		args = append(args, a.String())
	}
	answers, err := ask[[]probe.Connect](ctx, from, args...)
	if err != nil {
		return nil, err
	}
	same := func(c probe.Connect, a netip.AddrPort) bool { return c.Address == a.String() }
	if !slices.EqualFunc(answers, targets, same) {
		return nil, fmt.Errorf("probe from %s: the answer %.200q is not for %v", from.name, fmt.Sprint(answers),
			targets)
	}
	return answers, nil
}

// join writes what was seen as a list.
func join[T fmt.Stringer](seen []T) string {
	lines := make([]string, len(seen))
	for i, t := range seen {
		lines[i] = t.String()
	}
	return strings.Join(lines, "; ")
}

// filter returns those that keep says yes to.
func filter[T any](all []T, keep func(T) bool) []T {
	var out []T
	for _, t := range all {
		if keep(t) {
			out = append(out, t)
		}
	}
	return out
}
