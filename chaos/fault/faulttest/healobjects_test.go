package faulttest_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/fault/object"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// markingFaults are the faults that leave a mark on an API object, with what a heal reports to have undone.
func markingFaults() map[string]fault.Definition {
	return map[string]fault.Definition{
		"node c-worker uncordoned (seatrial-r1-1)":                                  object.Cordon(),
		"node c-worker taken back into service (seatrial-r1-1)":                     object.OutOfService(),
		"resourcequota trial/seatrial-r1-1 deleted (seatrial-r1-1)":                 object.PodQuota(),
		"node c-worker was registered again and has what it had":                    object.NodeDelete(),
		"node c-worker uncordoned (seatrial-r1-1)\tafter its pods were evicted too": object.Drain(),
	}
}

func allNodes(w *world) []clusters.Node {
	return []clusters.Node{w.cluster.Node("control-plane"), w.cluster.Node("worker"), w.cluster.Node("worker2")}
}

// apiOf returns what reports list as undone on API objects.
func apiOf(reports []undo.Report) []string {
	var did []string
	for _, r := range reports {
		did = append(did, r.Did...)
	}
	return did
}

// injected arms and injects a fault, and abandons it.
func injected(t *testing.T, def fault.Definition, b faulttest.Bench) {
	t.Helper()
	f, err := def.New(b.Spec, 1, b.Env)
	if err != nil {
		t.Fatal(err)
	}
	err = faulttest.Arm(t.Context(), f, b)
	if err := errors.Join(err, f.Inject(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func TestAHealFindsWhatIsLeftOfAPIObjects(t *testing.T) {
	for says, def := range markingFaults() {
		says, _, _ = strings.Cut(says, "\t")
		t.Run(def.Name, func(t *testing.T) {
			inWorld(t, def, func(w *world) { w.busy = 0 }, func(t *testing.T, w *world, b faulttest.Bench) {
				injected(t, def, b)
				w.busy = 2 // Others are quicker, twice.
				other, err := undo.Cluster(t.Context(), allNodes(w), undo.Of("r2", 0))
				if did := apiOf(other); err != nil || len(did) > 0 {
					t.Errorf("of another run: %q, %v", did, err)
				}
				reports, err := undo.Cluster(t.Context(), allNodes(w), undo.Of("r1", 0))
				if d := cmp.Diff([]string{says}, apiOf(reports)); d != "" || err != nil {
					t.Errorf("undone (-want +got):\n%s, %v", d, err)
				}
				w.looksUntouched(t)
				again, err := undo.Cluster(t.Context(), allNodes(w), nil)
				for _, r := range again {
					if err != nil || !r.Nothing() {
						t.Errorf("a second heal: %s, %v", r, err)
					}
				}
			})
		})
	}
}

// looksUntouched checks that the worker's Node is as at the start, except for its uid.
func (w *world) looksUntouched(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.control()
	n := w.known["c-worker"]
	if n == nil {
		t.Fatal("there is no Node c-worker")
	}
	type node struct {
		Labels, Annotations map[string]string
		Unschedulable       bool
		Taints              []corev1.Taint
	}
	want := node{
		Labels:      map[string]string{"kubernetes.io/hostname": "c-worker", "zone": "one"},
		Annotations: map[string]string{"made-by": "kind"},
		Taints:      []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectPreferNoSchedule}},
	}
	got := node{n.Labels, n.Annotations, n.Spec.Unschedulable, n.Spec.Taints}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the Node (-want +got):\n%s", d)
	}
}

// TestTwoHealsAtOnce heals twice concurrently: neither returns an error, and nothing is left.
func TestTwoHealsAtOnce(t *testing.T) {
	for _, def := range markingFaults() {
		t.Run(def.Name, func(t *testing.T) {
			inWorld(t, def, func(*world) {}, func(t *testing.T, w *world, b faulttest.Bench) {
				injected(t, def, b)
				var group sync.WaitGroup
				for range 3 {
					group.Go(func() {
						if _, err := undo.Cluster(t.Context(), allNodes(w), nil); err != nil {
							t.Error(err)
						}
					})
				}
				group.Wait()
				w.looksUntouched(t)
			})
		})
	}
}

// TestTheTimersHealObjectsAlthoughTheHarnessIsGone abandons the fault and has the API server down at the deadline.
func TestTheTimersHealObjectsAlthoughTheHarnessIsGone(t *testing.T) {
	for _, def := range markingFaults() {
		t.Run(def.Name, func(t *testing.T) {
			inWorld(t, def, func(*world) {}, func(t *testing.T, w *world, b faulttest.Bench) {
				injected(t, def, b)
				away := func(is bool) {
					w.mu.Lock()
					defer w.mu.Unlock()
					w.apiDown = is
				}
				away(true)
				time.Sleep(fault.Life(b.Spec) + 30*time.Second)
				away(false)
				time.Sleep(15 * time.Second)
				w.looksUntouched(t)
			})
		})
	}
}

// TestAHealGoesOnWithoutTheAPIServer checks that a heal without the API server heals the nodes, reports what it could
// not do, and leaves the timers armed.
func TestAHealGoesOnWithoutTheAPIServer(t *testing.T) {
	inWorld(t, object.Cordon(), func(*world) {}, func(t *testing.T, w *world, b faulttest.Bench) {
		injected(t, object.Cordon(), b)
		other := undo.Task{Node: w.cluster.Node("worker2")}
		if err := undo.Arm(t.Context(), other, undo.Owner{Run: "r1", Step: 2}, time.Hour); err != nil {
			t.Fatal(err)
		}
		w.apiDown = true
		reports, err := undo.Cluster(t.Context(), allNodes(w), nil)
		said := func(text string) bool { return strings.Contains(err.Error(), text) }
		if err == nil || !said(`heal node "c-control-plane"`) || !said("list nodes") {
			t.Errorf("got %v", err)
		}
		if d := cmp.Diff([]string{"seatrial-r1-2"}, reports[2].Undone); d != "" {
			t.Errorf("undone (-want +got):\n%s", d)
		}
		if !reports[0].Nothing() || len(w.nodes["c-control-plane"].timers) != 1 {
			t.Errorf("the timer that would undo it later was stopped: %s", reports[0])
		}
		w.apiDown = false
	})
}

func TestADrainTakesTheBudgetsRefusal(t *testing.T) {
	twice := func(w *world) { w.refusals = 2 }
	inWorld(t, object.Drain(), twice, func(t *testing.T, _ *world, b faulttest.Bench) {
		r, err := faulttest.Run(t.Context(), object.Drain(), b, nil)
		shown := evidenceOf(r, history.StageConfirmed)
		said := func(text string) bool { return strings.Contains(shown, text) }
		if err != nil || !said("2 evictions of pod") || !said("429: Cannot evict") || !said("201 Created") {
			t.Errorf("got %v, evidence %s", err, shown)
		}
	})
	always := func(w *world) { w.refusals = 1 << 20 }
	inWorld(t, object.Drain(), always, func(t *testing.T, w *world, b faulttest.Bench) {
		_, err := faulttest.Run(t.Context(), object.Drain(), b, nil)
		if stageOf(err) != "confirm" || !strings.Contains(err.Error(), "disruption budget") {
			t.Errorf("got %v, want an error of confirm with the budget's words", err)
		}
		if w.pod.UID != workloadUID {
			t.Error("the pod is gone although the budget refused")
		}
	})
}

// TestAClaimWithoutProtectionIsFound deletes the claim under its pod, and in another case only its finalizer.
func TestAClaimWithoutProtectionIsFound(t *testing.T) {
	for says, harm := range map[string]func(w *world, claim *corev1.PersistentVolumeClaim) error{
		"it is gone": func(w *world, c *corev1.PersistentVolumeClaim) error {
			return w.tracker.Delete(claimsGVR, c.Namespace, c.Name)
		},
		"without kubernetes.io/pvc-protection": func(w *world, c *corev1.PersistentVolumeClaim) error {
			c.Finalizers = nil
			return w.tracker.Update(claimsGVR, c, c.Namespace)
		},
	} {
		inWorld(t, object.ClaimDelete(), func(*world) {}, func(t *testing.T, w *world, b faulttest.Bench) {
			_, err := faulttest.Run(t.Context(), object.ClaimDelete(), b, func(f history.Fault) {
				if f.Stage != history.StageConfirmed {
					return
				}
				claims := b.Env.Kube.CoreV1().PersistentVolumeClaims("trial")
				c, err := claims.Get(t.Context(), claimName, metav1.GetOptions{})
				if err := errors.Join(err, harm(w, c)); err != nil {
					t.Error(err)
				}
			})
			if stageOf(err) != "hold" || !strings.Contains(err.Error(), says) {
				t.Errorf("got %v, want an error of hold: %s", err, says)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // The pod goes first: then the claim may.
		w := newWorld()
		b := w.bench(t, "claim-delete")
		_, err := faulttest.Run(t.Context(), object.ClaimDelete(), b, func(f history.Fault) {
			if f.Stage == history.StageConfirmed {
				w.mu.Lock()
				w.terminate(0)
				w.control()
				w.mu.Unlock()
				w.renewClaim()
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
}
