package trial

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/fixtures"
)

// TestEvents holds that the stages of a fault that somebody can see become Events of its node and its pod, which
// kubectl finds: in the namespace of the pod, and in default for a node.
func TestEvents(t *testing.T) {
	kube := fake.NewClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "mysql-0", UID: "u-0"}})
	a := newAnnouncer(t.Context(), kube, "n", "r1", slog.New(slog.DiscardHandler))
	for _, stage := range []history.FaultStage{
		history.StageIntent, history.StageArmed, history.StageInjected, history.StageConfirmed, history.StageHealed,
		history.StageConfirmedHealed, history.StageFaultFailed,
	} {
		f := history.Fault{Step: 3, Name: "kubelet-kill", Stage: stage, Node: "worker", Victim: "mysql-0",
			Evidence: []string{strings.Repeat("the kubelet is gone ", 100)}}
		if stage == history.StageFaultFailed {
			f.Victim = "nobody" // A pod that is gone: the node has its Event all the same.
		}
		a.tell(f)
	}
	a.stop()
	a.tell(history.Fault{Stage: history.StageInjected, Node: "too-late"})
	a.stop()
	got := map[string]string{}
	for _, action := range kube.Actions() {
		create, ok := action.(k8stesting.CreateAction)
		if !ok {
			continue
		}
		e, isEvent := create.GetObject().(*corev1.Event)
		if !isEvent {
			t.Fatalf("it makes a %T", create.GetObject())
		}
		o := e.InvolvedObject
		if want := map[string]string{"Node": "default", "Pod": "n"}[o.Kind]; e.Namespace != want {
			t.Errorf("the Event of %s %s is in namespace %q, want %q", o.Kind, o.Name, e.Namespace, want)
		}
		if want := map[string]string{"Node": "worker", "Pod": "u-0"}[o.Kind]; string(o.UID) != want {
			t.Errorf("%s %s has the uid %q, want %q", o.Kind, o.Name, o.UID, want)
		}
		if e.Labels[clusters.ManagedByLabel] != clusters.ManagedBy || e.Labels[fixtures.RunLabel] != "r1" ||
			len(e.Message) > 1024 || !strings.HasPrefix(e.Message, "step 3, kubelet-kill: ") {
			t.Errorf("Event %+v", e)
		}
		got[o.Kind] += e.Reason + " " + e.Type + ", "
	}
	want := map[string]string{
		"Pod":  "FaultInjected Warning, FaultConfirmed Warning, FaultHealed Normal, ",
		"Node": "FaultInjected Warning, FaultConfirmed Warning, FaultHealed Normal, FaultFailed Warning, ",
	}
	for kind := range want {
		if got[kind] != want[kind] {
			t.Errorf("%s: %q, want %q", kind, got[kind], want[kind])
		}
	}
}

// TestEventsHinderNothing: without --events none is made, and one that the API refuses, or that comes while too many
// wait, is no error and no wait.
func TestEventsHinderNothing(t *testing.T) {
	var none *announcer
	f := history.Fault{Stage: history.StageInjected, Node: "worker"}
	none.tell(f)
	none.stop()
	kube := fake.NewClientset()
	refused, release := 0, make(chan struct{})
	kube.PrependReactor("create", "events", func(k8stesting.Action) (bool, runtime.Object, error) {
		<-release
		refused++
		return true, nil, errors.New("refused")
	})
	var log strings.Builder
	a := newAnnouncer(t.Context(), kube, "n", "r1", slog.New(slog.NewTextHandler(&log, nil)))
	for range announceMost + 10 {
		a.tell(f)
	}
	close(release)
	a.stop()
	if refused < announceMost || !strings.Contains(log.String(), "too many wait") {
		t.Errorf("%d Events were tried; logged:\n%s", refused, log.String())
	}
}
