package network

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files anew")

func verifyNoLeaks(m *testing.M) { goleak.VerifyTestMain(m) }

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got); go test -update writes it anew:\n%s", path, d)
	}
}

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, s := range texts {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

func TestRulesetGolden(t *testing.T) {
	from := prefixes("fc00::2/128", "172.18.0.2/32", "10.244.0.0/24", "fd00:10:244::/64", "172.18.0.2/32")
	pods := setOf(prefixes("10.244.1.7/32", "fd00:10:244:1::7/128"), nil)
	for name, sev := range map[string]filter{
		"both.nft":        {other: setOf(from, nil)},
		"ipv4.nft":        {other: setOf(from, []string{"ipv4"})},
		"in.nft":          {other: setOf(from, nil), packets: packets{Direction: directionIn}},
		"out-new.nft":     {other: setOf(from, nil), packets: packets{Direction: directionOut, Flows: flowsNew}},
		"established.nft": {other: setOf(from, nil), packets: packets{Flows: flowsEstablished}},
		"reject.nft":      {other: setOf(from, nil), packets: packets{Reject: true}},
		"loss.nft":        {other: setOf(from, nil), percent: 30},
		"pods.nft":        {other: setOf(from, nil), own: pods},
		"port.nft":        {other: setOf(from, nil), own: pods, packets: packets{Direction: directionOut}, port: 53},
		"pods-reject.nft": {
			other: setOf(from, nil), own: pods, packets: packets{Direction: directionOut, Reject: true},
		},
	} {
		golden(t, name, ruleset("seatrial_r1_3", sev, 95*time.Second+500*time.Millisecond))
	}
}

func TestCutOff(t *testing.T) {
	for _, tc := range []struct {
		name     string
		from     []netip.Prefix
		families []string
		v4, v6   []netip.Prefix
	}{
		{"nothing", nil, nil, nil, nil},
		{"order, twice", prefixes("10.0.0.2/32", "10.0.0.1/32", "10.0.0.2/32"), nil,
			prefixes("10.0.0.1/32", "10.0.0.2/32"), nil},
		{"inside another", prefixes("10.0.0.7/32", "10.0.0.0/24", "fd00::1/128"), nil,
			prefixes("10.0.0.0/24"), prefixes("fd00::1/128")},
		{"host bits", prefixes("10.0.0.7/24"), nil, prefixes("10.0.0.0/24"), nil},
		{"one family", prefixes("10.0.0.1/32", "fd00::1/128"), []string{"ipv6"}, nil, prefixes("fd00::1/128")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := setOf(tc.from, tc.families)
			same := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
			if d := cmp.Diff(tc.v4, got.v4, same); d != "" {
				t.Errorf("IPv4 (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tc.v6, got.v6, same); d != "" {
				t.Errorf("IPv6 (-want +got):\n%s", d)
			}
		})
	}
}

// TestCutOffCoversAndNeverOverlaps holds what nftables asks of a set of intervals, and what a partition asks of a cut.
func TestCutOffCoversAndNeverOverlaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) netip.Prefix {
			b := rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "bytes")
			return netip.PrefixFrom(netip.AddrFrom4([4]byte(b)), rapid.IntRange(1, 32).Draw(t, "bits"))
		}), 0, 12).Draw(t, "from")
		got := setOf(from, nil).v4
		for i := range got {
			for j := range got[:i] {
				if got[i].Overlaps(got[j]) {
					t.Fatalf("%s overlaps %s", got[i], got[j])
				}
			}
		}
		for _, p := range from {
			covered := false
			for _, q := range got {
				covered = covered || q.Contains(p.Addr()) && q.Bits() <= p.Bits()
			}
			if !covered {
				t.Fatalf("%s is not covered by %v", p, got)
			}
		}
	})
}
