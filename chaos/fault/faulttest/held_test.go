package faulttest_test

import (
	"strings"
	"testing"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/controlplane"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/fault/node"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/undo"
)

// TestWhatIsHeldAndEndsByItselfIsFound lets the timer's heal run during the hold.
func TestWhatIsHeldAndEndsByItselfIsFound(t *testing.T) {
	for _, tc := range []struct {
		def  fault.Definition
		node string
		says string
	}{
		{node.KubeletFreeze(), "c-worker", "is in state S, not stopped"},
		{node.ContainerFreeze(), "c-worker", "is in state S, not stopped"},
		{node.KubeletStarve(), "c-worker", "its quota is infinity of each second"},
		{node.KubeletStop(), "c-worker", "active (running)"},
		{node.RuntimeStop(), "c-worker", "active (running)"},
		{controlplane.ForceDetachOff(), "c-control-plane", "runs without --disable-force-detach-on-timeout"},
	} {
		t.Run(tc.def.Name, func(t *testing.T) {
			inWorld(t, tc.def, func(*world) {}, func(t *testing.T, w *world, b faulttest.Bench) {
				r, err := faulttest.Run(t.Context(), tc.def, b, func(f history.Fault) {
					if f.Stage == history.StageConfirmed {
						w.expire(w.nodes[tc.node], undo.Owner{Run: "r1", Step: 1})
					}
				})
				if stageOf(err) != "hold" || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("got %v, want an error of hold", err)
				}
				if evidenceOf(r, history.StageConfirmedHealed) == "" {
					t.Errorf("it was not healed: %q", r.Stages())
				}
			})
		})
	}
}

func TestAKubeletThatOthersStoppedIsLeftAlone(t *testing.T) {
	stopped := func(w *world) { w.nodes["c-worker"].stopped = true }
	inWorld(t, node.KubeletStop(), stopped, func(t *testing.T, w *world, b faulttest.Bench) {
		_, err := faulttest.Run(t.Context(), node.KubeletStop(), b, nil)
		if stageOf(err) != "arm" || !strings.Contains(err.Error(), "inactive (dead)") {
			t.Errorf("got %v, want an error of arm", err)
		}
		if !w.nodes["c-worker"].stopped {
			t.Error("it was started")
		}
	})
}

func TestAKubeletIsStoppedWithoutItsPods(t *testing.T) {
	gone := func(w *world) { w.pod, w.lost = nil, true }
	inWorld(t, node.KubeletStop(), gone, func(t *testing.T, _ *world, b faulttest.Bench) {
		r, err := faulttest.Run(t.Context(), node.KubeletStop(), b, nil)
		if err != nil || strings.Contains(evidenceOf(r, history.StageConfirmed), "go on") {
			t.Errorf("got %v, %s", err, evidenceOf(r, history.StageConfirmed))
		}
	})
}

func TestARuntimeThatTakesItsContainersWithItIsFound(t *testing.T) {
	fall := func(w *world) { w.nodes["c-worker"].shimsFall = true }
	inWorld(t, node.RuntimeKill(), fall, func(t *testing.T, _ *world, b faulttest.Bench) {
		_, err := faulttest.Run(t.Context(), node.RuntimeKill(), b, nil)
		if stageOf(err) != "confirm" || !strings.Contains(err.Error(), "containerd-shim, pid 801, ended") {
			t.Errorf("got %v, want an error of confirm", err)
		}
	})
	gone := func(w *world) { w.nodes["c-worker"].shimless = true }
	inWorld(t, node.RuntimeKill(), gone, func(t *testing.T, _ *world, b faulttest.Bench) {
		_, err := faulttest.Run(t.Context(), node.RuntimeKill(), b, nil)
		if stageOf(err) != "inject" || !strings.Contains(err.Error(), "none could be shown to go on") {
			t.Errorf("got %v, want an error of inject", err)
		}
	})
}

// TestAManifestComesBackByteForByte heals a manifest in a form that no encoder writes.
func TestAManifestComesBackByteForByte(t *testing.T) {
	byHand := "# Mine.\n" + managerManifest
	def := controlplane.ForceDetachOff()
	change := func(w *world) { w.nodes["c-control-plane"].files[managerFile] = byHand }
	inWorld(t, def, change, func(t *testing.T, w *world, b faulttest.Bench) {
		if _, err := faulttest.Run(t.Context(), def, b, nil); err != nil {
			t.Fatal(err)
		}
		files := w.nodes["c-control-plane"].files
		if files[managerFile] != byHand {
			t.Errorf("it is %q", files[managerFile])
		}
		for name := range files {
			if !strings.HasPrefix(name, undo.ManifestDir) {
				t.Errorf("left: %s", name)
			}
		}
	})
}

func TestAFlagThatOthersSetIsLeftAlone(t *testing.T) {
	def := controlplane.ForceDetachOff()
	set := func(w *world) {
		m := w.nodes["c-control-plane"]
		m.files[managerFile] = strings.Replace(managerManifest, "--leader-elect=true",
			"--disable-force-detach-on-timeout=true", 1)
		w.reconcile(m)
	}
	inWorld(t, def, set, func(t *testing.T, w *world, b faulttest.Bench) {
		r, err := faulttest.Run(t.Context(), def, b, nil)
		if stageOf(err) != "inject" || !strings.Contains(err.Error(), "already") {
			t.Errorf("got %v", err)
		}
		if !strings.Contains(evidenceOf(r, history.StageConfirmedHealed), "runs with --disable") {
			t.Errorf("facts %+v", r.Facts())
		}
		if !strings.Contains(w.nodes["c-control-plane"].files[managerFile], "--disable-force-detach") {
			t.Error("the manifest was changed")
		}
		left, err := undo.Node(t.Context(), w.cluster.Node("control-plane"), nil)
		if err != nil || !left.Nothing() {
			t.Errorf("left %s, %v", left, err)
		}
	})
}
