package faulttest_test

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	k8stesting "k8s.io/client-go/testing"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/fault/node"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/fake"
)

// wholeNode is what can be done to a node and its programs as a whole.
type wholeNode struct {
	frozen         bool // The kubelet.
	runtimeStopped bool
	requires       bool // systemd stops the kubelet with its runtime.
	proxyKills     int  // How often kube-proxy was killed.
	proxyKilled    time.Time
}

// proxyPause is the kubelet's back-off.
const proxyPause = 10 * time.Second

// booted is what a boot does to it.
func (n *wholeNode) booted() { n.frozen, n.runtimeStopped, n.proxyKilled = false, false, time.Time{} }

// still reports that nothing of the kubelet moves.
func (m *machine) still() bool {
	state, err := m.node.State(context.Background())
	return m.stopped || m.frozen || err != nil || state != clusters.StateRunning
}

// proxy returns the pid of kube-proxy, 0 while there is none, and when it was started.
func (m *machine) proxy() (pid int, start time.Time) {
	back := m.proxyKilled.Add(proxyPause)
	switch {
	case m.proxyKilled.IsZero():
		return 700 + m.boots, m.booted
	case time.Now().Before(back):
		return 0, time.Time{}
	}
	return 700 + m.boots + 10*m.proxyKills, back
}

// programs are the processes of a machine beside those of the workload.
func (w *world) programs(m *machine) []probe.Process {
	var all []probe.Process
	if !m.runtimeStopped {
		all = append(all, probe.Process{PID: m.runtime, Start: w.time(m.runtimeBegan), Name: "containerd", State: "S"})
	}
	if !m.stopped {
		state := "S"
		if m.frozen {
			state = "T"
		}
		all = append(all, probe.Process{PID: m.pid, Start: w.time(m.started), Name: "kubelet", State: state})
	}
	if pid, start := m.proxy(); pid > 0 {
		all = append(all, probe.Process{PID: pid, Start: w.time(start), Name: "kube-proxy", State: "S"})
	}
	return all
}

// program carries out a command about whole programs, if it is one. The lock is held.
func (w *world) program(m *machine, argv []string) (out string, exit int, known bool) {
	proxy, _ := m.proxy()
	switch line := strings.Join(argv, " "); {
	case strings.HasPrefix(line, "systemctl stop ") && strings.HasSuffix(line, " containerd"):
		m.runtimeStopped = !w.inert
		if m.requires && !slices.Contains(argv, "--job-mode=ignore-requirements") {
			m.stopped = true
		}
	case line == "systemctl start containerd" && m.runtimeStopped:
		w.startRuntime(m)
	case strings.HasPrefix(line, "systemctl show containerd") && m.runtimeStopped:
		return "MainPID=0\nNRestarts=0\nActiveState=inactive\nSubState=dead\n", 0, true
	case line == "timeout 5 ctr version":
		if m.runtimeStopped {
			return "", 1, true
		}
	case line == fmt.Sprintf("kill -s STOP %d", m.pid):
		m.frozen = !w.inert
	case strings.HasPrefix(line, fmt.Sprintf("kill -s STOP %d", w.task(m).PID)),
		strings.HasPrefix(line, fmt.Sprintf("kill -s STOP %d", forkedPID)):
		return "", w.stopProcesses(m, argv[3:]), true
	case line == fmt.Sprintf("kill -s CONT %d", m.pid):
		m.frozen = false
	case line == fmt.Sprintf("kill -s KILL %d", proxy):
		if !w.inert {
			m.proxyKills, m.proxyKilled = m.proxyKills+1, time.Now()
		}
	case line == fmt.Sprintf("find /proc -ignore_readdir_race -maxdepth 1 -name %d", m.pid):
		return fmt.Sprintf("/proc/%d\n", m.pid), 0, true
	case line == fmt.Sprintf("cat /proc/%d/stat", m.pid):
		ticks := int64(w.time(m.started)) / int64(10*time.Millisecond)
		return fmt.Sprintf("%d (kubelet) T 1%s %d 5 6\n", m.pid, strings.Repeat(" 0", 17), ticks), 0, true
	case argv[0] == "curl" && slices.Contains(argv, "--noproxy"):
		return m.health(argv) // Of the control plane.
	case argv[0] == "curl":
		return w.curl(m, argv[len(argv)-1])
	default:
		return "", 0, false
	}
	return "", 0, true
}

func (w *world) startRuntime(m *machine) {
	if m.runtimeStopped {
		m.runtimeStopped, m.runtime, m.runtimeBegan = false, m.runtime+100, time.Now()
	}
}

// curl asks a program for its health. The lock is held.
func (w *world) curl(m *machine, target string) (out string, exit int, known bool) {
	if target == "http://127.0.0.1:2381/metrics" {
		if !w.static("etcd").well() {
			return "", 7, true
		}
		return fmt.Sprintf("# TYPE etcd_cluster_version gauge\netcd_cluster_version{cluster_version=\"3.%d\"} 1\n",
			6+w.raised), 0, true
	}
	const refused, late = 7, 28
	u, err := url.Parse(target)
	if err != nil {
		return "", 3, true
	}
	if u.Hostname() == "127.0.0.1" {
		if m.frozen {
			return "", late, true
		}
		return "ok", 0, true
	}
	to := netip.MustParseAddrPort(u.Host)
	if w.severed(m, to) {
		return "000", late, true
	}
	for _, other := range w.nodes {
		all, _ := other.node.Addresses(context.Background())
		if !slices.Contains(all, to.Addr()) {
			continue
		}
		w.catchUp(other)
		state, _ := other.node.State(context.Background())
		proxy, _ := other.proxy()
		switch {
		case state != clusters.StateRunning, to.Port() == 10250 && other.frozen:
			return "000", late, true
		case to.Port() == 10250 && other.stopped, to.Port() == 10256 && proxy == 0:
			return "000", refused, true
		case to.Port() == 10250:
			return "401", 0, true
		}
		return "200", 0, true
	}
	return "000", refused, true
}

// listProxies lists the pods of kube-proxy, for who asks for them alone.
func (w *world) listProxies(a k8stesting.Action) (bool, runtime.Object, error) {
	if a.(k8stesting.ListAction).GetListRestrictions().Labels.String() != "k8s-app=kube-proxy" {
		return false, nil, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.control()
	list := &corev1.PodList{}
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		m := w.nodes[name]
		state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		if pid, _ := m.proxy(); pid == 0 {
			state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}}
		}
		list.Items = append(list.Items, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-proxy-" + name,
				Labels: map[string]string{"k8s-app": "kube-proxy"}},
			Spec: corev1.PodSpec{NodeName: name},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				Name: "kube-proxy", ContainerID: fmt.Sprintf("containerd://proxy-%d-%d", m.boots, m.proxyKills),
				State: state,
			}}},
		})
	}
	return true, list, nil
}

// Kill, Pause and Stop do nothing, as the rest of the power switch.
func (idle) Kill(context.Context) error { return nil }

func (idle) Pause(context.Context) error { return nil }

func (idle) Stop(context.Context, time.Duration) error { return nil }

// armedBeside is what is armed beside the cluster. Arming goes through a node called "host", so that it is an act as
// well.
type armedBeside struct {
	w      *world
	host   *fake.Node
	timers map[string]*time.Timer
	kube   kubernetes.Interface // To remove marks.
}

func (w *world) makeArmedBeside() {
	host := fake.NewNode("host", clusters.RoleControlPlane, w.cluster.Transcript)
	w.armedBeside = &armedBeside{w: w, host: host, timers: map[string]*time.Timer{}}
}

// act carries out do, as an act of the harness.
func (k *armedBeside) act(ctx context.Context, do func(), argv ...string) error {
	under := func(context.Context, clusters.Command, string) (clusters.Result, error) {
		k.w.mu.Lock()
		defer k.w.mu.Unlock()
		do()
		return clusters.Result{}, nil
	}
	k.host.On([]string{"..."}, fake.Reply{Do: under})
	_, err := k.host.Exec(ctx, clusters.Command{Argv: argv})
	return err
}

// Arm has a node brought back after life.
func (k *armedBeside) Arm(ctx context.Context, name string, owner undo.Owner, life time.Duration) error {
	order := owner.Name() + "@" + name
	return k.act(ctx, func() {
		k.timers[order] = time.AfterFunc(life, func() {
			k.w.nodes[name].node.BringBack()
			k.w.mu.Lock()
			defer k.w.mu.Unlock()
			delete(k.timers, order)
		})
	}, "arm", order, life.String())
}

// ArmMarks has marks removed after life, as long as the API server answers.
func (k *armedBeside) ArmMarks(ctx context.Context, resource string, owner undo.Owner, life time.Duration) error {
	order := owner.Name() + "@" + resource
	return k.act(ctx, func() {
		k.timers[order] = time.AfterFunc(life, func() {
			if _, err := fault.Unmark(context.Background(), k.kube, &owner, resource); err != nil {
				panic(err)
			}
			k.w.mu.Lock()
			defer k.w.mu.Unlock()
			delete(k.timers, order)
		})
	}, "arm", order, life.String())
}

// Disarm ends it.
func (k *armedBeside) Disarm(ctx context.Context, name string, owner undo.Owner) error {
	order := owner.Name() + "@" + name
	return k.act(ctx, func() { k.drop(order) }, "disarm", order)
}

func (k *armedBeside) drop(order string) {
	if t, ok := k.timers[order]; ok {
		t.Stop()
		delete(k.timers, order)
	}
}

// Release ends all that are selected.
func (k *armedBeside) Release(_ context.Context, only undo.Only) ([]string, error) {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	var names []string
	for _, order := range slices.Sorted(maps.Keys(k.timers)) {
		name, _, _ := strings.Cut(order, "@")
		if owner, ours := undo.FromName(name); ours && owner.In(only) {
			k.drop(order)
			names = append(names, order)
		}
	}
	return names, nil
}

// away returns what of whole nodes and programs is not as the world began. The lock is held.
func (w *world) away() []string {
	out := slices.Sorted(maps.Keys(w.armedBeside.timers))
	for name, m := range w.nodes {
		out = append(out, m.crooked()...)
		state, _ := m.node.State(context.Background())
		if state != clusters.StateRunning || m.frozen || m.runtimeStopped || !m.starvedAt.IsZero() {
			out = append(out, fmt.Sprintf("%s: %s, kubelet frozen: %t, starved: %s, runtime stopped: %t", name, state,
				m.frozen, m.starvedAt, m.runtimeStopped))
		}
	}
	return out
}

// TestANodeThatIsBroughtBackWhileItIsHeldIsFound lets the dead-man come early.
func TestANodeThatIsBroughtBackWhileItIsHeldIsFound(t *testing.T) {
	for _, def := range []fault.Definition{node.Crash(), node.Pause(), node.Stop()} {
		t.Run(def.Name, func(t *testing.T) {
			inWorld(t, def, func(*world) {}, func(t *testing.T, w *world, b faulttest.Bench) {
				r, err := faulttest.Run(t.Context(), def, b, func(f history.Fault) {
					if f.Stage == history.StageConfirmed {
						w.nodes["c-worker"].node.BringBack()
					}
				})
				if stageOf(err) != "hold" || !strings.Contains(err.Error(), `node "c-worker" is running`) {
					t.Errorf("got %v, want an error of hold", err)
				}
				if evidenceOf(r, history.StageConfirmedHealed) == "" {
					t.Errorf("it was not healed: %q", r.Stages())
				}
			})
		})
	}
}

// TestNoNodeIsTakenAwayThatNobodyCouldBringBack makes the faults where there is no dead-man, and no power.
func TestNoNodeIsTakenAwayThatNobodyCouldBringBack(t *testing.T) {
	for _, def := range []fault.Definition{node.Crash(), node.Pause(), node.Stop()} {
		inWorld(t, def, func(*world) {}, func(t *testing.T, w *world, b faulttest.Bench) {
			env := b.Env
			env.Watchdog = nil
			if _, err := def.New(b.Spec, 1, env); err == nil || !strings.Contains(err.Error(), "no watchdog") {
				t.Errorf("%s: got %v", def.Name, err)
			}
			env = b.Env
			env.Node = w.cluster.Node("worker").WithoutPower()
			if _, err := def.New(b.Spec, 1, env); err == nil || !strings.Contains(err.Error(), "no power") {
				t.Errorf("%s: got %v", def.Name, err)
			}
		})
	}
}

// TestAPauseThatWasABootIsFound boots the node while it is paused.
func TestAPauseThatWasABootIsFound(t *testing.T) {
	inWorld(t, node.Pause(), func(*world) {}, func(t *testing.T, w *world, b faulttest.Bench) {
		_, err := faulttest.Run(t.Context(), node.Pause(), b, func(f history.Fault) {
			if f.Stage == history.StageHealed {
				_ = w.cluster.Node("worker").Kill(t.Context())
				w.cluster.Node("worker").BringBack()
			}
		})
		if stageOf(err) != "confirm healed" || !strings.Contains(err.Error(), "did not just go on") {
			t.Errorf("got %v", err)
		}
	})
}

// TestAFreezeWithoutAWitnessIsRefused cuts one family of the victim before: its silence would show nothing.
func TestAFreezeWithoutAWitnessIsRefused(t *testing.T) {
	for _, def := range []fault.Definition{node.KubeletFreeze(), node.Pause(), node.Crash()} {
		inWorld(t, def, func(w *world) {
			w.nodes["c-worker"].tables["others"] = parseFilter("chain x {\ntype filter hook prerouting\n" +
				"ip6 saddr @all drop\n}\nset all {\n::/0 timeout 9s\n}\n")
		}, func(t *testing.T, w *world, b faulttest.Bench) {
			_, err := faulttest.Run(t.Context(), def, b, nil)
			if stageOf(err) != "inject" || !strings.Contains(err.Error(), "no silence could be shown") ||
				!strings.Contains(err.Error(), "https://[fc00::3]:10250/healthz does not answer") {
				t.Errorf("%s: got %v", def.Name, err)
			}
			if left := w.away(); len(left) > 0 {
				t.Errorf("%s: left %q", def.Name, left)
			}
		})
	}
}

// TestAKubeletThatRequiresItsRuntimeGoesOn has a unit of the kubelet with Requires=containerd.service.
func TestAKubeletThatRequiresItsRuntimeGoesOn(t *testing.T) {
	requires := func(w *world) { w.nodes["c-worker"].requires = true }
	inWorld(t, node.RuntimeStop(), requires, func(t *testing.T, w *world, b faulttest.Bench) {
		_, err := faulttest.Run(t.Context(), node.RuntimeStop(), b, func(f history.Fault) {
			if w.nodes["c-worker"].stopped {
				t.Errorf("the kubelet is stopped when the fault is %s", f.Stage)
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// TestAKubeletThatIsFrozenAlreadyIsLeftAlone has somebody else's SIGSTOP there before.
func TestAKubeletThatIsFrozenAlreadyIsLeftAlone(t *testing.T) {
	frozen := func(w *world) { w.nodes["c-worker"].frozen = true }
	inWorld(t, node.KubeletFreeze(), frozen, func(t *testing.T, w *world, b faulttest.Bench) {
		_, err := faulttest.Run(t.Context(), node.KubeletFreeze(), b, nil)
		pid := strconv.Itoa(w.nodes["c-worker"].pid)
		if stageOf(err) != "arm" || !strings.Contains(err.Error(), "kubelet pid "+pid+" is stopped already") {
			t.Errorf("got %v", err)
		}
		if !w.nodes["c-worker"].frozen {
			t.Error("it goes on")
		}
	})
}
