package object

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	fakecluster "github.com/seatrial/seatrial/clusters/fake"
)

func ready(taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "worker", UID: "u2"},
		Spec:       corev1.NodeSpec{PodCIDR: "10.244.1.0/24", Taints: taints},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// TestAnAPIServerThatIsBackInAMomentIsWaitedFor has the first looks fail, and then an update whose fate nobody knows.
func TestAnAPIServerThatIsBackInAMomentIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset(ready())
		away := 2
		kube.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			away--
			return away >= 0, nil, errors.New("connection refused")
		})
		env := fault.Env{Kube: kube, Node: fakecluster.NewNode("worker", clusters.RoleWorker, nil)}
		cordon := func(n *corev1.Node) error {
			n.Spec.Unschedulable = true
			return nil
		}
		if err := changeNode(t.Context(), env, cordon); err != nil {
			t.Error(err)
		}
		sent := 0
		kube.PrependReactor("update", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			sent++
			return true, nil, context.DeadlineExceeded
		})
		if err := changeNode(t.Context(), env, cordon); !errors.Is(err, context.DeadlineExceeded) || sent != 1 {
			t.Errorf("got %v after %d updates", err, sent)
		}
	})
}

// TestANodeWithoutAPodRangeIsBack has a network plugin that gives out addresses by itself.
func TestANodeWithoutAPodRangeIsBack(t *testing.T) {
	before, now, with := ready(), ready(), ready()
	before.Spec.PodCIDR, now.Spec.PodCIDR, now.UID = "", "", "u3"
	for _, tc := range []struct {
		before *corev1.Node
		is     bool
	}{{before, true}, {nil, true}, {with, false}} {
		d := &nodeDelete{before: tc.before}
		sentence, err := d.back(now)
		if is := err == nil && strings.Contains(sentence, "the pod range none"); is != tc.is {
			t.Errorf("after %v: got %q, %v", tc.before, sentence, err)
		}
	}
}

// TestANodeWithoutItsTaintsIsNotBack holds a Node that registered anew against the one before.
func TestANodeWithoutItsTaintsIsNotBack(t *testing.T) {
	own := corev1.Taint{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule}
	too := corev1.Taint{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoExecute}
	of := corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}
	before, cordoned := ready(own, too, of), ready(own, too)
	before.UID, before.Spec.Unschedulable, cordoned.Spec.Unschedulable = "u1", true, true
	d := nodeDelete{before: before}
	for want, now := range map[string]*corev1.Node{
		"the taint dedicated=db:NoSchedule": ready(too), "the taint dedicated=db:NoExecute": ready(own),
		"its cordon": ready(own, too),
	} {
		if _, err := d.back(now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if sentence, err := d.back(cordoned); sentence == "" || err != nil {
		t.Errorf("got %q, %v", sentence, err)
	}
	before.Annotations = map[string]string{undo.Cordon: "seatrial-r1-1"} // A fault's.
	if sentence, err := d.back(ready(own, too)); sentence == "" || err != nil {
		t.Errorf("got %q, %v", sentence, err)
	}
}

// TestATaintThatAKubeletTookAwayIsWaitedFor holds a cordon while the Node is registered again, and when somebody ends
// it.
func TestATaintThatAKubeletTookAwayIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := ready()
		node.Spec.Unschedulable = true
		node.Annotations = map[string]string{"seatrial/cordon": "seatrial-r1-1"}
		kube := fake.NewClientset(node)
		looks := 0
		kube.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			if looks++; looks > 3 {
				node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable}}
			}
			return true, node.DeepCopy(), nil
		})
		env := fault.Env{
			Kube: kube, Node: fakecluster.NewNode("worker", clusters.RoleWorker, nil),
			Owner: undo.Owner{Run: "r1", Step: 1}, Clock: func() history.Time { return 0 },
		}
		m := cordon(env)
		if facts, err := m.Held(t.Context()); err != nil || len(facts) != 1 || looks != 4 {
			t.Errorf("got %v, %v after %d looks", facts, err, looks)
		}
		node.Spec.Unschedulable, looks = false, 0
		if _, err := m.Held(t.Context()); err == nil || !strings.Contains(err.Error(), "is false") || looks != 1 {
			t.Errorf("got %v after %d looks", err, looks)
		}
	})
}
