package trial

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

// seenPod is a fact about pod db-1.
func seenPod(verb history.Verb, uid string, at history.Time, fill ...func(*corev1.Pod)) history.Event {
	var pod corev1.Pod
	for _, f := range fill {
		f(&pod)
	}
	pod.ResourceVersion = strconv.Itoa(int(at))
	raw, err := json.Marshal(pod)
	if err != nil {
		panic(err)
	}
	return history.Event{Kind: history.KindObject, Span: history.At(at), Object: &history.Object{
		Verb: verb, Resource: pods, Name: "db-1", UID: uid, Raw: raw, ResourceVersion: strconv.Itoa(int(at)),
	}}
}

func condition(kind corev1.PodConditionType, status corev1.ConditionStatus) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: status})
	}
}

func ending(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Unix(1, 0)) }

func container(state corev1.ContainerState) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: state}} }
}

func waiting(reason string) func(*corev1.Pod) {
	return container(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}})
}

// TestMoments holds for each moment which states of a pod bring it about.
func TestMoments(t *testing.T) {
	ready := condition(corev1.PodReady, corev1.ConditionTrue)
	states := map[string]history.Event{
		"made": seenPod(history.VerbAdded, "u", 1),
		"unscheduled": seenPod(history.VerbModified, "u", 1,
			condition(corev1.PodScheduled, corev1.ConditionFalse)),
		"bound":    seenPod(history.VerbModified, "u", 1, func(p *corev1.Pod) { p.Spec.NodeName = "w1" }),
		"creating": seenPod(history.VerbModified, "u", 1, waiting("ContainerCreating")),
		"no-image": seenPod(history.VerbModified, "u", 1, waiting("ErrImagePull")),
		"running": seenPod(history.VerbModified, "u", 1,
			container(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})),
		"ready": seenPod(history.VerbModified, "u", 1, ready),
		"revised": seenPod(history.VerbModified, "u", 1, ready, func(p *corev1.Pod) {
			p.Annotations = map[string]string{plan.RevisionAnnotation: "v2"}
		}),
		"ending":  seenPod(history.VerbModified, "u", 1, ending),
		"deleted": seenPod(history.VerbDeleted, "u", 1, ending),
	}
	want := map[string]string{
		plan.AwaitCreated:     "bound creating ending made no-image ready revised running unscheduled",
		plan.AwaitGone:        "deleted",
		plan.AwaitPending:     "unscheduled",
		plan.AwaitReady:       "ready revised",
		plan.AwaitScheduled:   "bound",
		plan.AwaitTerminating: "deleted ending",
		plan.AwaitUnready:     "no-image running",
		plan.AwaitUpdated:     "revised",
	}
	for _, moment := range plan.Awaits() {
		if !(plan.Await{For: moment}).Moment() || moment == plan.AwaitClaimGone {
			continue
		}
		var by []string
		for name, e := range states {
			f := newFeed(nil, plan.Plan{})
			f.have(e)
			if f.kept[0].pod.is(moment, "v2") {
				by = append(by, name)
			}
		}
		slices.Sort(by)
		if got := strings.Join(by, " "); got != want[moment] {
			t.Errorf("%s is brought about by %q, want %q", moment, got, want[moment])
		}
	}
}

// have is Record without a history to write to.
func (f *feed) have(e history.Event) { f.see(e, e.Span.NotAfter) }

// TestAMomentBeforeTheStepDoesNotCount has a pod terminate before the step began, and another one, of the same name,
// after it.
func TestAMomentBeforeTheStepDoesNotCount(t *testing.T) {
	base := enclosing{since: 10, pods: map[string]*podState{"db-1": {uid: "u", deleting: true}}}
	s := plan.Step{Await: &plan.Await{For: plan.AwaitTerminating, Ordinal: 1}}
	synctest.Test(t, func(t *testing.T) {
		c := &runner{rec: newFeed(nil, plan.Plan{}), log: slog.New(slog.DiscardHandler)}
		c.Plan.Workload.StatefulSet, c.Progress = "db", io.Discard
		c.rec.have(seenPod(history.VerbModified, "t", 9, ending))  // Too early.
		c.rec.have(seenPod(history.VerbModified, "u", 11, ending)) // It was so when the step began.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := c.waitFor(ctx, s, base, base)
		if err == nil || !strings.Contains(err.Error(), `await "terminating" of db-1`) ||
			!strings.Contains(err.Error(), "last seen: db-1 (uid u)") {
			t.Errorf("got %v", err)
		}
		done := make(chan error)
		go func() {
			_, err := c.waitFor(t.Context(), s, base, base)
			done <- err
		}()
		synctest.Wait()
		c.rec.have(seenPod(history.VerbAdded, "v", 12))
		synctest.Wait()
		c.rec.have(seenPod(history.VerbModified, "v", 13, ending))
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestWhatStirs holds that a pod made, told to end and deleted stirs, each once, and that nothing else does.
func TestWhatStirs(t *testing.T) {
	f := newFeed(nil, plan.Plan{})
	for _, tc := range []struct {
		e    history.Event
		want history.Time
	}{
		{seenPod(history.VerbAdded, "u", 1), 1},
		{seenPod(history.VerbModified, "u", 2, condition(corev1.PodReady, corev1.ConditionTrue)), 1},
		{seenPod(history.VerbModified, "u", 3, ending), 3},
		{seenPod(history.VerbModified, "u", 4, ending), 3},
		{seenPod(history.VerbDeleted, "u", 5, ending), 5},
	} {
		f.have(tc.e)
		if got, _ := f.lastStir(); got != tc.want {
			t.Errorf("at %d the last stir is that of %d, want %d", tc.e.Span.NotAfter, got, tc.want)
		}
	}
}
