package network

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// cut is what a node is cut off from.
type cut struct {
	v4, v6 []netip.Prefix
}

// cutOff returns the cut from the given addresses and prefixes, in order and each once, limited to address families;
// none means all. A prefix inside another is left out: sets of intervals refuse overlaps.
func cutOff(from []netip.Prefix, families []string) cut {
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
	var c cut
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

// empty reports that nothing would be cut.
func (c cut) empty() bool { return len(c.v4) == 0 && len(c.v6) == 0 }

// ruleset returns the nftables transaction that replaces the table by one that drops every packet from and to the cut,
// until life is over: the kernel takes the elements out then, and the rules match nothing any more.
//
// Both hooks run at priority -300, before connection tracking (-200), and look at addresses alone, so established flows
// are cut like new ones. Prerouting sees all that arrives, for the node and for its pods, before any translation of
// addresses; postrouting sees all that leaves, from the node and from its pods, after it: also what was sent to the
// address of a Service. Packets are dropped, never rejected: a broken cable answers nothing.
func ruleset(table string, c cut, life time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "add table inet %s\ndelete table inet %s\n", table, table)
	fmt.Fprintf(&b, "table inet %s {\n", table)
	writeSet(&b, "cut4", "ipv4_addr", c.v4, life)
	writeSet(&b, "cut6", "ipv6_addr", c.v6, life)
	for _, chain := range []struct{ name, hook, field string }{
		{"arriving", "prerouting", "saddr"},
		{"leaving", "postrouting", "daddr"},
	} {
		fmt.Fprintf(&b, "\tchain %s {\n", chain.name)
		fmt.Fprintf(&b, "\t\ttype filter hook %s priority -300; policy accept;\n", chain.hook)
		fmt.Fprintf(&b, "\t\tip %s @cut4 counter drop\n", chain.field)
		fmt.Fprintf(&b, "\t\tip6 %s @cut6 counter drop\n", chain.field)
		b.WriteString("\t}\n")
	}
	b.WriteString("}\n")
	return b.String()
}

func writeSet(b *strings.Builder, name, kind string, prefixes []netip.Prefix, life time.Duration) {
	fmt.Fprintf(b, "\tset %s {\n\t\ttype %s\n\t\tflags interval, timeout\n", name, kind)
	if len(prefixes) > 0 {
		b.WriteString("\t\telements = {\n")
		for i, p := range prefixes {
			comma := ","
			if i == len(prefixes)-1 {
				comma = ""
			}
			text := p.String()
			if p.IsSingleIP() {
				text = p.Addr().String()
			}
			fmt.Fprintf(b, "\t\t\t%s timeout %ds%s\n", text, int(life.Round(time.Second).Seconds()), comma)
		}
		b.WriteString("\t\t}\n")
	}
	b.WriteString("\t}\n")
}
