package network

import (
	"context"
	"fmt"
	"strings"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// counterNames returns the names of the counters of a table, for example "cut_in4": packets that came to the victim by
// IPv4 and were cut.
func counterNames() []string {
	var names []string
	for _, what := range []string{"cut", "went"} {
		for _, direction := range []string{directionIn, directionOut} {
			for _, family := range []string{"4", "6"} {
				names = append(names, what+"_"+direction+family)
			}
		}
	}
	return names
}

// counters is what the counters of our own rules have come to: packets, by the name of the counter.
type counters map[string]uint64

// readCounters asks the node for the counters of the owner's table (libnftables-json(5)). A table without them is an
// error.
func readCounters(ctx context.Context, node clusters.Node, owner undo.Owner) (counters, error) {
	answer, err := fault.Ask[struct {
		Nftables []struct {
			Counter *struct {
				Name    string `json:"name"`
				Packets uint64 `json:"packets"`
			} `json:"counter"`
		} `json:"nftables"`
	}](ctx, node, "nft", "-j", "list", "counters", "table", "inet", owner.Table())
	if err != nil {
		return nil, fmt.Errorf("read counters of nftables table %q: %w", owner.Table(), err)
	}
	t := counters{}
	for _, entry := range answer.Nftables {
		if c := entry.Counter; c != nil {
			t[c.Name] = c.Packets
		}
	}
	for _, name := range counterNames() {
		if _, ok := t[name]; !ok {
			return nil, fmt.Errorf("read counters of nftables table %q: %q is missing", owner.Table(), name)
		}
	}
	return t, nil
}

// since returns what was counted after an earlier reading.
func (t counters) since(before counters) counters {
	d := counters{}
	for name, n := range t {
		d[name] = n - min(n, before[name])
	}
	return d
}

// of returns the packets of one direction over both families: those that were cut and those that went on.
func (t counters) of(direction string) (lost, went uint64) {
	return t["cut_"+direction+"4"] + t["cut_"+direction+"6"], t["went_"+direction+"4"] + t["went_"+direction+"6"]
}

// String tells of both directions.
func (t counters) String() string {
	words := make([]string, 0, 2)
	for _, direction := range []string{directionIn, directionOut} {
		lost, went := t.of(direction)
		words = append(words, fmt.Sprintf("%sbound %d cut, %d passed", direction, lost, went))
	}
	return strings.Join(words, "; ")
}
