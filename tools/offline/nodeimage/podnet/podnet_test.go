package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files")

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
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func node(name string, cidrs, ips []string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: cidrs}}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}}
	for _, ip := range ips {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	return n
}

func dualStack() []*corev1.Node {
	return []*corev1.Node{
		node("a", []string{"10.244.0.0/24", "fd00:10:244::/64"}, []string{"172.18.0.2", "fc00::2"}),
		node("b", []string{"10.244.1.0/24", "fd00:10:244:1::/64"}, []string{"172.18.0.3", "fc00::3"}),
		node("v4-only", []string{"10.244.2.0/24", "fd00:10:244:2::/64"}, []string{"172.18.0.4"}),
		node("new", nil, []string{"172.18.0.5"}),
	}
}

func TestPlan(t *testing.T) {
	got, err := plan("b", dualStack())
	if err != nil {
		t.Fatal(err)
	}
	prefix, addr := netip.MustParsePrefix, netip.MustParseAddr
	want := []route{
		{prefix("10.244.0.0/24"), addr("172.18.0.2")},
		{prefix("10.244.2.0/24"), addr("172.18.0.4")},
		{prefix("fd00:10:244::/64"), addr("fc00::2")},
	}
	if len(got.Routes) != len(want) {
		t.Fatalf("routes = %v, want %v", got.Routes, want)
	}
	for i := range want {
		if got.Routes[i] != want[i] {
			t.Errorf("route %d = %v, want %v", i, got.Routes[i], want[i])
		}
	}
	golden(t, "dual.nft", renderMasquerade(got))
	config, err := renderConflist(got.Own, 1500)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "dual.conflist", string(config))
}

func TestSingleFamily(t *testing.T) {
	n, err := plan("a", []*corev1.Node{node("a", []string{"10.244.0.0/24"}, []string{"172.18.0.2"})})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "v4.nft", renderMasquerade(n))
	config, err := renderConflist(n.Own, 0)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "v4.conflist", string(config))
}

func TestPlanErrors(t *testing.T) {
	for name, word := range map[string]string{"gone": `no node "gone"`, "new": "no pod range yet"} {
		if _, err := plan(name, dualStack()); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("plan(%q): error %v does not say %q", name, err, word)
		}
	}
	if _, err := plan("a", []*corev1.Node{node("a", []string{"10.0.0.0/99"}, nil)}); err == nil {
		t.Error("a range that is none gives no error")
	}
}

func TestDifferenceMakesHaveIntoWant(t *testing.T) {
	routes := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) route {
		third := rapid.ByteRange(0, 5).Draw(t, "range")
		return route{
			netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, third, 0}), 24),
			netip.AddrFrom4([4]byte{172, 18, 0, rapid.ByteRange(2, 4).Draw(t, "via")}),
		}
	}), 0, 6, func(r route) netip.Prefix { return r.Dst })
	rapid.Check(t, func(t *rapid.T) {
		have, want := routes.Draw(t, "have"), routes.Draw(t, "want")
		add, remove := difference(have, want)
		now := make(map[route]bool)
		for _, r := range have {
			now[r] = true
		}
		for _, r := range remove {
			delete(now, r)
		}
		for _, r := range add {
			if now[r] {
				t.Fatalf("%v is added although it is there", r)
			}
			now[r] = true
		}
		if len(now) != len(want) {
			t.Fatalf("have %v, want %v", now, want)
		}
		for _, r := range want {
			if !now[r] {
				t.Fatalf("%v is missing", r)
			}
		}
	})
}

// fakeHost is a kernel that remembers.
type fakeHost struct {
	have             []route
	added, removed   int
	rules            []string
	forwarded        map[bool]bool
	failRules        error
	conflistAtChange func() bool
}

func (h *fakeHost) routes() ([]route, error) { return h.have, nil }

func (h *fakeHost) addRoute(r route) error {
	h.added++
	h.have = append(h.have, r)
	return nil
}

func (h *fakeHost) removeRoute(r route) error {
	h.removed++
	for i := range h.have {
		if h.have[i] == r {
			h.have = append(h.have[:i:i], h.have[i+1:]...)
			break
		}
	}
	return nil
}

func (h *fakeHost) mtu([]netip.Addr) (int, error) { return 1400, nil }

func (h *fakeHost) applyRules(_ context.Context, rules string) error {
	if h.conflistAtChange() {
		return errors.New("the network configuration is there before the rules")
	}
	h.rules = append(h.rules, rules)
	return h.failRules
}

func (h *fakeHost) forward(is6 bool) error { h.forwarded[is6] = true; return nil }

func (h *fakeHost) changes(context.Context) (<-chan struct{}, error) { return nil, nil }

func TestRepair(t *testing.T) {
	dir := t.TempDir()
	config, alivePath := filepath.Join(dir, "net.d", "podnet.conflist"), filepath.Join(dir, "run", "alive")
	h := &fakeHost{
		forwarded: make(map[bool]bool), failRules: errors.New("no nft"),
		have: []route{{netip.MustParsePrefix("10.244.9.0/24"), netip.MustParseAddr("172.18.0.9")}},
	}
	exists := func() bool { _, err := os.Stat(config); return err == nil }
	h.conflistAtChange = exists
	d := &daemon{
		node: "b", log: slog.New(slog.DiscardHandler), kernel: h, conflist: config, alive: alivePath,
	}
	if err := d.repair(t.Context(), dualStack()); err == nil || exists() {
		t.Fatalf("error = %v, configured = %v: a node without its rules must not be ready", err, exists())
	}
	h.failRules = nil
	if err := d.repair(t.Context(), dualStack()); err != nil {
		t.Fatal(err)
	}
	if h.added != 3 || h.removed != 1 || !h.forwarded[false] || !h.forwarded[true] || !exists() {
		t.Errorf("added %d, removed %d, forwarded %v, configured %v", h.added, h.removed, h.forwarded, exists())
	}
	if err := alive(alivePath, time.Now()); err != nil {
		t.Error(err)
	}
	if err := alive(alivePath, time.Now().Add(time.Hour)); err == nil {
		t.Error("an hour without a look counts as alive")
	}
	rules := len(h.rules)
	if err := d.repair(t.Context(), dualStack()); err != nil {
		t.Fatal(err)
	}
	if h.added != 3 || h.removed != 1 || len(h.rules) != rules {
		t.Error("a second look at a good node changes something")
	}
	// A reboot takes the routes away, and a lost one comes back.
	h.have = h.have[:1]
	if err := d.repair(t.Context(), dualStack()); err != nil || len(h.have) != 3 {
		t.Errorf("after a loss: %d routes, %v, want 3", len(h.have), err)
	}
}
