package network

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// addressSet is a set of addresses and ranges of both families.
type addressSet struct {
	v4, v6 []netip.Prefix
}

// setOf returns the given prefixes sorted and without duplicates, limited to address families; no families means both.
// It leaves out a prefix inside another: nftables' interval sets refuse overlaps.
func setOf(from []netip.Prefix, families []string) addressSet {
	prefixes := make([]netip.Prefix, 0, len(from))
	for _, p := range from {
		prefixes = append(prefixes, netip.PrefixFrom(p.Addr().Unmap().WithZone(""), p.Bits()).Masked())
	}
	slices.SortFunc(prefixes, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits() // The wider one first.
	})
	var c addressSet
	for _, p := range prefixes {
		set, family := &c.v4, "ipv4"
		if p.Addr().Is6() {
			set, family = &c.v6, "ipv6"
		}
		if len(families) > 0 && !slices.Contains(families, family) {
			continue
		}
		if n := len(*set); n > 0 && (*set)[n-1].Overlaps(p) {
			continue
		}
		*set = append(*set, p)
	}
	return c
}

func (c addressSet) empty() bool { return len(c.v4) == 0 && len(c.v6) == 0 }

// filter selects the packets to cut between two sides: the victim's, on whose node the rules are, and the other.
type filter struct {
	packets
	other addressSet // The other side.
	// own is the victim's side: addresses of pods, or empty for the node with all its pods.
	own     addressSet
	spared  addressSet // What of the other side is not cut, if all packets of both directions are dropped.
	percent int        // The share to cut in percent; 0 is all.
	// port, if set, limits the cut to UDP and TCP packets from the victim to this port.
	port uint16
}

// cuts reports whether packets of a direction, directionIn or directionOut, are cut.
func (s filter) cuts(direction string) bool {
	return s.Direction != directionIn && s.Direction != directionOut || s.Direction == direction
}

// someFlows reports whether only TCP connections are cut, and only new or established ones.
func (s filter) someFlows() bool {
	return s.Flows == flowsEstablished || s.Flows == flowsNew
}

// chain is a base chain and the directions whose packets it sees.
type chain struct {
	name, hook string
	priority   int
	lanes      []string
	first      []string // Rules before all others.
}

// chains returns hooks that see every packet between the sides once and with the addresses it travels with, before
// connection tracking (-200) where possible.
//
// Prerouting sees all arriving packets, for the node and its pods, before address translation. Postrouting sees all
// leaving packets after it, also those sent to a Service. A pod's packets are all forwarded, and have the pod's address
// in that hook. Postrouting cannot reject, so output (after translation at -100) and forward replace it.
//
// The reset for a packet of the node itself arrives on the loopback device with the other side's address; the one for a
// packet of the other side leaves through output. Both must pass.
func (s filter) chains() []chain {
	in, out := []string{directionIn}, []string{directionOut}
	switch {
	case s.port > 0: // Before the Service's address is translated.
		return []chain{{name: "asking", hook: "prerouting", priority: -300, lanes: out}}
	case !s.own.empty():
		return []chain{{name: "between", hook: "forward", priority: -300, lanes: slices.Concat(in, out)}}
	case s.Reject:
		return []chain{
			{name: "arriving", hook: "prerouting", priority: -300, lanes: in, first: []string{`iif "lo" accept`}},
			{name: "sending", hook: "output", priority: 0, lanes: out, first: []string{
				"tcp flags & rst == rst accept",
				"icmp type destination-unreachable accept",
				"icmpv6 type destination-unreachable accept",
			}},
			{name: "forwarding", hook: "forward", priority: -300, lanes: out},
		}
	}
	both := []chain{
		{name: "arriving", hook: "prerouting", priority: -300, lanes: in},
		{name: "leaving", hook: "postrouting", priority: -300, lanes: out},
	}
	if !s.cuts(directionIn) || !s.cuts(directionOut) {
		both[0].first, both[1].first = []string{neighbors}, []string{neighbors}
	}
	for _, p := range slices.Concat(s.spared.v4, s.spared.v6) {
		family := "ip"
		if p.Addr().Is6() {
			family = "ip6"
		}
		both[0].first = append(both[0].first, fmt.Sprintf("%s saddr %s accept", family, p))
		both[1].first = append(both[1].first, fmt.Sprintf("%s daddr %s accept", family, p))
	}
	return both
}

// neighbors lets IPv6 neighbor discovery pass; these tables never see its counterpart ARP. Otherwise a cut of one
// direction becomes one of both when a neighbor entry expires, after half a minute.
const neighbors = "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept"

// ruleset returns the nftables transaction that replaces the table with one that applies s. After life the kernel drops
// the set elements, and the rules match nothing. Counters count cut and passed packets by direction and family: see
// counters.
//
// Rules match addresses only, so they cut established flows, UDP and ICMP too, unless s is limited to some flows, which
// are TCP. Packets are dropped by default, as by a broken cable.
func ruleset(table string, s filter, life time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "add table inet %[1]s\ndelete table inet %[1]s\ntable inet %[1]s {\n", table)
	for _, name := range counterNames() {
		fmt.Fprintf(&b, "\tcounter %s {\n\t}\n", name)
	}
	writeSet(&b, "cut4", "ipv4_addr", s.other.v4, life)
	writeSet(&b, "cut6", "ipv6_addr", s.other.v6, life)
	if !s.own.empty() {
		writeSet(&b, "own4", "ipv4_addr", s.own.v4, life)
		writeSet(&b, "own6", "ipv6_addr", s.own.v6, life)
	}
	if s.Flows == flowsEstablished {
		for _, direction := range []string{directionIn, directionOut} {
			for _, family := range families() {
				writeYoung(&b, direction, family, life)
			}
		}
	}
	for _, c := range s.chains() {
		fmt.Fprintf(&b, "\tchain %s {\n", c.name)
		fmt.Fprintf(&b, "\t\ttype filter hook %s priority %d; policy accept;\n", c.hook, c.priority)
		for _, rule := range c.first {
			b.WriteString("\t\t" + rule + "\n")
		}
		for _, direction := range c.lanes {
			for _, family := range families() {
				for _, rule := range s.rules(direction, family) {
					b.WriteString("\t\t" + rule + "\n")
				}
			}
		}
		b.WriteString("\t}\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// rules returns the rules for packets of one direction and family ("4" or "6").
func (s filter) rules(direction, family string) []string {
	ip, from, to := "ip", "saddr", "daddr"
	if family == "6" {
		ip = "ip6"
	}
	if direction == directionOut {
		from, to = to, from
	}
	match := fmt.Sprintf("%s %s @cut%s", ip, from, family)
	if !s.own.empty() {
		match += fmt.Sprintf(" %s %s @own%s", ip, to, family)
	}
	if s.port > 0 {
		match += fmt.Sprintf(" meta l4proto { tcp, udp } th dport %d", s.port)
	}
	went := fmt.Sprintf("counter name went_%s%s", direction, family)
	pass := match + " " + went
	if !s.cuts(direction) {
		return []string{pass}
	}
	switch s.Flows {
	case flowsNew:
		return append(s.end(match+" tcp flags & (syn | ack) == syn", direction+family), pass)
	case flowsEstablished:
		// A connection is new if its SYN was seen.
		key := fmt.Sprintf("%[1]s saddr . tcp sport . %[1]s daddr . tcp dport", ip)
		young := fmt.Sprintf("@young_%s%s", direction, family)
		rules := []string{
			fmt.Sprintf("%s tcp flags & syn == syn update %s { %s } %s accept", match, young, key, went),
			fmt.Sprintf("%s %s %s %s accept", match, key, young, went),
		}
		return append(append(rules, s.end(match+" meta l4proto tcp", direction+family)...), pass)
	}
	return append(s.end(match, direction+family), pass)
}

// end returns the rules that cut the packets that match, or a share of them.
func (s filter) end(match, lane string) []string {
	if s.percent > 0 {
		match += fmt.Sprintf(" numgen random mod 100 < %d", s.percent)
	}
	match += " "
	counted := "counter name cut_" + lane
	if !s.Reject {
		return []string{match + counted + " drop"}
	}
	if s.someFlows() {
		return []string{match + counted + " reject with tcp reset"}
	}
	return []string{
		match + "meta l4proto tcp " + counted + " reject with tcp reset",
		match + counted + " reject with icmpx admin-prohibited",
	}
}

func writeSet(b *strings.Builder, name, kind string, prefixes []netip.Prefix, life time.Duration) {
	fmt.Fprintf(b, "\tset %s {\n\t\ttype %s\n\t\tflags interval, timeout\n", name, kind)
	if len(prefixes) > 0 {
		elements := make([]string, len(prefixes))
		for i, p := range prefixes {
			text := p.String()
			if p.IsSingleIP() {
				text = p.Addr().String()
			}
			elements[i] = fmt.Sprintf("\t\t\t%s timeout %s", text, timeout(life))
		}
		fmt.Fprintf(b, "\t\telements = {\n%s\n\t\t}\n", strings.Join(elements, ",\n"))
	}
	b.WriteString("\t}\n")
}

// youngLimit bounds the new connections of one direction and family that are told from established ones.
const youngLimit = 65535

// writeYoung writes the set of connections opened after the cut.
func writeYoung(b *strings.Builder, direction, family string, life time.Duration) {
	fmt.Fprintf(b, "\tset young_%s%s {\n\t\ttype ipv%s_addr . inet_service . ipv%s_addr . inet_service\n",
		direction, family, family, family)
	fmt.Fprintf(b, "\t\tsize %d\n\t\tflags dynamic, timeout\n\t\ttimeout %s\n\t}\n", youngLimit, timeout(life))
}

// timeout formats a duration for nftables, in milliseconds.
func timeout(life time.Duration) string {
	life = life.Round(time.Millisecond)
	text := fmt.Sprintf("%ds", life/time.Second)
	if ms := life % time.Second / time.Millisecond; ms > 0 {
		text += fmt.Sprintf("%dms", ms)
	}
	return text
}

// counterNames returns the names of a table's counters, such as "cut_in4": IPv4 packets to the victim that were cut.
func counterNames() []string {
	var names []string
	for _, what := range []string{"cut", "went"} {
		for _, direction := range []string{directionIn, directionOut} {
			for _, family := range families() {
				names = append(names, what+"_"+direction+family)
			}
		}
	}
	return names
}

// counters holds the packet counts of our rules by counter name.
type counters map[string]uint64

// readCounters reads the counters of the owner's table. A missing counter is an error.
func readCounters(ctx context.Context, node clusters.Node, owner undo.Owner) (counters, error) {
	out, err := clusters.Run(ctx, node, "nft", "-j", "list", "counters", "table", "inet", owner.Table())
	if err != nil {
		return nil, fmt.Errorf("read counters of nftables table %q: %w", owner.Table(), err)
	}
	return parseCounters(owner.Table(), []byte(out))
}

// parseCounters reads the counters of a table as nft prints them (libnftables-json(5)).
func parseCounters(table string, text []byte) (counters, error) {
	var answer struct {
		Nftables []struct {
			Counter *struct {
				Name    string `json:"name"`
				Packets uint64 `json:"packets"`
			} `json:"counter"`
		} `json:"nftables"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("read counters of nftables table %q: %w", table, err)
	}
	t := counters{}
	for _, entry := range answer.Nftables {
		if c := entry.Counter; c != nil {
			t[c.Name] = c.Packets
		}
	}
	for _, name := range counterNames() {
		if _, ok := t[name]; !ok {
			return nil, fmt.Errorf("read counters of nftables table %q: %q is missing", table, name)
		}
	}
	return t, nil
}

// since returns the difference to an earlier reading.
func (t counters) since(before counters) counters {
	d := counters{}
	for name, n := range t {
		d[name] = n - min(n, before[name])
	}
	return d
}

// of returns the packets of one direction over both families: cut and passed.
func (t counters) of(direction string) (lost, went uint64) {
	return t["cut_"+direction+"4"] + t["cut_"+direction+"6"], t["went_"+direction+"4"] + t["went_"+direction+"6"]
}

// String lists both directions.
func (t counters) String() string {
	words := make([]string, 0, 2)
	for _, direction := range []string{directionIn, directionOut} {
		lost, went := t.of(direction)
		words = append(words, fmt.Sprintf("%sbound %d cut, %d passed", direction, lost, went))
	}
	return strings.Join(words, "; ")
}
