package trial

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

// seen is one await with the facts that come while it waits, and what is said of it then.
type seen struct {
	name  string
	await plan.Await
	facts []history.Event
	want  string       // In what was seen; empty when it never comes.
	at    history.Time // When it happened.
}

func objectFact(resource, name, uid, raw string, verb history.Verb, at history.Time) history.Event {
	return history.Event{Kind: history.KindObject, Span: history.At(at), Object: &history.Object{
		Verb: verb, Resource: resource, Name: name, UID: uid, Raw: []byte(raw)}}
}

func mountFact(action history.MountAction, id uint64, path string, at history.Time) history.Event {
	return history.Event{Kind: history.KindMount, Span: history.At(at), Mount: &history.Mount{
		Action: action, Node: "worker0", Boot: "1s", MountID: id, Path: path}}
}

func insert(stage history.Stage, f history.OpFunc, at history.Time) history.Event {
	return history.Event{Kind: history.KindOp, Span: history.At(at), Op: &history.Op{F: f, Stage: stage}}
}

func acknowledged(instance, by string, at history.Time) history.Event {
	e := insert(history.StageOK, history.OpInsert, at)
	e.Op.Instance, e.Op.By = instance, by
	return e
}

func faultFact(step int, stage history.FaultStage, at history.Time) history.Event {
	return history.Event{Kind: history.KindFault, Span: history.At(at), Fault: &history.Fault{Step: step, Stage: stage}}
}

func replicas(n int, at history.Time) history.Event {
	status := fmt.Sprintf(`{"status":{"readyReplicas":%d}}`, n)
	return objectFact("statefulsets", "db", "s", status, history.VerbModified, at)
}

func told(version string, at history.Time) history.Event {
	return history.Event{Kind: history.KindVersion, Span: history.At(at), Version: &history.Version{
		Component: history.ComponentAPIServer, Version: version}}
}

func manySeen() []seen {
	ready := &plan.Match{Kind: "StatefulSet", Name: "db", Path: ".status.readyReplicas", Op: ">=", Value: "3"}
	pod := "/var/lib/kubelet/pods/u/volumes/kubernetes.io~local-volume/"
	return []seen{
		{"an object comes to match", plan.Await{For: plan.AwaitObject, Object: ready},
			[]history.Event{replicas(3, 5), replicas(2, 11), replicas(3, 12)}, `status.readyReplicas >= "3": db`, 12},
		{"it matched before, and matches still", plan.Await{For: plan.AwaitObject, Object: ready},
			[]history.Event{replicas(3, 5), replicas(4, 11)}, "", 0},
		{"for the second time", plan.Await{For: plan.AwaitObject, Object: ready, Count: 2},
			[]history.Event{replicas(3, 11), replicas(2, 12), replicas(3, 13)}, "", 13},
		{"another object", plan.Await{For: plan.AwaitObject, Object: ready},
			[]history.Event{objectFact("statefulsets", "dc", "s", `{"status":{"readyReplicas":3}}`, history.VerbAdded,
				11)}, "", 0},
		{"any object", plan.Await{For: plan.AwaitObject, Object: &plan.Match{Kind: "VolumeAttachment",
			Path: ".status.attached", Op: "=", Value: "true"}}, []history.Event{
			objectFact("volumeattachments", "va", "v", `{"status":{"attached":true}}`, history.VerbModified, 11),
		}, ": va", 11},
		{"deleted", plan.Await{For: plan.AwaitObject, Object: &plan.Match{Kind: "Node", Op: "deleted"}},
			[]history.Event{objectFact("nodes", "n", "n", `{}`, history.VerbDeleted, 14)}, "Node is deleted: n", 14},
		{"mounted", plan.Await{For: plan.AwaitMount}, []history.Event{
			mountFact(history.MountPresent, 1, pod+"pv-0", 11), mountFact(history.MountAttach, 2, pod+"pv-1", 12),
			mountFact(history.MountAttach, 3, "/mnt/pv-0", 12), mountFact(history.MountAttach, 4, pod+"pv-0", 13),
		}, "mount of pv-0 on worker0, at " + pod + "pv-0", 13},
		{"not for all pods", plan.Await{For: plan.AwaitMount, Place: plan.PlaceGlobal},
			[]history.Event{mountFact(history.MountAttach, 4, pod+"pv-0", 13)}, "", 0},
		{"unmounted", plan.Await{For: plan.AwaitUnmount, Place: plan.PlacePod}, []history.Event{
			mountFact(history.MountPresent, 1, pod+"pv-0", 5), mountFact(history.MountDetach, 2, "", 12),
			mountFact(history.MountDetach, 1, "", 13),
		}, "unmount of pv-0", 13},
		{"commits", plan.Await{For: plan.AwaitCommits, Commits: 2}, []history.Event{
			insert(history.StageOK, history.OpInsert, 9), insert(history.StageOK, history.OpInsert, 11),
			insert(history.StageUnknown, history.OpInsert, 12), insert(history.StageOK, history.OpRead, 13),
			insert(history.StageOK, history.OpInsert, 14), insert(history.StageOK, history.OpInsert, 15),
		}, "commit 2", 14},
		{"the primary of a group acknowledges", plan.Await{For: plan.AwaitWrites}, []history.Event{
			acknowledged("db", "db-0", 9), acknowledged("db", "db-1", 11), acknowledged("db", "db-0", 12),
		}, "db-0 acknowledged an insert", 12},
		{"another is the primary", plan.Await{For: plan.AwaitWrites},
			[]history.Event{acknowledged("db", "db-1", 11)}, "", 0},
		{"an instance that is no member of a group acknowledges", plan.Await{For: plan.AwaitWrites, Ordinal: 1},
			[]history.Event{acknowledged("db-0", "", 11), acknowledged("db-1", "", 12)}, "db-1", 12},
		{"a stage of a fault", plan.Await{For: plan.AwaitFault, Step: 7}, []history.Event{
			faultFact(7, history.StageInjected, 11), faultFact(6, history.StageConfirmed, 12),
			faultFact(7, history.StageConfirmed, 13),
		}, "is confirmed", 13},
		{"ready for the second time", plan.Await{For: plan.AwaitReady, Ordinal: 1, Count: 2}, []history.Event{
			seenPod(history.VerbModified, "u", 11, condition(corev1.PodReady, corev1.ConditionTrue)),
			seenPod(history.VerbModified, "u", 12, condition(corev1.PodReady, corev1.ConditionTrue)),
			seenPod(history.VerbModified, "u", 13, condition(corev1.PodReady, corev1.ConditionFalse)),
			seenPod(history.VerbModified, "u", 14, condition(corev1.PodReady, corev1.ConditionTrue)),
		}, "ready: db-1", 14},
		{"a version", plan.Await{For: plan.AwaitVersion, Version: "v1.37.0"}, []history.Event{
			told("v1.37.0", 5), told("v1.36.3", 11), told("v1.37.0", 12),
		}, "the API server tells that it is v1.37.0", 12},
		{"another version", plan.Await{For: plan.AwaitVersion, Version: "v1.37.0"},
			[]history.Event{told("v1.36.3", 11)}, "", 0},
		{"a claim is gone", plan.Await{For: plan.AwaitClaimGone}, []history.Event{
			objectFact(claims, "data-db-0", "c", `{}`, history.VerbDeleted, 5),
			objectFact(claims, "data-db-1", "d", `{}`, history.VerbDeleted, 11),
			objectFact(claims, "data-db-0", "e", `{}`, history.VerbModified, 12),
			objectFact(claims, "data-db-0", "e", `{}`, history.VerbDeleted, 13),
		}, "claim-gone: data-db-0 (uid e)", 13},
	}
}

// TestWhatIsAwaitedInFacts holds which fact each await is content with, and that it comes with the time at which that
// happened.
func TestWhatIsAwaitedInFacts(t *testing.T) {
	for _, tc := range manySeen() {
		t.Run(tc.name, func(t *testing.T) {
			s := awaits(tc.await)
			p := planned(s)
			c, _ := calm(t, p)
			bind(t, c, "data-db-0", "pv-0")
			for _, e := range tc.facts {
				c.rec.have(e)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			got, err := c.waitFor(ctx, p.Steps[0], enclosing{since: 10}, enclosing{since: 10})
			switch {
			case tc.at == 0:
				if err == nil || !strings.Contains(err.Error(), "last seen: ") {
					t.Errorf("got %+v, %v", got, err)
				}
			case err != nil:
				t.Error(err)
			case got.happened != history.At(tc.at) || !strings.Contains(got.what, tc.want):
				t.Errorf("got %+v, want %q at %d", got, tc.want, tc.at)
			}
			c.close(t)
		})
	}
}

// bind makes a claim with a volume.
func bind(t *testing.T, c *runner, claim, pv string) {
	t.Helper()
	_, err := c.kube.CoreV1().PersistentVolumes().Create(t.Context(),
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: pv}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.kube.CoreV1().PersistentVolumeClaims(c.namespace()).Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: claim}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: pv},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAwaitEndsWithTheFaultItWaitsFor holds that nobody waits for the stage of a fault that has failed.
func TestAwaitEndsWithTheFaultItWaitsFor(t *testing.T) {
	p := planned(awaits(plan.Await{For: plan.AwaitFault, Step: 7}))
	c, _ := calm(t, p)
	c.rec.have(history.Event{Kind: history.KindFault, Fault: &history.Fault{
		Step: 7, Stage: history.StageFaultFailed, Error: "boom"}})
	_, err := c.waitFor(t.Context(), p.Steps[0], enclosing{}, enclosing{})
	if err == nil || !strings.Contains(err.Error(), "it failed: boom") {
		t.Errorf("got %v", err)
	}
	c.close(t)
}

// TestTimesAndPauses holds from when on a time counts.
func TestTimesAndPauses(t *testing.T) {
	half := plan.Duration(50 * time.Millisecond)
	p := planned(awaits(plan.Await{For: plan.AwaitTime, After: half, Since: plan.SinceSteps}),
		awaits(plan.Await{For: plan.AwaitTime, After: half, Since: plan.SinceStep}),
		awaits(plan.Await{For: plan.AwaitTime, After: half, Since: plan.SinceTrial}))
	c, _ := calm(t, p)
	if err := c.steps(t.Context()); err != nil {
		t.Fatal(err)
	}
	var due []history.Time
	for _, e := range c.close(t).Events {
		if e.Await != nil {
			due = append(due, e.Await.Happened.NotBefore)
			if e.Await.Acted < e.Await.Happened.NotBefore {
				t.Errorf("step %d went on too early", e.Await.Step)
			}
		}
	}
	if len(due) != 3 || due[0] != c.stepsBegan.Add(half.D()) || due[1] < due[0].Add(half.D()) ||
		due[2] != c.began.Add(half.D()) {
		t.Errorf("due at %v, the first step began at %s", due, c.stepsBegan)
	}
}
