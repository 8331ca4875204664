package chaosmesh

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"github.com/seatrial/seatrial/chaos/fault"
	nodeprobe "github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/fake"
)

// TestAPodThatFailedKeepsItsSandbox looks at a pod as containerd runs it: the first process is that of the sandbox,
// which outlasts the containers.
func TestAPodThatFailedKeepsItsSandbox(t *testing.T) {
	process := func(pid int, name, container string) nodeprobe.Process {
		return nodeprobe.Process{PID: pid, Name: name, PodUID: "u1", Container: container}
	}
	sandbox := process(10, "pause", "s1")
	for _, tc := range []struct {
		name string
		now  []nodeprobe.Process
		want string // Of the fact, or of the error.
	}{
		{"failed", []nodeprobe.Process{sandbox, process(30, "pause", "c2")}, "none of the 1 processes that ran"},
		{"goes on", []nodeprobe.Process{sandbox, process(20, "mysqld", "c1")}, "mysqld, pid 20, runs in the pod as"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				found := nodeprobe.Processes{Processes: []nodeprobe.Process{sandbox, process(20, "mysqld", "c1")}}
				node := fake.NewNode("worker", clusters.RoleWorker, nil)
				look := func(context.Context, clusters.Command, string) (clusters.Result, error) {
					out, err := json.Marshal(found)
					return clusters.Result{Stdout: out}, err
				}
				node.On([]string{"..."}, fake.Reply{Do: look})
				pod := &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: "trial", Name: "mysql-0", UID: "u1"},
					Spec:       corev1.PodSpec{NodeName: "worker"},
					Status: corev1.PodStatus{
						Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
						ContainerStatuses: []corev1.ContainerStatus{{ContainerID: "containerd://c1"}},
					},
				}
				p, err := newProbe(&v1alpha1.PodChaos{}, fault.Env{
					Kube: kubefake.NewClientset(pod), Node: node, Namespace: "trial", Pod: "mysql-0",
				})
				if err == nil {
					err = p.before(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
				found.Processes = tc.now
				facts, err := p.seen(t.Context())
				got := ""
				if err != nil {
					got = err.Error()
				}
				for _, f := range facts {
					got += f.Sentence
				}
				if !strings.Contains(got, tc.want) {
					t.Errorf("got %q, want %q", got, tc.want)
				}
			})
		})
	}
}
