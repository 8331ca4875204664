package faulttest_test

import (
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/fault/network"
	"github.com/seatrial/seatrial/chaos/history"
)

// TestADNSServerThatAnswersIsFound ends the cut during the hold, and has DNS down before the act.
func TestADNSServerThatAnswersIsFound(t *testing.T) {
	for _, tc := range []struct {
		name        string
		at          history.FaultStage
		change      func(w *world)
		stage, says string
	}{
		{"the cut ends early", history.StageConfirmed, func(w *world) { clear(w.nodes["c-worker"].tables) }, "hold",
			"UDP pod mysql-1 -> 10.244.0.9:53 is answered"},
		{"DNS is away before", history.StageIntent, func(w *world) {
			for _, a := range dnsAddresses() {
				delete(w.places(), netip.MustParseAddr(a))
			}
		}, "inject",
			"no DNS server answers pod mysql-1 before the cut: UDP 10.96.0.10:53"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				def := network.DNSBlock()
				_, err := faulttest.Run(t.Context(), def, w.bench(t, def.Name), func(f history.Fault) {
					if f.Stage == tc.at {
						w.mu.Lock()
						defer w.mu.Unlock()
						tc.change(w)
					}
				})
				if stageOf(err) != tc.stage || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("got %v, want %s: %s", err, tc.stage, tc.says)
				}
			})
		})
	}
}

// TestTheRestOfThePodGoesOn connects from the victim's pod to another pod while its DNS is cut.
func TestTheRestOfThePodGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		def := network.DNSBlock()
		_, err := faulttest.Run(t.Context(), def, w.bench(t, def.Name), func(f history.Fault) {
			if f.Stage != history.StageConfirmed {
				return
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			for a, at := range w.places() {
				if at.pod != peerPod {
					continue
				}
				me := place{m: w.nodes["c-worker"], pod: "mysql-1"}
				if connected, _ := w.handshake(w.addressOf(me, a), a); !connected {
					t.Errorf("%s does not connect", a)
				}
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// TestADeadServerIsNoneThatIsCut has a server in the pod's resolv.conf that nobody is.
func TestADeadServerIsNoneThatIsCut(t *testing.T) {
	def := network.DNSBlock()
	dead := func(w *world) { w.resolver += "\nnameserver 10.9.9.9" }
	inWorld(t, def, dead, func(t *testing.T, _ *world, b faulttest.Bench) {
		r, err := faulttest.Run(t.Context(), def, b, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, stage := range []history.FaultStage{history.StageConfirmed, history.StageConfirmedHealed} {
			got := evidenceOf(r, stage)
			if !strings.Contains(got, "10.96.0.10:53") || strings.Contains(got, "10.9.9.9") {
				t.Errorf("%s: got %q", stage, got)
			}
		}
	})
}

// TestALostLookupMakesNoDeadServer loses the first UDP request before the cut.
func TestALostLookupMakesNoDeadServer(t *testing.T) {
	def := network.DNSBlock()
	inWorld(t, def, func(w *world) { w.unheard = "udp" }, func(t *testing.T, w *world, b faulttest.Bench) {
		_, err := faulttest.Run(t.Context(), def, b, func(f history.Fault) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if f.Stage == history.StageHealed {
				delete(w.places(), netip.MustParseAddr(dnsAddresses()[2]))
			}
		})
		if want := "UDP pod mysql-1 -> 10.96.0.10:53 is not answered"; stageOf(err) != "confirm healed" ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	})
}

// TestACacheOnTheNodeIsCutToo has the pod ask the cache of its node, as with NodeLocal DNSCache.
func TestACacheOnTheNodeIsCutToo(t *testing.T) {
	def := network.DNSBlock()
	cached := func(w *world) { w.resolver = dnsCache }
	inWorld(t, def, cached, func(t *testing.T, w *world, b faulttest.Bench) {
		r, err := faulttest.Run(t.Context(), def, b, nil)
		if err != nil {
			t.Fatal(err)
		}
		for stage, want := range map[history.FaultStage]string{
			history.StageConfirmed:       "UDP pod mysql-1 -> 169.254.20.10:53 is not answered",
			history.StageConfirmedHealed: "UDP pod mysql-1 -> 169.254.20.10:53 is answered",
		} {
			if got := evidenceOf(r, stage); !strings.Contains(got, want) {
				t.Errorf("%s: got %q, want %q", stage, got, want)
			}
		}
	})
}
