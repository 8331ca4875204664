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

// reach is what an attempt to connect comes to.
type reach string

const (
	connects reach = "connects"
	refused  reach = "is refused"       // A reset comes for an answer.
	silent   reach = "does not connect" // Whatever comes.
)

// opens returns what a connection comes to that is opened in a direction, while s is done: every connection needs
// packets of both directions, and the one who opens it sees a reset only for its own.
func (s filter) opens(direction string) reach {
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

// attempts counts the attempts on one path. Of those Tried, some Connected and some were Refused.
type attempts struct {
	path      path
	want      reach
	tried     int
	connected int
	refused   int
	span      history.Span
}

// asWanted reports whether every attempt came to what is wanted.
func (t attempts) asWanted() bool {
	switch t.want {
	case connects:
		return t.connected == t.tried
	case refused:
		return t.refused == t.tried
	}
	return t.connected == 0
}

// String says what was seen: "TCP worker -> 172.18.0.2:6443 connects (3 of 3 probes)".
func (t attempts) String() string {
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

// connectAll probes every path of all ways, rounds times one after the other. Want says what each way is to come to.
func connectAll(ctx context.Context, ways []way, rounds int, want func(direction string) reach) ([]attempts, error) {
	var results []attempts
	asks := map[string][]asked{} // By node.
	for _, w := range ways {
		node := w.from.node.Name()
		i := slices.IndexFunc(asks[node], func(a asked) bool { return a.from.name == w.from.name })
		if i < 0 {
			i = len(asks[node])
			asks[node] = append(asks[node], asked{from: w.from})
		}
		a := &asks[node][i]
		for _, to := range w.targets() {
			a.targets, a.results = append(a.targets, to), append(a.results, len(results))
			results = append(results, attempts{path: path{from: w.from.name, to: to}, want: want(w.direction)})
		}
	}
	for range rounds {
		errs := make(chan error, len(asks))
		for _, all := range asks { // The nodes beside each other: a cut costs the whole timeout of a probe.
			go func() { errs <- connectFromNode(ctx, all, results) }()
		}
		var failed error
		for range asks {
			failed = errors.Join(failed, <-errs)
		}
		if failed != nil {
			return nil, failed
		}
	}
	return results, nil
}

// asked is what one end is asked in a round: all that is to be reached from it, and which results the answers belong
// to.
type asked struct {
	from    end
	targets []netip.AddrPort
	results []int
}

// connectFromNode asks the ends of one node, one after the other.
func connectFromNode(ctx context.Context, all []asked, results []attempts) (err error) {
	defer func() {
		if p := recover(); p != nil { // The guard cannot catch it here, and a fault is in place.
			err = fmt.Errorf("probe from %s: panic: %v", all[0].from.name, p)
		}
	}()
	for _, a := range all {
		if len(a.targets) == 0 {
			continue
		}
		answers, err := a.from.agent().Connect(ctx, probeTimeout, a.targets)
		if err != nil {
			return fmt.Errorf("probe from %s: %w", a.from.name, err)
		}
		for i, n := range a.results {
			results[n].add(answers[i])
		}
	}
	return nil
}

// add counts one attempt.
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

func (t attempts) seen() history.Span { return t.span }

// observed is something that was seen in a time.
type observed interface {
	fmt.Stringer
	seen() history.Span
}

// told returns a fact for each of what was seen, and a state that lists what is not as wanted.
func told[T observed](all []T, asWanted func(T) bool) (facts []fault.Fact, state string) {
	var wrong []string
	for _, o := range all {
		facts = append(facts, fault.Fact{Span: o.seen(), Sentence: o.String()})
		if !asWanted(o) {
			wrong = append(wrong, o.String())
		}
	}
	return facts, strings.Join(wrong, "; ")
}
