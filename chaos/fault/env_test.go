package fault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/clusters"
	fakecluster "github.com/seatrial/seatrial/clusters/fake"
)

// world is an API server whose leases follow the clock: each node's was last renewed at the last multiple of every,
// unless it is silent from some time on.
type leaseWorld struct {
	begin  time.Time
	silent map[string]func(age time.Duration) bool
	down   func(age time.Duration) bool
}

func (w *leaseWorld) lease(node string) coordinationv1.Lease {
	age := time.Since(w.begin).Truncate(10 * time.Second)
	for age > 0 && w.silent[node] != nil && w.silent[node](age) {
		age -= 10 * time.Second
	}
	duration := int32(40)
	renewed := metav1.NewMicroTime(w.begin.Add(age))
	return coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node, Namespace: "kube-node-lease"},
		Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: &duration, RenewTime: &renewed}}
}

func (w *leaseWorld) env() fault.Env {
	kube := fake.NewClientset()
	kube.PrependReactor("list", "leases", func(k8stesting.Action) (bool, runtime.Object, error) {
		if w.down != nil && w.down(time.Since(w.begin)) {
			return true, nil, errors.New("connection refused")
		}
		list := &coordinationv1.LeaseList{}
		for _, n := range []string{"control-plane", "worker", "worker2"} {
			list.Items = append(list.Items, w.lease(n))
		}
		short := int32(8) // Not every kubelet is configured alike.
		list.Items[2].Spec.LeaseDurationSeconds = &short
		return true, list, nil
	})
	return fault.Env{
		Kube: kube, Node: fakecluster.NewNode("worker", clusters.RoleWorker, nil), Pod: "mysql-0", Namespace: "trial",
		Clock: func() history.Time { return history.Time(time.Since(w.begin)) + 1 },
	}
}

func always(time.Duration) bool { return true }

func after(d time.Duration) func(time.Duration) bool {
	return func(age time.Duration) bool { return age > d }
}

func TestLeaseSilent(t *testing.T) {
	type nodes = map[string]func(time.Duration) bool
	for _, tc := range []struct {
		name   string
		silent nodes
		down   func(time.Duration) bool
		took   time.Duration
		want   string // Of the error; empty for a fact.
	}{
		{"from the first moment", nodes{"worker": always}, nil, 15500 * time.Millisecond, ""},
		{"after one more renewal", nodes{"worker": after(10 * time.Second)}, nil,
			25500 * time.Millisecond, ""},
		{"goes on", nil, nil, 40 * time.Second,
			`wait for lease of node "worker" not to be renewed: waited 40s, last seen: it was renewed at`},
		{"all are silent", nodes{"worker": always, "worker2": always, "control-plane": always},
			nil, 40 * time.Second, "that of no other node renewed"},
		{"the API server is down", nil, always, 40 * time.Second, "connection refused"},
		{"the API server is down for a while", nodes{"worker": always},
			func(age time.Duration) bool { return age > 2*time.Second && age < 20*time.Second }, 20 * time.Second, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &leaseWorld{begin: time.Now(), silent: tc.silent}
				env := w.env()
				since, err := env.ReadLeases(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				w.down = tc.down
				facts, err := env.LeaseSilent(&since)(t.Context())
				if took := time.Since(w.begin); took != tc.took {
					t.Errorf("took %s, want %s", took, tc.took)
				}
				check(t, facts, err, tc.want)
				if err == nil && facts[0].Span.Length() <= 15*time.Second {
					t.Errorf("silence of %s is too short", facts[0].Span.Length())
				}
			})
		})
	}
}

func check(t *testing.T, facts []fault.Fact, err error, want string) {
	t.Helper()
	switch {
	case want == "" && (err != nil || len(facts) != 1):
		t.Errorf("got %+v, %v", facts, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got %+v, %v, want %q", facts, err, want)
	case want != "" && !errors.Is(err, await.ErrTimeout):
		t.Errorf("%v is no timeout", err)
	}
}

func TestLeaseRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &leaseWorld{begin: time.Now()}
		env := w.env()
		since, err := env.ReadLeases(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		facts, err := env.LeaseRenewed(&since, time.Minute)(t.Context())
		check(t, facts, err, "")
		if took := time.Since(w.begin); took != 10*time.Second {
			t.Errorf("took %s", took)
		}
		w.begin = time.Now() // Nothing was read before.
		facts, err = env.LeaseRenewed(&fault.Leases{}, time.Minute)(t.Context())
		check(t, facts, err, "")
		if took := time.Since(w.begin); took != 10*time.Second {
			t.Errorf("when nothing was read before: took %s", took)
		}
		w.silent = map[string]func(time.Duration) bool{"worker": always}
		w.begin = time.Now()
		if since, err = env.ReadLeases(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err = env.LeaseRenewed(&since, time.Minute)(t.Context())
		check(t, nil, err,
			`wait for lease of node "worker" to be renewed: waited 1m0s, last seen: last renewed at`)
	})
}

func pod(name, container string, ready bool) *corev1.Pod {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "trial", UID: "uid-" + "x"},
		Spec:       corev1.PodSpec{NodeName: "worker"},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "mysql", ContainerID: container,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
		},
	}
}

func TestPodsBack(t *testing.T) {
	ended := pod("job", "c9", false)
	ended.Status.Phase = corev1.PodSucceeded
	elsewhere := pod("mysql-1", "c8", true)
	elsewhere.Spec.NodeName = "worker2"
	for _, tc := range []struct {
		name string
		now  []*corev1.Pod
		want string // Of the error, or of the fact's sentence.
		fail bool
	}{
		{"ending: has gone", []*corev1.Pod{pod("proxy", "c4", true)}, "gone from the node: trial/mysql-0", false},
		{"ending: still there", []*corev1.Pod{pod("mysql-0", "c1", false), pod("proxy", "c4", true)},
			"trial/mysql-0 is not Ready", true},
		{"back", []*corev1.Pod{pod("mysql-0", "c2", true), pod("proxy", "c4", true)},
			"2 pods are Ready with new containers: trial/mysql-0, trial/proxy", false},
		{"stale", []*corev1.Pod{pod("mysql-0", "c1", true), pod("proxy", "c4", true)},
			"trial/mysql-0 is shown with a container of before", true},
		{"not Ready", []*corev1.Pod{pod("mysql-0", "c2", true), pod("proxy", "c4", false)},
			"trial/proxy is not Ready", true},
		{"another has gone", []*corev1.Pod{pod("mysql-0", "c2", true)}, "gone from the node: trial/proxy", false},
		{"the victim has gone", []*corev1.Pod{pod("proxy", "c4", true)}, "trial/mysql-0 is gone", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &leaseWorld{begin: time.Now()}
				env := w.env()
				victim := pod("mysql-0", "c1", true)
				if strings.HasPrefix(tc.name, "ending") {
					victim.DeletionTimestamp = &metav1.Time{Time: w.begin}
				}
				broken := pod("broken", "c5", false)
				broken.Namespace = "others"
				create(t, env, victim, pod("proxy", "c3", true), ended, elsewhere, broken)
				before, err := env.PodsOn(t.Context())
				if err != nil || len(before) != 3 {
					t.Fatalf("got %+v, %v", before, err)
				}
				env = w.env()
				create(t, env, append(tc.now, broken)...)
				facts, err := env.PodsBack(&before, true, time.Minute)(t.Context())
				got := fmt.Sprint(facts)
				if err != nil {
					got = err.Error()
				}
				if (err != nil) != tc.fail || !strings.Contains(got, tc.want) {
					t.Errorf("got %q, want %q", got, tc.want)
				}
			})
		})
	}
}

func create(t *testing.T, env fault.Env, pods ...*corev1.Pod) {
	t.Helper()
	for _, p := range pods {
		if _, err := env.Kube.CoreV1().Pods(p.Namespace).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReadUnit(t *testing.T) {
	for _, tc := range []struct {
		out  string
		want fault.Unit
		fail bool
	}{
		{"NRestarts=3\nMainPID=214\nActiveState=active\nSubState=running\n",
			fault.Unit{PID: 214, Restarts: 3, State: "active (running)"}, false},
		{"MainPID=0\nNRestarts=0\nActiveState=activating\nSubState=auto-restart\n",
			fault.Unit{State: "activating (auto-restart)"}, false},
		{"", fault.Unit{}, true},
		{"MainPID=7\nActiveState=active\n", fault.Unit{}, true},
	} {
		n := fakecluster.NewNode("worker", clusters.RoleWorker, nil)
		n.On([]string{"systemctl", "show", "..."}, fakecluster.Reply{Stdout: tc.out})
		got, err := fault.ReadUnit(t.Context(), n, "kubelet")
		if (err != nil) != tc.fail {
			t.Errorf("%q: got %v", tc.out, err)
		}
		if d := cmp.Diff(tc.want, got); !tc.fail && d != "" {
			t.Errorf("%q (-want +got):\n%s", tc.out, d)
		}
		if tc.want.PID > 0 != got.Running() && !tc.fail {
			t.Errorf("%q: running is %v", tc.out, got.Running())
		}
	}
}

func TestNodeReadyNamesTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &leaseWorld{begin: time.Now()}
		env := w.env()
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown"},
			},
		}}
		if _, err := env.Kube.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err := env.NodeReady(5 * time.Second)(t.Context())
		check(t, nil, err,
			`wait for node "worker" to be Ready: waited 5s, last seen: Ready is Unknown (NodeStatusUnknown)`)
		time.AfterFunc(3*time.Second, func() {
			n.Status.Conditions[0].Status = corev1.ConditionTrue
			_, _ = env.Kube.CoreV1().Nodes().UpdateStatus(context.Background(), n, metav1.UpdateOptions{})
		})
		facts, err := env.NodeReady(5 * time.Second)(t.Context())
		check(t, facts, err, "")
	})
}

func TestControlPlaneIsFound(t *testing.T) {
	env := fault.Env{Cluster: fakecluster.NewCluster("c", 1)}
	tasks, err := env.OnControlPlane(t.Context())
	if err != nil || len(tasks) != 1 || tasks[0].Node.Name() != "c-control-plane" {
		t.Errorf("got %+v, %v", tasks, err)
	}
}

// TestLaterBoot tells boots apart on nodes that share a kernel, and on machines, where the first process starts about
// as long after each boot.
func TestLaterBoot(t *testing.T) {
	t.Parallel()
	kubelet := probe.Process{PID: 399, Start: history.Time(5 * time.Second), Name: "kubelet"}
	before := probe.Processes{PID1Start: history.Time(480 * time.Millisecond), Boot: "a",
		Processes: []probe.Process{kubelet}}
	for _, c := range []struct {
		name string
		now  probe.Processes
		not  string // Why it is no later boot.
	}{
		{"the same boot", before, "as before"},
		{"the same kernel, an old process", probe.Processes{PID1Start: before.PID1Start + 1, Boot: "a",
			Processes: []probe.Process{kubelet}}, "of the old boot, is still there"},
		{"the same kernel", probe.Processes{PID1Start: before.PID1Start + 1, Boot: "a"}, ""},
		{"another kernel, the same times", probe.Processes{PID1Start: before.PID1Start, Boot: "b",
			Processes: []probe.Process{kubelet}}, ""},
		{"another kernel that was faster", probe.Processes{PID1Start: before.PID1Start / 2, Boot: "b"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			said, err := json.Marshal(c.now)
			if err != nil {
				t.Fatal(err)
			}
			n := fakecluster.NewCluster("c", 1).Node("worker")
			n.On([]string{nodeagent.Path, "probe", "process", "..."}, fakecluster.Reply{Stdout: string(said)})
			facts, err := fault.Env{Node: n}.LaterBoot(0, before)(t.Context())
			if c.not == "" && (err != nil || len(facts) != 2) || c.not != "" && (err == nil ||
				!strings.Contains(err.Error(), c.not)) {
				t.Errorf("LaterBoot = %v, %v, want %q", facts, err, c.not)
			}
		})
	}
}
