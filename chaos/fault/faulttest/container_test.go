package faulttest_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/fault/node"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
)

// container is the workload's container on a machine.
type container struct {
	kills    int       // How often it was killed.
	lastKill time.Time // The kubelet has started another at once.
	hung     bool      // Its first process is stopped.
	forks    bool      // It has a process that ends when processes are stopped, and one that is forked then.
	forked   probe.Process
}

// The processes of a container that forks.
const shortPID, forkedPID = 960, 961

// others are the processes of the container beside the first. The lock is held.
func (w *world) others(m *machine) (all []probe.Process) {
	if m.forked.PID > 0 {
		return []probe.Process{m.forked}
	}
	if m.forks {
		short := w.task(m)
		short.PID, short.Name = shortPID, "check"
		all = append(all, short)
	}
	return all
}

// stopProcesses sends SIGSTOP to processes of the container. The lock is held.
func (w *world) stopProcesses(m *machine, pids []string) (exit int) {
	if m.forks && m.forked.PID == 0 {
		m.forked = w.task(m)
		m.forked.PID, m.forked.Start = forkedPID, w.time(time.Now())
	}
	for _, pid := range pids {
		switch {
		case w.inert:
		case pid == strconv.Itoa(w.task(m).PID):
			m.hung = true
		case pid == strconv.Itoa(m.forked.PID):
			m.forked.State = "T"
		default:
			exit = 1
		}
	}
	return exit
}

// containerID is what the kubelet reports. The lock is held.
func (m *machine) containerID() string {
	return fmt.Sprintf("containerd://boot-%d-%d", m.boots, m.kills)
}

// mysqld returns the first process of the container, and when it was started.
func (m *machine) mysqld() (pid int, start time.Time) {
	if m.lastKill.After(m.booted) {
		return 900 + m.boots + 10*m.kills, m.lastKill
	}
	return 900 + m.boots, m.booted
}

// endContainer kills the container; the kubelet has started another at once. The lock is held.
func (m *machine) endContainer() { m.kills, m.lastKill, m.hung = m.kills+1, time.Now(), false }

// task is the first process of the container, and its only one. The lock is held.
func (w *world) task(m *machine) probe.Process {
	pid, began := m.mysqld()
	state := "S"
	if m.hung {
		state = "T"
	}
	return probe.Process{PID: pid, Start: w.time(began), Name: "mysqld", State: state, PodUID: workloadUID,
		Container: strings.TrimPrefix(m.containerID(), "containerd://")}
}

// ctr carries out a command of the container runtime, if it is one. The lock is held.
func (w *world) ctr(m *machine, argv []string) (out string, exit int, known bool) {
	if !slices.Equal(argv[:min(4, len(argv))], []string{"ctr", "--namespace", "k8s.io", "tasks"}) {
		return "", 0, false
	}
	id := strings.TrimPrefix(m.containerID(), "containerd://")
	switch rest := argv[4:]; {
	case rest[0] == "list":
		pid, _ := m.mysqld()
		return fmt.Sprintf("TASK    PID    STATUS\n%s    %d    RUNNING\n", id, pid), 0, true
	case slices.Equal(rest, []string{"kill", "--signal", "SIGKILL", id}):
		if !w.inert {
			m.endContainer()
		}
		return "", 0, true
	}
	return "", 1, true
}

// TestAContainerThatThePodDoesNotHave checks that an unknown container is an error before anything is killed: the one
// of the plan's parameter, or else the workload's.
func TestAContainerThatThePodDoesNotHave(t *testing.T) {
	for _, tc := range []struct{ parameter, workload string }{{"sidecar", "mysql"}, {"", "sidecar"}} {
		inWorld(t, node.ContainerKill(), func(*world) {}, func(t *testing.T, w *world, b faulttest.Bench) {
			b.Env.Container = tc.workload
			b.Spec.Params = plan.Params{"container": tc.parameter}
			_, err := faulttest.Run(t.Context(), node.ContainerKill(), b, nil)
			if stageOf(err) != "inject" || !strings.Contains(err.Error(), `it has ["mysql"]`) {
				t.Errorf("got %v, want an error of inject", err)
			}
			if w.nodes["c-worker"].kills != 0 {
				t.Error("it was killed")
			}
		})
	}
}

// TestAContainerThatOthersFrozeIsLeftAlone checks that a container frozen by somebody else is an error.
func TestAContainerThatOthersFrozeIsLeftAlone(t *testing.T) {
	hung := func(w *world) { w.nodes["c-worker"].hung = true }
	inWorld(t, node.ContainerFreeze(), hung, func(t *testing.T, w *world, b faulttest.Bench) {
		_, err := faulttest.Run(t.Context(), node.ContainerFreeze(), b, nil)
		if stageOf(err) != "arm" || !strings.Contains(err.Error(), "is stopped already") {
			t.Errorf("got %v, want an error of arm", err)
		}
		if !w.nodes["c-worker"].hung {
			t.Error("it was thawed")
		}
	})
}

// TestAContainerKilledWhileFrozenIsNotHeld kills the frozen container, as a failing liveness probe does.
func TestAContainerKilledWhileFrozenIsNotHeld(t *testing.T) {
	inWorld(t, node.ContainerFreeze(), func(*world) {}, func(t *testing.T, w *world, b faulttest.Bench) {
		r, err := faulttest.Run(t.Context(), node.ContainerFreeze(), b, func(f history.Fault) {
			if f.Stage == history.StageConfirmed {
				w.mu.Lock()
				w.nodes["c-worker"].endContainer()
				w.mu.Unlock()
			}
		})
		if stageOf(err) != "hold" || !strings.Contains(err.Error(), "is gone: it was not just frozen") {
			t.Errorf("got %v, want an error of hold", err)
		}
		if got := evidenceOf(r, history.StageConfirmedHealed); !strings.Contains(got, "0 of 1 stopped") {
			t.Errorf("it was not healed: %q", got)
		}
	})
}

// TestAProcessThatIsForkedMeanwhileIsFrozenToo has a process end and another begin between the undo's look at the
// container and the act. With a harness that died then, the timer continues both that are left.
func TestAProcessThatIsForkedMeanwhileIsFrozenToo(t *testing.T) {
	forks := func(w *world) { w.nodes["c-worker"].forks = true }
	inWorld(t, node.ContainerFreeze(), forks, func(t *testing.T, w *world, b faulttest.Bench) {
		m := w.nodes["c-worker"]
		r, err := faulttest.Run(t.Context(), node.ContainerFreeze(), b, func(f history.Fault) {
			if f.Stage == history.StageConfirmed && m.forked.State != "T" {
				t.Errorf("the forked process is in state %q", m.forked.State)
			}
		})
		if err != nil || !strings.Contains(evidenceOf(r, history.StageConfirmed), "2 in all, the first mysqld") {
			t.Errorf("got %q, %v", evidenceOf(r, history.StageConfirmed), err)
		}
		if m.forked.State == "T" || m.hung {
			t.Errorf("left stopped: the first %t, the forked one in state %q", m.hung, m.forked.State)
		}
	})
	inWorld(t, node.ContainerFreeze(), forks, func(t *testing.T, w *world, b faulttest.Bench) {
		f, err := node.ContainerFreeze().New(b.Spec, 1, b.Env)
		if err == nil {
			err = faulttest.Arm(t.Context(), f, b)
		}
		if err == nil {
			err = f.Inject(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		w.expire(w.nodes["c-worker"], undo.Owner{Run: "r1", Step: 1})
		if m := w.nodes["c-worker"]; m.forked.State == "T" || m.hung {
			t.Errorf("left stopped: the first %t, the forked one in state %q", m.hung, m.forked.State)
		}
	})
}
