package network

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"time"

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

func (h heard) seen() history.Span { return history.Between(h.Begin, h.End) }

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

// ping is what came of the ICMP echo requests on one path. Arrived is what the far end has counted itself: packets that
// go are told from those whose answers are cut.
type ping struct {
	heard
	direction string
	arrived   int
}

// String says what was seen: "ICMP worker -> 172.18.0.2: 5 sent, 5 arrived, 0 answered".
func (p ping) String() string {
	return fmt.Sprintf("%s: %d sent, %d arrived, %d answered", p.path, p.Sent, p.arrived, p.Answered)
}

// asWanted reports whether all of the requests and answers went that should, and none that should not.
func (p ping) asWanted(s filter) bool {
	all := s.someFlows() || p.direction == "" // TCP alone is cut, or nothing.
	arrive := all || !s.cuts(p.direction)
	return whole(p.arrived, p.Sent, arrive) && whole(p.Answered, p.Sent, all)
}

// whole reports whether n is all of them, or, if it should not be, none. More than all were sent by others.
func whole(n, all int, should bool) bool {
	if should {
		return n >= all
	}
	return n == 0
}

// pings sends a volley on every path of all ways, one way after the other: what arrives is counted by the far end as a
// whole.
func pings(ctx context.Context, ways []way, v probe.Volley) ([]ping, error) {
	var all []ping
	for _, w := range ways {
		seen, err := pingWay(ctx, w, v)
		if err != nil {
			return nil, err
		}
		all = append(all, seen...)
	}
	return all, nil
}

func pingWay(ctx context.Context, w way, v probe.Volley) ([]ping, error) {
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
	seen := make([]ping, len(addresses))
	for i, a := range addresses {
		arrived := after.of(a.Is4()) - min(before.of(a.Is4()), after.of(a.Is4()))
		beside := uint64(0)
		for _, b := range addresses {
			if b.Is4() == a.Is4() {
				beside++
			}
		}
		// One counter for all of them: a share each, as they were sent.
		if beside > 1 && arrived > 0 {
			arrived = max(arrived/beside, 1)
		}
		seen[i] = ping{heard: answers[i], direction: w.direction, arrived: int(min(arrived, 1<<30))}
	}
	return seen, nil
}

// readEchoes reads how many echo requests an end has received.
func readEchoes(ctx context.Context, e end) (echoes, error) {
	pid := "1"
	if e.pid > 0 {
		pid = strconv.Itoa(e.pid)
	}
	out, err := clusters.Run(ctx, e.node, "cat", "/proc/"+pid+"/net/snmp", "/proc/"+pid+"/net/snmp6")
	if err != nil {
		return echoes{}, fmt.Errorf("count echo requests at %s: %w", e.name, err)
	}
	n, err := decodeEchoes(out)
	if err != nil {
		return echoes{}, fmt.Errorf("count echo requests at %s: %w", e.name, err)
	}
	return n, nil
}
