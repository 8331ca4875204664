package network

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// lined makes a fault be one of the line between the node and the far one.
func (l lab) lined(t *testing.T, f *line) {
	t.Helper()
	f.find = func(context.Context) (sides, error) {
		return sides{mine: l.node.end(0), others: []end{l.far.end(0)}}, nil
	}
	t.Cleanup(func() {
		if err := undo.QdiscGone(context.Background(), undo.On(l.node), f.Owner, "cable0"); err != nil {
			t.Error(err)
		}
		if left := l.node.must("tc", "qdisc", "show", "dev", "cable0"); !strings.Contains(left, "noqueue") {
			t.Errorf("left over: %s", left)
		}
	})
}

// TestBandwidthOnARealKernel makes a line narrow and wide again, and then something else in its place.
func TestBandwidthOnARealKernel(t *testing.T) {
	rates := []int{10_000}
	if os.Getenv("SEATRIAL_LONG") == "1" {
		rates = append(rates, minKbits, maxKbits)
	} else {
		t.Log("left to make long: the lowest and the highest rate")
	}
	for _, kbits := range rates {
		t.Run(strconv.Itoa(kbits), func(t *testing.T) {
			l := newLab(t)
			env := fault.Env{Node: l.node, RunID: "test-1", Clock: bootclock.Now}
			spec := plan.Fault{Params: plan.Params{"kbits": kbits}, Hold: plan.Duration(time.Second)}
			made, err := Bandwidth().New(spec, 3, env)
			if err != nil {
				t.Fatal(err)
			}
			b := made.(*bandwidth)
			l.lined(t, b.line)
			if _, err := b.Undo(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := b.Inject(t.Context()); err != nil {
				t.Fatal(err)
			}
			shown, err := b.Confirm(t.Context())
			tell(t, "shown", shown)
			if err != nil {
				t.Fatal(err)
			}
			l.node.must("tc", "qdisc", "replace", "dev", "cable0", "root", "handle", b.Owner.Qdisc(), "tbf", "rate",
				"1gbit", "burst", "1mb", "latency", "400ms")
			if _, err := b.Held(t.Context()); err == nil || !strings.Contains(err.Error(), "do not leave as planned") {
				t.Errorf("another rate passes for the one that was planned: %v", err)
			}
			for range 2 {
				if err := undo.QdiscGone(t.Context(), undo.On(l.node), b.Owner, "cable0"); err != nil {
					t.Fatal(err)
				}
			}
			healed, err := b.restored(t.Context())
			tell(t, "healed", healed)
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestADeviceOfAnotherIsLeftAlone has a queueing discipline that is not ours on the device.
func TestADeviceOfAnotherIsLeftAlone(t *testing.T) {
	l := newLab(t)
	env := fault.Env{Node: l.node, RunID: "test-1", Clock: bootclock.Now}
	made, err := Bandwidth().New(
		plan.Fault{Params: plan.Params{"kbits": 1000}, Hold: plan.Duration(time.Second)},
		3,
		env,
	)
	if err != nil {
		t.Fatal(err)
	}
	b := made.(*bandwidth)
	b.find = func(context.Context) (sides, error) {
		return sides{mine: l.node.end(0), others: []end{l.far.end(0)}}, nil
	}
	l.node.must("tc", "qdisc", "add", "dev", "cable0", "root", "handle", "7:", "pfifo", "limit", "9")
	if _, err := b.Undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Inject(t.Context()); err == nil {
		t.Error("it is put in its place")
	}
	if err := undo.QdiscGone(t.Context(), undo.On(l.node), b.Owner, "cable0"); err != nil {
		t.Error(err)
	}
	if is, err := clusters.Run(t.Context(), l.node, "tc", "qdisc", "show", "dev", "cable0"); err != nil ||
		!strings.Contains(is, "pfifo 7: root") {
		t.Errorf("got %q, %v", is, err)
	}
}
