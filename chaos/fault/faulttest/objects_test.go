package faulttest_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/fault/object"
	"github.com/seatrial/seatrial/chaos/fault/storage"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
)

// evidenceOf returns what a stage has shown, one sentence a line.
func evidenceOf(r *faulttest.Recorder, stage history.FaultStage) string {
	for _, f := range r.Facts() {
		if f.Stage == stage {
			return strings.Join(f.Evidence, "\n")
		}
	}
	return ""
}

func stageOf(err error) string {
	var stage *fault.StageError
	if errors.As(err, &stage) {
		return stage.Stage
	}
	return ""
}

// inWorld runs a test of one fault in a world that was changed first.
func inWorld(t *testing.T, def fault.Definition, change func(*world),
	test func(t *testing.T, w *world, b faulttest.Bench),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		b := w.bench(t, def.Name)
		change(w)
		test(t, w, b)
	})
}

func TestANodeThatIsNotReadyIsEmptiedWhenOutOfService(t *testing.T) {
	notReady := func(w *world) { w.notReady = true }
	inWorld(t, object.OutOfService(), notReady, func(t *testing.T, _ *world, b faulttest.Bench) {
		r, err := faulttest.Run(t.Context(), object.OutOfService(), b, nil)
		shown := evidenceOf(r, history.StageConfirmed)
		if err != nil || !strings.Contains(shown, "has no pod") || !strings.Contains(shown, "is Unknown") {
			t.Errorf("got %v, evidence %s", err, shown)
		}
	})
}

func TestWhatOthersDidToANodeIsLeftAlone(t *testing.T) {
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	off := func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints,
			corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "theirs", Effect: corev1.TaintEffectNoExecute})
	}
	for _, tc := range []struct {
		def fault.Definition
		do  func(*corev1.Node)
	}{{object.Cordon(), cordoned}, {object.OutOfService(), off}} {
		t.Run(tc.def.Name, func(t *testing.T) {
			change := func(w *world) { tc.do(w.known["c-worker"]) }
			inWorld(t, tc.def, change, func(t *testing.T, w *world, b faulttest.Bench) {
				r, err := faulttest.Run(t.Context(), tc.def, b, nil)
				if stageOf(err) != "inject" || !strings.Contains(err.Error(), "already") {
					t.Errorf("got %v, want an error of inject", err)
				}
				if !strings.Contains(evidenceOf(r, history.StageConfirmedHealed), "does not bear our mark") {
					t.Errorf("facts %+v", r.Facts())
				}
				n := w.known["c-worker"]
				if !n.Spec.Unschedulable && len(n.Spec.Taints) != 2 || n.ResourceVersion != "1" {
					t.Errorf("the Node was changed: %+v", n.Spec)
				}
			})
		})
	}
}

func TestAFaultOfANodeThatIsTakenBackIsFound(t *testing.T) {
	for _, tc := range []struct {
		def  fault.Definition
		undo func(*corev1.Node)
	}{
		{object.Cordon(), func(n *corev1.Node) { n.Spec.Unschedulable = false }},
		{object.OutOfService(), func(n *corev1.Node) { n.Spec.Taints = nil }},
	} {
		t.Run(tc.def.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				_, err := faulttest.Run(t.Context(), tc.def, w.bench(t, tc.def.Name), func(f history.Fault) {
					if f.Stage == history.StageConfirmed {
						w.mu.Lock()
						defer w.mu.Unlock()
						tc.undo(w.known["c-worker"])
					}
				})
				if stageOf(err) != "hold" {
					t.Errorf("got %v, want an error of hold", err)
				}
			})
		})
	}
}

// TestANodeIsChangedAgainWhenOthersAreQuicker refuses some updates, and then all.
func TestANodeIsChangedAgainWhenOthersAreQuicker(t *testing.T) {
	some := func(w *world) { w.busy = 3 }
	inWorld(t, object.Cordon(), some, func(t *testing.T, _ *world, b faulttest.Bench) {
		if _, err := faulttest.Run(t.Context(), object.Cordon(), b, nil); err != nil {
			t.Error(err)
		}
	})
	all := func(w *world) { w.busy = 1 << 20 }
	inWorld(t, object.Cordon(), all, func(t *testing.T, _ *world, b faulttest.Bench) {
		_, err := faulttest.Run(t.Context(), object.Cordon(), b, nil)
		if stageOf(err) != "inject" || !strings.Contains(err.Error(), "has been modified") {
			t.Errorf("got %v", err)
		}
	})
}

func TestADeletedNodeGetsBackWhatItHad(t *testing.T) {
	change := func(w *world) {
		w.moved = true
		w.known["c-worker"].Annotations["seatrial/cordon"] = "seatrial-r0-1" // Of another fault: not to be put back.
		w.known["c-worker"].Annotations["csi.volume.kubernetes.io/nodeid"] = "{}"
	}
	inWorld(t, object.NodeDelete(), change, func(t *testing.T, w *world, b faulttest.Bench) {
		r, err := faulttest.Run(t.Context(), object.NodeDelete(), b, nil)
		if err != nil {
			t.Fatal(err)
		}
		n := w.known["c-worker"]
		if d := cmp.Diff(map[string]string{"kubernetes.io/hostname": "c-worker", "zone": "one"}, n.Labels); d != "" {
			t.Errorf("labels (-want +got):\n%s", d)
		}
		if d := cmp.Diff(map[string]string{"made-by": "kind"}, n.Annotations); d != "" {
			t.Errorf("annotations (-want +got):\n%s", d)
		}
		if len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != "dedicated" {
			t.Errorf("taints %+v", n.Spec.Taints)
		}
		shown := evidenceOf(r, history.StageConfirmedHealed)
		if !strings.Contains(shown, "the range was 10.244.0.0/24 before") {
			t.Errorf("evidence %s", shown)
		}
	})
}

func TestAPodThatIsBeingDeletedIsNotDeletedAgain(t *testing.T) {
	ending := func(w *world) { w.terminate(time.Minute) }
	inWorld(t, object.PodDelete(), ending, func(t *testing.T, _ *world, b faulttest.Bench) {
		_, err := faulttest.Run(t.Context(), object.PodDelete(), b, nil)
		if stageOf(err) != "inject" || !strings.Contains(err.Error(), "already") {
			t.Errorf("got %v, want an error of inject", err)
		}
	})
	inWorld(t, object.PodForceDelete(), ending, func(t *testing.T, _ *world, b faulttest.Bench) {
		if _, err := faulttest.Run(t.Context(), object.PodForceDelete(), b, nil); err != nil {
			t.Error(err)
		}
	})
}

func TestAPodThatDoesNotComeBackIsAnError(t *testing.T) {
	for _, def := range []fault.Definition{object.PodDelete(), object.PodForceDelete()} {
		lost := func(w *world) { w.lost = true }
		inWorld(t, def, lost, func(t *testing.T, _ *world, b faulttest.Bench) {
			_, err := faulttest.Run(t.Context(), def, b, nil)
			if stageOf(err) != "confirm healed" || !strings.Contains(err.Error(), "there is none") {
				t.Errorf("%s: got %v", def.Name, err)
			}
		})
	}
}

func TestAFaultPointOfTheControllerIsSetOnTheControlPlane(t *testing.T) {
	def := storage.CSIPoint()
	inWorld(t, def, func(*world) {}, func(t *testing.T, w *world, b faulttest.Bench) {
		b.Spec.Params = plan.Params{"csi": plan.Params{
			"rpc": "ControllerUnpublishVolume", "act": "late", "code": "Internal", "times": 2,
		}}
		if err := faulttest.Conform(t.Context(), def, b); err != nil {
			t.Error(err)
		}
		b.Spec.Params = plan.Params{"csi": plan.Params{
			"rpc": "ControllerPublishVolume", "act": "delay", "delay": plan.Duration(90 * time.Second),
		}}
		f, err := def.New(b.Spec, 1, b.Env)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(faulttest.Arm(t.Context(), f, b), f.Inject(t.Context())); err != nil {
			t.Fatal(err)
		}
		time.Sleep(fault.Life(b.Spec) + time.Second) // And nobody comes back.
		left, err := undo.Node(t.Context(), w.cluster.Node("control-plane"), nil)
		if err != nil || !left.Nothing() {
			t.Errorf("left %s, %v", left, err)
		}
		var text strings.Builder
		for _, a := range w.cluster.Transcript.Acts() {
			if len(a.Argv) > 2 && a.Argv[2] == "set" {
				text.WriteString(a.String() + "\n")
			}
		}
		golden(t, "csi-point-controller.txt", text.String())
	})
}

func TestAFaultPointThatNoCallMetIsNoFault(t *testing.T) {
	quiet := func(w *world) { w.quiet = true }
	inWorld(t, storage.CSIPoint(), quiet, func(t *testing.T, _ *world, b faulttest.Bench) {
		r, err := faulttest.Run(t.Context(), storage.CSIPoint(), b, nil)
		want := "no call of NodeUnstageVolume for volume pvc-17 came"
		if stageOf(err) != "hold" || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error of hold", err)
		}
		if evidenceOf(r, history.StageConfirmedHealed) == "" {
			t.Errorf("it was not healed: %q", r.Stages())
		}
	})
}

// TestFaultPointsWithinEachOther heals one step's point, as the guard does before it begins: that of another stays.
func TestFaultPointsWithinEachOther(t *testing.T) {
	inWorld(t, storage.CSIPoint(), func(*world) {}, func(t *testing.T, w *world, b faulttest.Bench) {
		outer, err1 := storage.CSIPoint().New(b.Spec, 1, b.Env)
		inner, err2 := storage.CSIPoint().New(b.Spec, 2, b.Env)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		err := errors.Join(faulttest.Arm(t.Context(), outer, b), outer.Inject(t.Context()), inner.Heal(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := outer.Confirm(t.Context()); err != nil {
			t.Error(err)
		}
		left, err := undo.Node(t.Context(), w.cluster.Node("worker"), undo.Of("r1", 0))
		if d := cmp.Diff([]string{"seatrial-r1-1"}, left.Undone); d != "" || err != nil {
			t.Errorf("undone (-want +got):\n%s, %v", d, err)
		}
	})
}
