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

// echoTimeout is how long answers are awaited that do not come. Between two nodes one takes less than a millisecond;
// the rest is room for a busy machine.
const echoTimeout = time.Second

// fewEchoes is enough to tell a way that is open from one that is cut.
func fewEchoes() probe.Volley {
	return probe.Volley{Count: 5, Interval: 20 * time.Millisecond, Timeout: echoTimeout}
}

// heard is what came of a volley of echo requests on one path.
type heard struct {
	path path
	probe.Echo
}

// fact says what was seen on the path.
func (h heard) fact(format string, args ...any) fault.Fact {
	return fault.Fact{Span: history.Between(h.Begin, h.End), Sentence: fmt.Sprintf("%s: "+format,
		append([]any{h.path}, args...)...)}
}

// echoed sends a volley on a way, to some of its addresses at once.
func echoed(ctx context.Context, w way, addresses []netip.Addr, v probe.Volley) ([]heard, error) {
	answers, err := w.from.agent().Ping(ctx, addresses, v)
	if err != nil {
		return nil, fmt.Errorf("probe from %s: %w", w.from.name, err)
	}
	all := make([]heard, len(addresses))
	for i, address := range addresses {
		all[i] = heard{path: path{from: w.from.name, to: netip.AddrPortFrom(address, 0)}, Echo: answers[i]}
	}
	return all, nil
}

// ping is what came of the echo requests on one path. Arrived is what the far end counted: it tells requests that
// arrive from those that are cut.
type ping struct {
	heard
	direction string
	arrived   int
}

// observation says for example "ICMP worker -> 172.18.0.2: 5 sent, 5 arrived, 0 answered".
func (p ping) observation(ok bool) observation {
	return observation{p.fact("%d sent, %d arrived, %d answered", p.Sent, p.arrived, p.Answered), ok}
}

// asCut reports whether exactly the requests and answers arrived that s lets pass.
func (p ping) asCut(s filter) bool {
	all := s.someFlows() || p.direction == "" // Only TCP is cut, or nothing.
	arrive := all || !s.cuts(p.direction)
	return whole(p.arrived, p.Sent, arrive) && whole(p.Answered, p.Sent, all)
}

// whole reports whether n is all of them if it should be, and none otherwise. More than all means that others sent too.
func whole(n, all int, should bool) bool {
	if should {
		return n >= all
	}
	return n == 0
}

// pings sends a volley on every path of all ways, one way after the other: an end counts all that arrives.
func pings(ctx context.Context, ways []way, v probe.Volley) ([]ping, error) {
	var all []ping
	for _, w := range ways {
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
		paths := map[bool]uint64{} // How many share one counter.
		for _, a := range addresses {
			paths[a.Is4()]++
		}
		for i, a := range addresses {
			v4 := a.Is4()
			arrived := after[v4] - min(before[v4], after[v4])
			if paths[v4] > 1 && arrived > 0 { // Each has an equal share, as they were sent.
				arrived = max(arrived/paths[v4], 1)
			}
			all = append(all, ping{heard: answers[i], direction: w.direction, arrived: int(min(arrived, 1<<30))})
		}
	}
	return all, nil
}

// readEchoes returns how many echo requests an end has received, by whether they are IPv4.
func readEchoes(ctx context.Context, e end) (map[bool]uint64, error) {
	pid := "1"
	if e.pid > 0 {
		pid = strconv.Itoa(e.pid)
	}
	out, err := clusters.Run(ctx, e.node, "cat", "/proc/"+pid+"/net/snmp", "/proc/"+pid+"/net/snmp6")
	if err != nil {
		return nil, fmt.Errorf("count echo requests at %s: %w", e.name, err)
	}
	found := map[bool]string{}
	var names []string
	for line := range strings.Lines(out) { // Kernel Documentation/networking/snmp_counter.rst.
		switch word := strings.Fields(line); {
		case len(word) == 2 && word[0] == "Icmp6InEchos":
			found[false] = word[1]
		case len(word) > 1 && word[0] == "Icmp:" && names == nil:
			names = word // Above a line with the values.
		case len(word) > 1 && word[0] == "Icmp:" && len(word) == len(names):
			if i := slices.Index(names, "InEchos"); i > 0 {
				found[true] = word[i]
			}
		}
	}
	echoes := map[bool]uint64{}
	for _, v4 := range []bool{true, false} {
		if echoes[v4], err = strconv.ParseUint(found[v4], 10, 64); err != nil {
			return nil, fmt.Errorf("count echo requests at %s: counter of %s is %q in %.80q: %w", e.name,
				familyName(v4), found[v4], out, err)
		}
	}
	return echoes, nil
}
