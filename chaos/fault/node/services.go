package node

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/clusters"
)

// The services of a node, by unit name.
const (
	kubelet    = "kubelet"
	containerd = "containerd"
)

const (
	stopBound = 10 * time.Second // For the end of a process after systemctl has returned.
	// restartBound is how long a restart may take: ten times the 1 s of delay and the few seconds of starting.
	restartBound = 40 * time.Second
)

// mainProcess returns a service's state and main process. It is an error if the service does not run.
func mainProcess(ctx context.Context, node clusters.Node, service string) (fault.Unit, probe.Process, error) {
	unit, err := fault.ReadUnit(ctx, node, service)
	if err != nil {
		return unit, probe.Process{}, err
	}
	if !unit.Running() {
		return unit, probe.Process{}, fmt.Errorf("the %s does not run: it is %s; start it first", service, unit.State)
	}
	found, err := nodeagent.On(node).Processes(ctx, probe.Query{PIDs: []int{unit.PID}})
	if err != nil {
		return unit, probe.Process{}, err
	}
	p, ok := found.Find(unit.PID)
	if !ok {
		return unit, p, fmt.Errorf("pid %d of the %s is gone already", unit.PID, service)
	}
	return unit, p, nil
}

// workload returns the processes of the workload's pods on the victim, with the time of the reading.
func workload(ctx context.Context, env fault.Env) (probe.Processes, error) {
	pods, err := env.PodsOn(ctx)
	if err != nil {
		return probe.Processes{}, err
	}
	return env.Workload(ctx, pods)
}

// shortLived is the age below which a process may be short-lived, such as the command of a container's probe.
const shortLived = 10 * time.Second

// survivors returns how many of the workload's processes survive, and the first old one that does not.
func survivors(before, now probe.Processes) (live int, ended *probe.Process) {
	for _, p := range before.Processes {
		if now.Lives(p) {
			live++
		} else if ended == nil && before.At.Sub(p.Start) > shortLived {
			ended = &p
		}
	}
	return live, ended
}

// podsSurvive reports how many of the workload's processes survive; the checks judge it. Without processes before the
// act, it returns no fact.
func podsSurvive(env fault.Env, before *probe.Processes) fault.Show {
	return func(ctx context.Context) ([]fault.Fact, error) {
		if len(before.Processes) == 0 {
			return nil, nil
		}
		now, err := env.Again(ctx, before.Processes...)
		live, _ := survivors(*before, now)
		return fault.Seen(history.At(now.At), "%d of %d processes of the workload's pods go on", live,
			len(before.Processes)), err
	}
}

// restart is a service whose main process is killed and which systemd restarts.
type restart struct {
	fault.Env
	service string
	count   int           // Of restarts, before the act.
	old     probe.Process // The killed process.
	leases  fault.Leases  // As of the end of the old process: a renewal since is by a later one.
}

func (r *restart) note(ctx context.Context) error {
	before, old, err := mainProcess(ctx, r.Node, r.service)
	r.count, r.old = before.Restarts, old
	return err
}

// Heal starts the service if systemd does not.
func (r *restart) Heal(ctx context.Context) error {
	_, err := clusters.Run(ctx, r.Node, "systemctl", "start", r.service)
	return err
}

// serves checks that a running service works, given the processes that were looked up.
type serves func(ctx context.Context, found probe.Processes) (facts []fault.Fact, err error)

// restarted waits until the old process is gone and a later main process works. It looks up the others with it.
func (r *restart) restarted(work serves, others ...int) fault.Show {
	return func(ctx context.Context) ([]fault.Fact, error) {
		begin := r.Clock()
		what := fmt.Sprintf("%s pid %d to be gone and a later one to serve", r.service, r.old.PID)
		return fault.Until(ctx, what, 200*time.Millisecond, restartBound,
			func(ctx context.Context) ([]fault.Fact, error) { return r.look(ctx, begin, work, others) })
	}
}

func (r *restart) look(ctx context.Context, begin history.Time, work serves, others []int) ([]fault.Fact, error) {
	now, err := fault.ReadUnit(ctx, r.Node, r.service)
	if err != nil {
		return nil, err
	}
	found, err := nodeagent.On(r.Node).Processes(ctx, probe.Query{PIDs: append([]int{r.old.PID, now.PID}, others...)})
	if err != nil {
		return nil, err
	}
	if found.Lives(r.old) {
		return nil, fault.NotYet("pid %d is still there", r.old.PID)
	}
	if r.leases.At == 0 {
		if r.leases, err = r.ReadLeases(ctx); err != nil {
			return nil, err
		}
	}
	later, ok := found.Find(now.PID)
	switch {
	case !ok || later.Start < r.old.Start:
		return nil, fault.NotYet("%s is %s with pid %d, which is no later process", r.service, now.State, now.PID)
	case now.Restarts <= r.count:
		return nil, fault.NotYet("systemd counts %d restarts as before", now.Restarts)
	}
	atWork, err := work(ctx, found)
	if err != nil {
		return nil, err
	}
	span := history.Between(begin, found.At)
	return append([]fault.Fact{
		{Span: span, Sentence: fmt.Sprintf("%s pid %d, started at %s, is gone", r.service, r.old.PID, r.old.Start)},
		{Span: history.Between(later.Start, found.At),
			Sentence: fmt.Sprintf("%s pid %d was started at %s", r.service, later.PID, later.Start)},
		{Span: span, Sentence: fmt.Sprintf("systemd counts %d restarts, %d before", now.Restarts, r.count)},
	}, atWork...), nil
}

// kubeletHealth returns a function that reads the kubelet's health endpoint.
func kubeletHealth(env fault.Env) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		return clusters.Run(ctx, env.Node, "curl", "-fsS", "--max-time", "2", "http://127.0.0.1:10248/healthz")
	}
}

// isHealthy returns a function that judges an answer of kubeletHealth; who names the kubelet in the sentence.
func isHealthy(who string) func(string) (string, error) {
	return func(health string) (string, error) {
		if strings.TrimSpace(health) != "ok" {
			return "", fault.NotYet("the kubelet's health is %.40q", health)
		}
		return who + " says that it is healthy", nil
	}
}

func kubeletHealthy(env fault.Env) fault.Show {
	return fault.Await("kubelet to be healthy", time.Second, time.Minute,
		fault.Judged(env, kubeletHealth(env), isHealthy("the kubelet")))
}

func kubeletActive(env fault.Env) fault.Show { return env.UnitActive(kubelet, restartBound) }
