package network

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// TestEveryCutOnARealKernel takes every kind of cut through its life, between two nodes and between two pods.
// Cuts of some flows, and all shares but one, take minutes: they are for make long.
func TestEveryCutOnARealKernel(t *testing.T) {
	kinds := []string{""}
	if os.Getenv("SEATRIAL_LONG") == "1" {
		kinds = append(kinds, flowsEstablished, flowsNew)
	} else {
		t.Log("left to make long: cuts of established and of new flows alone")
	}
	for _, pod := range []bool{false, true} {
		for _, direction := range []string{"", directionIn, directionOut} {
			t.Run(fmt.Sprintf("pod=%t/direction=%s", pod, direction), func(t *testing.T) {
				t.Parallel() // They wait more than they do.
				l := newLab(t)
				for _, flows := range kinds {
					for _, reject := range []bool{false, true} {
						t.Run(fmt.Sprintf("flows=%s/reject=%t", flows, reject), func(t *testing.T) {
							live(
								t,
								l.filtered(
									t,
									filter{packets: packets{Direction: direction, Flows: flows, Reject: reject}},
									pod,
								),
							)
							if left := l.node.must("nft", "list", "ruleset"); left != "" {
								t.Errorf("left over:\n%s", left)
							}
						})
					}
				}
			})
		}
	}
}

// live takes a fault from its injection to its end.
func live(t *testing.T, f fault.Fault) {
	t.Helper()
	ctx := t.Context()
	if err := f.Inject(ctx); err != nil {
		t.Fatal(err)
	}
	shown, err := f.Confirm(ctx)
	tell(t, "shown", shown)
	if err != nil {
		t.Fatal(err)
	}
	if h, ok := f.(fault.Holder); ok {
		if _, err := h.Held(ctx); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		if err := f.Heal(ctx); err != nil {
			t.Fatal(err)
		}
	}
	healed, err := f.ConfirmHealed(ctx)
	tell(t, "healed", healed)
	if err != nil {
		t.Error(err)
	}
}

func tell(t *testing.T, stage string, facts []fault.Fact) {
	t.Helper()
	for _, f := range facts {
		t.Log(stage, f.Sentence)
	}
}

// TestACutFromAControlPlaneOnNoNode cuts a node off from API servers that it alone can be asked about.
func TestACutFromAControlPlaneOnNoNode(t *testing.T) {
	for _, direction := range []string{"", directionIn} {
		t.Run("direction="+direction, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			s := l.filtered(t, filter{packets: packets{Direction: direction}}, false)
			find := s.find
			s.find = func(ctx context.Context) (sides, error) {
				found, err := find(ctx)
				found.others[0].node = nil
				return found, err
			}
			live(t, s)
		})
	}
}

// TestACutOfOneFamilyIsNone cuts IPv4 alone: everything goes on over IPv6, and that must be said.
func TestACutOfOneFamilyIsNone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := l.filtered(t, filter{}, false)
	s.families = []string{"ipv4"}
	if err := s.Inject(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := s.Confirm(t.Context())
	if err == nil || !strings.Contains(err.Error(), "[fd99::1]:6443 connects") {
		t.Errorf("got %v", err)
	}
}

// TestTheKernelEndsACut leaves a cut alone: it must be over when its life is.
func TestTheKernelEndsACut(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := l.filtered(t, filter{}, false)
	s.Life = 20 * time.Second // The cut must be shown meanwhile, on a busy machine too.
	begin := time.Now()
	if err := s.Inject(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.probesMatch(t.Context()); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := s.open(t.Context()); err == nil {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatal("the kernel has not ended the cut")
		}
	}
	if took := time.Since(begin); took < s.Life {
		t.Errorf("the kernel ended the cut of %s after %s", s.Life, took)
	}
	if _, err := s.Held(t.Context()); err == nil || !strings.Contains(err.Error(), "ended by itself") {
		t.Errorf("got %v, want that it has ended by itself", err)
	}
}

// TestSharesOnARealKernel loses shares of what goes either way, and of one way alone.
func TestSharesOnARealKernel(t *testing.T) {
	l := newLab(t)
	specs := []filter{{percent: 30}}
	if os.Getenv("SEATRIAL_LONG") == "1" {
		specs = append(specs, filter{percent: 1}, filter{percent: 90},
			filter{percent: 30, packets: packets{Direction: directionIn}},
			filter{percent: 30, packets: packets{Direction: directionOut}})
	} else {
		t.Log("left to make long: shares of 1 and 90 %, and of one direction")
	}
	for _, spec := range specs {
		t.Run(fmt.Sprintf("percent=%d/direction=%s", spec.percent, spec.Direction), func(t *testing.T) {
			f := &loss{l.filtered(t, spec, false)}
			if err := f.Inject(t.Context()); err != nil {
				t.Fatal(err)
			}
			shown, err := f.Confirm(t.Context())
			tell(t, "shown", shown)
			if err != nil {
				t.Error(err)
			}
			sabotaged := ruleset(f.Owner.Table(), filter{other: f.rules.other, percent: spec.percent/2 + 50}, f.Life)
			if _, err := undo.On(l.node)(t.Context(), []string{"nft", "-f", "-"}, sabotaged); err != nil {
				t.Fatal(err)
			}
			if _, err := f.Held(t.Context()); err == nil && spec.percent != 90 {
				t.Error("another share passes for the one that was planned")
			}
			if err := f.filtered.Heal(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := f.filtered.ConfirmHealed(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := clusters.Run(t.Context(), l.node, "nft", "list", "ruleset"); err != nil {
		t.Error(err)
	}
}

// TestNeighborsAreFoundInACutOfOneDirection has the kernel look for its neighbor anew while a cut is held, as it does
// after half a minute by itself: what is not cut must go on over IPv6 as well.
func TestNeighborsAreFoundInACutOfOneDirection(t *testing.T) {
	t.Parallel()
	for _, direction := range []string{directionIn, directionOut} {
		t.Run(direction, func(t *testing.T) {
			l := newLab(t)
			s := l.filtered(t, filter{packets: packets{Direction: direction}}, false)
			if err := s.Inject(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, at := range []*space{l.node, l.far} {
				at.must("ip", "neigh", "flush", "dev", "cable0")
			}
			if _, err := s.probesMatch(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
