package main

import (
	"fmt"
	"net/netip"
	"strings"
)

// masqueradeTable is the nftables table that is ours.
const masqueradeTable = "podnet"

// renderMasquerade writes the nftables commands that replace our table in one transaction: packets from this node's
// pods to anywhere outside of the cluster leave with the node's address.
func renderMasquerade(n network) string {
	var b strings.Builder
	// Naming the table before deleting it makes deleting legal when it is not there.
	fmt.Fprintf(&b, "table inet %s\ndelete table inet %s\ntable inet %s {\n",
		masqueradeTable, masqueradeTable, masqueradeTable)
	writeSet(&b, "inside4", "ipv4_addr", n.Inside, netip.Addr.Is4)
	writeSet(&b, "inside6", "ipv6_addr", n.Inside, netip.Addr.Is6)
	b.WriteString("\tchain postrouting {\n\t\ttype nat hook postrouting priority srcnat; policy accept;\n")
	for _, own := range n.Own {
		family, set := "ip", "inside4"
		if own.Addr().Is6() {
			family, set = "ip6", "inside6"
		}
		fmt.Fprintf(&b, "\t\t%s saddr %s %s daddr != @%s masquerade\n", family, own, family, set)
	}
	b.WriteString("\t}\n}\n")
	return b.String()
}

func writeSet(b *strings.Builder, name, kind string, all []netip.Prefix, keep func(netip.Addr) bool) {
	var elements []string
	for _, p := range all {
		if keep(p.Addr()) {
			elements = append(elements, p.String())
		}
	}
	fmt.Fprintf(b, "\tset %s {\n\t\ttype %s\n\t\tflags interval\n\t\tauto-merge\n", name, kind)
	if len(elements) > 0 {
		fmt.Fprintf(b, "\t\telements = { %s }\n", strings.Join(elements, ", "))
	}
	b.WriteString("\t}\n")
}
