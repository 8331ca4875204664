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
			"TCP pod mysql-1 -> 10.96.0.10:53 is not answered"},
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
