package network

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/mark"
	"github.com/seatrial/seatrial/chaos/probe"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/e2e/history"
)

// The ports that answer on every cluster of kubeadm's making, kind's among them.
const (
	apiServerPort = 6443
	kubeletPort   = 10250
)

// way is one direction in which packets go: from a node to a port of another one, by all of its address families.
type way struct {
	from      clusters.Node
	addresses []netip.AddrPort
}

// path is one way by one address.
type path struct {
	from string
	to   netip.AddrPort
}

// String names both ends: "TCP worker -> 172.18.0.2:6443".
func (p path) String() string { return fmt.Sprintf("TCP %s -> %s", p.from, p.to) }

// tally counts the probes of one path. Connected is how many of the Tried connected.
type tally struct {
	path      path
	tried     int
	connected int
	span      history.Span
}

// String says what was seen: "TCP worker -> 172.18.0.2:6443 still connects (3 of 3 probes)".
func (t tally) String() string {
	switch {
	case t.connected == 0:
		return fmt.Sprintf("%s does not connect (%d of %d probes)", t.path, t.connected, t.tried)
	case t.connected == t.tried:
		return fmt.Sprintf("%s connects (%d of %d probes)", t.path, t.connected, t.tried)
	}
	return fmt.Sprintf("%s connects at times (%d of %d probes)", t.path, t.connected, t.tried)
}

// probeTimeout is long enough for a second SYN, which goes out after 1 s: one lost packet is not a cut.
const probeTimeout = 1500 * time.Millisecond

// survey probes every path of all ways at once, rounds times one after the other.
func survey(ctx context.Context, ways []way, rounds int) ([]tally, error) {
	var tallies []tally
	for _, w := range ways {
		for _, a := range w.addresses {
			tallies = append(tallies, tally{path: path{from: w.from.Name(), to: a}})
		}
	}
	for round := range rounds {
		if err := surveyOnce(ctx, ways, tallies, round == 0); err != nil {
			return nil, err
		}
	}
	return tallies, nil
}

func surveyOnce(ctx context.Context, ways []way, tallies []tally, first bool) error {
	type outcome struct {
		connects []probe.Connect
		err      error
	}
	outcomes := make([]chan outcome, len(ways))
	for i, w := range ways { // Beside each other: a cut costs the whole timeout of a probe.
		outcomes[i] = make(chan outcome, 1)
		go func() {
			var o outcome
			defer func() {
				if p := recover(); p != nil { // The guard cannot catch it here, and a fault is in place.
					o.err = fmt.Errorf("probe from node %q: panic: %v", w.from.Name(), p)
				}
				outcomes[i] <- o
			}()
			o.connects, o.err = probeTCP(ctx, w)
		}()
	}
	var failure error
	n := 0
	for i, w := range ways {
		o := <-outcomes[i]
		if o.err != nil {
			failure = o.err
			continue
		}
		for j := range w.addresses {
			t, c := &tallies[n+j], o.connects[j]
			t.tried++
			if c.Connected {
				t.connected++
			}
			if first {
				t.span.NotBefore = c.Begin
			}
			t.span.NotAfter = c.End
		}
		n += len(w.addresses)
	}
	return failure
}

// probeTCP runs the agent's probe on the node, through the container runtime: it works although the node is cut off.
func probeTCP(ctx context.Context, w way) ([]probe.Connect, error) {
	argv := []string{mark.AgentPath, "probe", "tcp", "--timeout", probeTimeout.String()}
	for _, a := range w.addresses {
		argv = append(argv, a.String())
	}
	out, err := clusters.Run(ctx, w.from, argv...)
	if err != nil {
		return nil, fmt.Errorf("probe from node %q: %w", w.from.Name(), err)
	}
	var connects []probe.Connect
	if err := json.Unmarshal([]byte(out), &connects); err != nil {
		return nil, fmt.Errorf("probe from node %q: decode answer %.80q: %w", w.from.Name(), out, err)
	}
	if len(connects) != len(w.addresses) {
		return nil, fmt.Errorf("probe from node %q: %s for %d addresses", w.from.Name(),
			strconv.Itoa(len(connects))+" answers", len(w.addresses))
	}
	return connects, nil
}

// join writes tallies as a list.
func join(tallies []tally) string {
	lines := make([]string, len(tallies))
	for i, t := range tallies {
		lines[i] = t.String()
	}
	return strings.Join(lines, "; ")
}

// filter returns the tallies that keep says yes to.
func filter(tallies []tally, keep func(tally) bool) []tally {
	var out []tally
	for _, t := range tallies {
		if keep(t) {
			out = append(out, t)
		}
	}
	return out
}
