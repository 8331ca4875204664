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

// The services of a node, by the names of their units.
const (
	kubelet    = "kubelet"
	containerd = "containerd"
)

const (
	stopBound = 10 * time.Second // For the end of a process that systemctl has waited for already.
	// restartBound is how long systemd and a service may take: 1 s of waiting and a few of starting, ten times over.
	restartBound = 40 * time.Second
)

// mainProcess returns what systemd knows of a service, and its process. One that does not run is an error: what is not
// there cannot be taken away.
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

// workload returns the processes of the workload's pods on the victim, and when they were seen.
func workload(ctx context.Context, env fault.Env) (probe.Processes, error) {
	pods, err := env.PodsOn(ctx)
	if err != nil {
		return probe.Processes{}, err
	}
	return env.Workload(ctx, pods)
}

// young is the age up to which a process may well end by itself: the command of a container's probe does.
const young = 10 * time.Second

// goOn returns how many of the workload's processes of before are among those of now, and the first that should be and
// is not.
func goOn(before, now probe.Processes) (live int, ended *probe.Process) {
	for _, p := range before.Processes {
		if now.Lives(p) {
			live++
		} else if ended == nil && before.At.Sub(p.Start) > young {
			ended = &p
		}
	}
	return live, ended
}

// podsGoOn says how many of the workload's processes of before are there. That they must be is for the checks to say.
// When the victim's pod was gone before, there is nothing to go on.
func podsGoOn(env fault.Env, before *probe.Processes) fault.Show {
	return func(ctx context.Context) ([]fault.Fact, error) {
		if len(before.Processes) == 0 {
			return nil, nil
		}
		now, err := env.Again(ctx, before.Processes...)
		live, _ := goOn(*before, now)
		return fault.Seen(history.At(now.At), "%d of %d processes of the workload's pods go on", live,
			len(before.Processes)), err
	}
}

// restart is a service whose main process is killed, and which systemd starts again.
type restart struct {
	fault.Env
	service string
	count   int           // Of restarts, before.
	old     probe.Process // The one that was killed.
	leases  fault.Leases  // When the old one was gone: what is renewed then was renewed without it.
}

// note notes what is to be killed.
func (r *restart) note(ctx context.Context) error {
	before, old, err := mainProcess(ctx, r.Node, r.service)
	r.count, r.old = before.Restarts, old
	return err
}

// Heal starts the service if systemd does not do it.
func (r *restart) Heal(ctx context.Context) error {
	_, err := clusters.Run(ctx, r.Node, "systemctl", "start", r.service)
	return err
}

// serves looks whether a service that runs is at work, among the processes that were looked for.
type serves func(ctx context.Context, found probe.Processes) (facts []fault.Fact, err error)

// restarted waits until the old process is gone, and a later one is the service and at work. The other pids are looked
// for with it.
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

// kubeletHealth asks the kubelet for its health.
func kubeletHealth(env fault.Env) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		return clusters.Run(ctx, env.Node, "curl", "-fsS", "--max-time", "2", "http://127.0.0.1:10248/healthz")
	}
}

// isHealthy judges an answer of kubeletHealth; who names the kubelet in the sentence.
func isHealthy(who string) func(string) (string, error) {
	return func(health string) (string, error) {
		if strings.TrimSpace(health) != "ok" {
			return "", fault.NotYet("the kubelet's health is %.40q", health)
		}
		return who + " says that it is healthy", nil
	}
}

// kubeletHealthy waits until the kubelet says that it is healthy.
func kubeletHealthy(env fault.Env) fault.Show {
	return fault.Await("kubelet to be healthy", time.Second, time.Minute,
		fault.Judged(env, kubeletHealth(env), isHealthy("the kubelet")))
}

func kubeletActive(env fault.Env) fault.Show { return env.UnitActive(kubelet, restartBound) }
