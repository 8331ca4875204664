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

// volley is how many echo requests are sent to each address, and how fast.
type volley struct {
	count    int
	interval time.Duration
	timeout  time.Duration // Of the answers; 0 is echoTimeout.
	size     int           // Of each, in bytes; 0 is the smallest.
}

// fewEchoes is enough to tell a way that is open from one that is cut.
func fewEchoes() volley { return volley{count: 5, interval: 20 * time.Millisecond} }

// ping is what came of the ICMP echo requests on one path. Arrived is what the far end has counted itself: packets that
// go are told from those whose answers are cut.
type ping struct {
	path      path
	direction string
	sent      int
	arrived   int
	answered  int
	span      history.Span
}

// String says what was seen: "ICMP worker -> 172.18.0.2: 5 sent, 5 arrived, 0 answered".
func (p ping) String() string {
	return fmt.Sprintf("%s: %d sent, %d arrived, %d answered", p.path, p.sent, p.arrived, p.answered)
}

func (p ping) seen() history.Span { return p.span }

// asWanted reports whether all of the requests and answers went that should, and none that should not.
func (p ping) asWanted(s severance) bool {
	all := s.someFlows() || p.direction == "" // TCP alone is cut, or nothing.
	arrive := all || !s.cuts(p.direction)
	answer := all
	return whole(p.arrived, p.sent, arrive) && whole(p.answered, p.sent, answer)
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
func pings(ctx context.Context, ways []way, v volley) ([]ping, error) {
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

func pingWay(ctx context.Context, w way, v volley) ([]ping, error) {
	addresses := w.addresses()
	before, err := readEchoes(ctx, w.to)
	if err != nil {
		return nil, err
	}
	answers, err := probePing(ctx, w.from, addresses, v)
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
		beside := filter(addresses, func(b netip.Addr) bool { return b.Is4() == a.Is4() })
		// One counter for all of them: a share each, as they were sent.
		if n := uint64(len(beside)); n > 1 && arrived > 0 {
			arrived = max(arrived/n, 1)
		}
		seen[i] = ping{
			path: path{from: w.from.name, to: netip.AddrPortFrom(a, 0)}, direction: w.direction,
			sent: answers[i].Sent, arrived: int(min(arrived, 1<<30)), answered: answers[i].Answered,
			span: history.Between(answers[i].Begin, answers[i].End),
		}
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

// probePing sends a volley from an end.
func probePing(ctx context.Context, from end, addresses []netip.Addr, v volley) ([]probe.Echo, error) {
	if v.timeout == 0 {
		v.timeout = echoTimeout
	}
	args := []string{"ping", "--count", strconv.Itoa(v.count), "--interval", v.interval.String(),
		"--timeout", v.timeout.String()}
	if v.size > 0 {
		args = append(args, "--size", strconv.Itoa(v.size))
	}
	return askAll(ctx, from, addresses, func(e probe.Echo) string { return e.Address }, args...)
}
