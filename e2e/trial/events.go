package trial

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/fixtures"
)

const (
	// announceBound is how long an Event may take. A fault may have taken the API server away.
	announceBound = 2 * time.Second
	// announceMost is how many stages wait for their Events; more are dropped, since no fault waits for an Event.
	announceMost = 64
)

// announcer records the stages of faults as Kubernetes Events of the nodes and pods that they hurt, for `kubectl
// describe` and k9s. It never delays a fault, and an Event that cannot be recorded is only logged.
type announcer struct {
	kube      kubernetes.Interface
	namespace string // Of the trial.
	runID     string
	log       *slog.Logger
	stages    chan history.Fault
	done      sync.WaitGroup
	cancel    context.CancelFunc

	mu      sync.Mutex
	stopped bool
}

// newAnnouncer outlives ctx, as the healing of a cancelled trial does; stop ends it.
func newAnnouncer(
	ctx context.Context, kube kubernetes.Interface, namespace, runID string, log *slog.Logger,
) *announcer {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a := &announcer{
		kube: kube, namespace: namespace, runID: runID, log: log, stages: make(chan history.Fault, announceMost),
		cancel: cancel,
	}
	a.done.Go(func() {
		for f := range a.stages {
			a.announce(ctx, f)
		}
	})
	return a
}

// reasonOf is the reason of an Event about a stage, "" for a stage that concerns the harness alone.
func reasonOf(stage history.FaultStage) string {
	return map[history.FaultStage]string{
		history.StageInjected: "FaultInjected", history.StageConfirmed: "FaultConfirmed",
		history.StageConfirmedHealed: "FaultHealed", history.StageFaultFailed: "FaultFailed",
	}[stage]
}

// tell takes a stage and returns at once. A nil announcer takes none.
func (a *announcer) tell(f history.Fault) {
	if a == nil || reasonOf(f.Stage) == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return
	}
	select {
	case a.stages <- f:
	default:
		a.log.Warn("no Event: too many wait", "fault", f.Name, "stage", f.Stage)
	}
}

// stop waits for the Events of what was told, at most as long as three may take.
func (a *announcer) stop() {
	if a == nil {
		return
	}
	a.mu.Lock()
	if !a.stopped {
		a.stopped = true
		close(a.stages)
	}
	a.mu.Unlock()
	late := time.AfterFunc(3*announceBound, a.cancel)
	a.done.Wait()
	late.Stop()
	a.cancel()
}

func (a *announcer) announce(ctx context.Context, f history.Fault) {
	ctx, cancel := context.WithTimeout(ctx, announceBound)
	defer cancel()
	var about []corev1.ObjectReference
	if f.Node != "" { // As the kubelet refers to its node: by name, in the namespace default.
		about = append(about, corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: f.Node,
			UID: types.UID(f.Node)})
	}
	if f.Victim != "" {
		pod, err := a.kube.CoreV1().Pods(a.namespace).Get(ctx, f.Victim, metav1.GetOptions{})
		if err == nil {
			about = append(about, corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: a.namespace,
				Name: pod.Name, UID: pod.UID})
		}
	}
	for _, o := range about {
		e := a.event(f, o)
		if _, err := a.kube.CoreV1().Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{}); err != nil {
			a.log.Warn("no Event", "fault", f.Name, "stage", f.Stage, "of", o.Kind+" "+o.Name, "err", err)
		}
	}
}

// event is the Event of a stage about one object.
func (a *announcer) event(f history.Fault, about corev1.ObjectReference) *corev1.Event {
	const longest = 1024 // Of a message (pkg/apis/core/validation/events.go).
	kind, message := corev1.EventTypeWarning, fmt.Sprintf("step %d, %s: %s", f.Step, f.Name, f.Stage)
	if f.Stage == history.StageConfirmedHealed {
		kind = corev1.EventTypeNormal
	}
	if f.Error != "" {
		message += ": " + f.Error
	} else if len(f.Evidence) > 0 {
		message += ": " + f.Evidence[0]
	}
	now := metav1.Now()
	e := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: strings.ToLower(about.Name) + ".seatrial-", Namespace: about.Namespace,
			Labels: fixtures.RunLabels(a.runID),
		},
		InvolvedObject: about, Reason: reasonOf(f.Stage), Type: kind,
		Message: strings.ToValidUTF8(message[:min(len(message), longest)], ""),
		Source:  corev1.EventSource{Component: clusters.ManagedBy}, Count: 1, FirstTimestamp: now, LastTimestamp: now,
	}
	if e.Namespace == "" {
		e.Namespace = metav1.NamespaceDefault
	}
	return e
}
