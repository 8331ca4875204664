package leaks

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
)

func (n Node) tables(ctx context.Context) ([]history.Thing, error) {
	lines, err := n.lines(ctx, "nft", "list", "tables")
	if err != nil {
		return nil, err
	}
	var all []history.Thing
	for _, line := range lines { // For example "table inet seatrial_r1_3".
		word := strings.Fields(line)
		if len(word) != 3 || word[0] != "table" {
			return all, fmt.Errorf("nft list tables: a line is %q", line)
		}
		lazy := slices.Contains([]string{"filter", "mangle", "nat", "raw", "security"}, word[2])
		if lazy && (word[1] == "ip" || word[1] == "ip6") { // iptables makes them on first use.
			continue
		}
		all = append(all, named("%s %s", word[1], word[2]))
	}
	return all, nil
}

// ofOthers reports whether a line names a chain that kube-proxy, a network plugin or the container engine maintains.
func ofOthers(line string) bool {
	prefixes := []string{"KUBE-", "CNI", "DOCKER", "KIND-MASQ"}
	return slices.ContainsFunc(strings.Fields(line), func(word string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(word, p) })
	})
}

func (n Node) filters(ctx context.Context) ([]history.Thing, error) {
	var all []history.Thing
	for _, family := range []string{"iptables", "ip6tables"} {
		lines, err := n.lines(ctx, family+"-save")
		if err != nil {
			return all, err
		}
		table := ""
		for _, line := range lines {
			switch {
			case strings.HasPrefix(line, "*"):
				table = line[1:]
			case strings.HasPrefix(line, ":") && !ofOthers(line[1:]): // For example ":INPUT ACCEPT [12:34]".
				word := append(strings.Fields(line[1:]), "", "")
				t := named("%s %s chain %s", family, table, word[0])
				t.Is = "policy " + word[1]
				if t.Is != "policy ACCEPT" { // An unused table has only these.
					all = append(all, t)
				}
			case strings.HasPrefix(line, "-A ") && !ofOthers(line):
				all = append(all, named("%s %s %s", family, table, line))
			}
		}
	}
	return all, nil
}

// decoded runs ip or tc and decodes its output. No output is an empty list.
func (n Node) decoded(ctx context.Context, argv ...string) ([]map[string]any, error) {
	out, err := n.Run(ctx, argv, "")
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(out) == "" {
		return nil, nil
	}
	var list []map[string]any
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, fmt.Errorf("%s: decode answer %.80q: %w", strings.Join(argv, " "), out, err)
	}
	return list, nil
}

func (n Node) routes(ctx context.Context) ([]history.Thing, error) {
	var all []history.Thing
	for _, family := range []string{"-4", "-6"} {
		list, err := n.decoded(ctx, "ip", family, "-json", "route", "show", "table", "all")
		if err != nil {
			return all, err
		}
		for _, r := range list {
			kind, _ := r["type"].(string)
			nowhere := slices.Contains([]string{"blackhole", "unreachable", "prohibit", "throw"}, kind)
			if nowhere && r["dev"] != "lo" { // The kernel's own are at the loopback device.
				table := cmp.Or[any](r["table"], "main")
				all = append(all, named("IPv%s %s %v table %v", family[1:], kind, r["dst"], table))
			}
		}
	}
	return all, nil
}

func (n Node) routeRules(ctx context.Context) ([]history.Thing, error) {
	var all []history.Thing
	for _, family := range []string{"-4", "-6"} {
		list, err := n.decoded(ctx, "ip", family, "-json", "rule", "show")
		if err != nil {
			return all, err
		}
		for _, r := range list {
			text, err := json.Marshal(r) // In the order of the keys.
			if err != nil {
				return all, err
			}
			all = append(all, named("IPv%s %s", family[1:], text))
		}
	}
	return all, nil
}

func (n Node) qdiscs(ctx context.Context) ([]history.Thing, error) {
	list, err := n.decoded(ctx, "tc", "-json", "qdisc", "show")
	if err != nil {
		return nil, err
	}
	plain := []string{"noqueue", "mq", "fq_codel", "fq", "pfifo_fast", "pfifo", "noop"} // The kernel's defaults.
	var all []history.Thing
	for _, q := range list {
		kind, _ := q["kind"].(string)
		if !slices.Contains(plain, kind) {
			all = append(all, named("%s on %v", kind, q["dev"]))
		}
	}
	return all, nil
}
