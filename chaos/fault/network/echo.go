package network

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/clusters"
)

// echoTimeout is how long to wait for replies after the last request. A round trip between nodes takes less than 1 ms;
// the rest allows for a busy machine.
const echoTimeout = time.Second

// fewEchoes is enough to tell an open path from a cut one.
func fewEchoes() probe.Volley {
	return probe.Volley{Count: 5, Interval: 20 * time.Millisecond, Timeout: echoTimeout}
}

// echoResult is the outcome of a volley of echo requests on one path.
type echoResult struct {
	path path
	probe.Echo
}

func (h echoResult) fact(format string, args ...any) fault.Fact {
	return fault.Fact{Span: history.Between(h.Begin, h.End), Sentence: fmt.Sprintf("%s: "+format,
		append([]any{h.path}, args...)...)}
}

// echoed sends a volley to the given addresses of a way, concurrently.
func echoed(ctx context.Context, w way, addresses []netip.Addr, v probe.Volley) ([]echoResult, error) {
	answers, err := w.from.agent().Ping(ctx, addresses, v)
	if err != nil {
		return nil, fmt.Errorf("probe from %s: %w", w.from.name, err)
	}
	all := make([]echoResult, len(addresses))
	for i, address := range addresses {
		all[i] = echoResult{path: path{from: w.from.name, to: netip.AddrPortFrom(address, 0)}, Echo: answers[i]}
	}
	return all, nil
}

// ping is the outcome of echo requests on one path. Arrived is counted at the far end and distinguishes cut requests
// from cut replies.
type ping struct {
	echoResult
	direction string
	arrived   int
}

// observation returns a sentence such as "ICMP worker -> 172.18.0.2: 5 sent, 5 arrived, 0 answered".
func (p ping) observation(ok bool) observation {
	return observation{p.fact("%d sent, %d arrived, %d answered", p.Sent, p.arrived, p.Answered), ok}
}

// asPlanned reports whether exactly the requests and replies arrived that s lets pass.
func (p ping) asPlanned(s filter) bool {
	all := s.someFlows() || p.direction == "" // Only TCP is cut, or nothing.
	arrive := all || !s.cuts(p.direction)
	return allOrNone(p.arrived, p.Sent, arrive) && allOrNone(p.Answered, p.Sent, all)
}

// allOrNone reports whether n is at least all if should is set, and 0 otherwise. Requests of others can add to n.
func allOrNone(n, all int, should bool) bool {
	if should {
		return n >= all
	}
	return n == 0
}

// pings sends a volley on every path, one way after the other: the far end's counter covers all senders. An end without
// a node has no counter to read, and need not answer echo requests.
func pings(ctx context.Context, ways []way, v probe.Volley) ([]ping, error) {
	var all []ping
	for _, w := range ways {
		if w.to.node == nil {
			continue
		}
		addresses := w.addresses()
		before, err := readEchoes(ctx, w.to)
		if err != nil {
			return nil, err
		}
		answers, err := echoed(ctx, w, addresses, v)
		if err != nil {
			return nil, err
		}
		after, err := readEchoes(ctx, w.to)
		if err != nil {
			return nil, err
		}
		paths := map[string]uint64{} // Paths that share a counter, by family.
		for _, a := range addresses {
			paths[familyOf(a)]++
		}
		for i, a := range addresses {
			family := familyOf(a)
			arrived := after[family] - min(before[family], after[family])
			if paths[family] > 1 && arrived > 0 { // Split the count evenly, as the requests were sent.
				arrived = max(arrived/paths[family], 1)
			}
			all = append(all, ping{echoResult: answers[i], direction: w.direction, arrived: int(min(arrived, 1<<30))})
		}
	}
	return all, nil
}

// readEchoes returns the number of echo requests that an end has received, by family.
func readEchoes(ctx context.Context, e end) (map[string]uint64, error) {
	pid := "1"
	if e.pid > 0 {
		pid = strconv.Itoa(e.pid)
	}
	out, err := clusters.Run(ctx, e.node, "cat", "/proc/"+pid+"/net/snmp", "/proc/"+pid+"/net/snmp6")
	if err != nil {
		return nil, fmt.Errorf("count echo requests at %s: %w", e.name, err)
	}
	found := map[string]string{}
	var names []string
	for line := range strings.Lines(out) { // Kernel Documentation/networking/snmp_counter.rst.
		switch word := strings.Fields(line); {
		case len(word) == 2 && word[0] == "Icmp6InEchos":
			found["6"] = word[1]
		case len(word) > 1 && word[0] == "Icmp:" && names == nil:
			names = word // The line with the values follows.
		case len(word) > 1 && word[0] == "Icmp:" && len(word) == len(names):
			if i := slices.Index(names, "InEchos"); i > 0 {
				found["4"] = word[i]
			}
		}
	}
	echoes := map[string]uint64{}
	for _, family := range families() {
		if echoes[family], err = strconv.ParseUint(found[family], 10, 64); err != nil {
			return nil, fmt.Errorf("count echo requests at %s: counter of IPv%s is %q in %.80q: %w", e.name,
				family, found[family], out, err)
		}
	}
	return echoes, nil
}
