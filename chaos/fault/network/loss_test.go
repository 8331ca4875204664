package network

import (
	"net/netip"
	"testing"
)

// TestLossIsJudgedWhereItIsMeasured has nodes whose links have addresses of a family that the API does not know: our
// rules meet them, and nothing is sent there to be counted.
func TestLossIsJudgedWhereItIsMeasured(t *testing.T) {
	at := func(v4, v6 string) end {
		return end{addresses: []netip.Addr{netip.MustParseAddr(v4)},
			prefixes: []netip.Prefix{netip.MustParsePrefix(v4 + "/32"), netip.MustParsePrefix(v6 + "/128")}}
	}
	l := &loss{&filtered{rules: filter{percent: 30}, sides: sides{
		mine: at("172.18.0.3", "fc00::3"), others: []end{at("172.18.0.4", "fc00::4")},
	}}}
	counted := counters{"cut_out4": 300, "went_out4": 700, "cut_in4": 300, "went_in4": 700, "went_out6": 3}
	for _, v6 := range []bool{false, true} {
		want := 2
		if v6 {
			want = 4
			for _, e := range []*end{&l.sides.mine, &l.sides.others[0]} {
				e.addresses = append(e.addresses, e.prefixes[1].Addr())
			}
		}
		if got := l.sampleRules(counted); len(got) != want {
			t.Errorf("IPv6 known to the API: %t: %+v, want %d samples", v6, got, want)
		}
	}
}
