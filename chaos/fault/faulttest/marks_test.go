package faulttest_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/fault/object"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// managed takes away what kubeadm's control plane can do, and makes the next two updates conflict.
func managed(w *world) {
	able := slices.DeleteFunc(w.cluster.Able.Can, func(c string) bool { return c == clusters.CanStaticPods })
	w.cluster.Able.Can, w.busy = able, 2
}

func markedByAPI() []fault.Definition {
	return []fault.Definition{object.Cordon(), object.Drain(), object.OutOfService(), object.PodQuota()}
}

// onControlPlane returns what was asked of the control plane's node.
func onControlPlane(w *world) (asked []string) {
	for _, a := range w.cluster.Transcript.Acts() {
		if a.Node == "c-control-plane" {
			asked = append(asked, a.String())
		}
	}
	return asked
}

func TestMarksWithoutAControlPlaneNode(t *testing.T) {
	for _, def := range markedByAPI() {
		t.Run(def.Name, func(t *testing.T) {
			inWorld(t, def, managed, func(t *testing.T, w *world, b faulttest.Bench) {
				r, err := faulttest.Run(t.Context(), def, b, func(f history.Fault) {
					if f.Stage == history.StageConfirmed {
						w.mu.Lock()
						defer w.mu.Unlock()
						w.busy = 2
					}
				})
				if err != nil || !slices.Contains(r.Stages(), history.StageConfirmedHealed) {
					t.Errorf("stages %q, %v", r.Stages(), err)
				}
				if asked := onControlPlane(w); len(asked) > 0 {
					t.Errorf("asked of the control plane's node: %q", asked)
				}
				w.looksUntouched(t)
				if left := w.away(); len(left) > 0 {
					t.Errorf("left %q", left)
				}
			})
		})
	}
}

// TestMarksAreRemovedBesideTheCluster abandons faults: the watchdog undoes them, and so does a heal, for the right run.
func TestMarksAreRemovedBesideTheCluster(t *testing.T) {
	for _, def := range markedByAPI() {
		for _, by := range []string{"watchdog", "heal"} {
			t.Run(def.Name+"/"+by, func(t *testing.T) {
				inWorld(t, def, managed, func(t *testing.T, w *world, b faulttest.Bench) {
					injected(t, def, b)
					if by == "watchdog" {
						time.Sleep(fault.Life(b.Spec) + 3*time.Second)
						if left := w.away(); len(left) > 0 {
							t.Errorf("left %q", left)
						}
					}
					other, err := fault.Unmark(t.Context(), b.Env.Kube, undo.Of("r2", 0), fault.MarkedResources()...)
					if err != nil || len(other) > 0 {
						t.Errorf("of another run: %q, %v", other, err)
					}
					did, err := fault.Unmark(t.Context(), b.Env.Kube, nil, fault.MarkedResources()...)
					if want := map[string]int{"heal": 1}[by]; err != nil || len(did) != want {
						t.Errorf("healed %q, %v; want %d", did, err, want)
					}
					w.looksUntouched(t)
				})
			})
		}
	}
}

func TestMarksNeedSomebodyToRemoveThem(t *testing.T) {
	inWorld(t, object.Cordon(), managed, func(t *testing.T, _ *world, b faulttest.Bench) {
		b.Env.Watchdog = nil
		_, err := faulttest.Run(t.Context(), object.Cordon(), b, nil)
		if err == nil || !strings.Contains(err.Error(), "there is no watchdog") {
			t.Errorf("got %v", err)
		}
	})
}
