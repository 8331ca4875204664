package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
)

// reach is the outcome of a connection attempt.
type reach string

const (
	connects reach = "connects"
	refused  reach = "is refused"       // Answered with a reset.
	silent   reach = "does not connect" // Refused or not answered.
)

// outcome returns the outcome of a connection opened in a direction while s applies. A connection needs packets of both
// directions, and the client sees a reset for its own packets only.
func (s filter) outcome(direction string) reach {
	switch {
	case direction == "", s.Flows == flowsEstablished, s.percent > 0:
		return connects
	case s.Flows == flowsNew && !s.cuts(direction):
		return connects
	case s.Reject && s.cuts(direction):
		return refused
	}
	return silent
}

// attempts counts the connection attempts on one path.
type attempts struct {
	path      path
	want      reach
	tried     int
	connected int
	refused   int
	span      history.Span
}

// observation returns a sentence such as "TCP worker -> 172.18.0.2:6443 connects (3 of 3 probes)".
func (t attempts) observation() observation {
	came, n := reach("connects at times"), t.connected
	switch {
	case t.refused == t.tried:
		came, n = refused, t.refused
	case t.connected == 0:
		came = silent
	case t.connected == t.tried:
		came = connects
	}
	ok := map[reach]bool{
		connects: t.connected == t.tried, refused: t.refused == t.tried, silent: t.connected == 0,
	}[t.want]
	sentence := fmt.Sprintf("%s %s (%d of %d probes)", t.path, came, n, t.tried)
	return observation{fault.Fact{Span: t.span, Sentence: sentence}, ok}
}

// probeTimeout covers a second SYN, sent after 1 s: one lost packet is not a cut.
const probeTimeout = 1500 * time.Millisecond

// connectAll probes every path of all ways in rounds. Want returns the expected outcome by direction.
func connectAll(ctx context.Context, ways []way, rounds int, want func(direction string) reach) ([]observation, error) {
	var all []*attempts
	ends := map[string][]probedEnd{} // By node.
	for _, w := range ways {
		node := w.from.node.Name()
		i := slices.IndexFunc(ends[node], func(p probedEnd) bool { return p.name == w.from.name })
		if i < 0 {
			i = len(ends[node])
			ends[node] = append(ends[node], probedEnd{end: w.from})
		}
		for _, to := range w.targets() {
			t := &attempts{path: path{from: w.from.name, to: to}, want: want(w.direction)}
			ends[node][i].attempts, all = append(ends[node][i].attempts, t), append(all, t)
		}
	}
	for range rounds {
		errs := make(chan error, len(ends))
		for _, some := range ends { // Nodes in parallel: a cut costs each the whole probe timeout.
			go func() { errs <- connectFromNode(ctx, some) }()
		}
		var failed error
		for range ends {
			failed = errors.Join(failed, <-errs)
		}
		if failed != nil {
			return nil, failed
		}
	}
	seen := make([]observation, len(all))
	for i, t := range all {
		seen[i] = t.observation()
	}
	return seen, nil
}

// probedEnd is an end with the paths to probe from it.
type probedEnd struct {
	end
	attempts []*attempts
}

// connectFromNode makes one attempt on every path from the ends of a node, one end after the other.
func connectFromNode(ctx context.Context, ends []probedEnd) (err error) {
	defer func() {
		if p := recover(); p != nil { // The guard cannot recover a panic here, and a fault is active.
			err = fmt.Errorf("probe from %s: panic: %v", ends[0].name, p)
		}
	}()
	for _, e := range ends {
		if len(e.attempts) == 0 {
			continue
		}
		targets := make([]netip.AddrPort, len(e.attempts))
		for i, t := range e.attempts {
			targets[i] = t.path.to
		}
		answers, err := e.agent().Connect(ctx, probeTimeout, targets)
		if err != nil {
			return fmt.Errorf("probe from %s: %w", e.name, err)
		}
		for i, t := range e.attempts {
			t.add(answers[i])
		}
	}
	return nil
}

func (t *attempts) add(c probe.Connect) {
	if t.tried == 0 {
		t.span.NotBefore = c.Begin
	}
	t.tried++
	if c.Connected {
		t.connected++
	}
	if c.Refused {
		t.refused++
	}
	t.span.NotAfter = c.End
}

// observation is a fact with whether it is as expected.
type observation struct {
	fault.Fact
	ok bool
}

// observed returns all facts, and an error that names those that are not as expected.
func observed(all []observation) (facts []fault.Fact, err error) {
	var wrong []string
	for _, o := range all {
		facts = append(facts, o.Fact)
		if !o.ok {
			wrong = append(wrong, o.Sentence)
		}
	}
	if len(wrong) > 0 {
		err = fault.NotYet("%s", strings.Join(wrong, "; "))
	}
	return facts, err
}
