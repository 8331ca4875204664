package node

import (
	"context"
	"fmt"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/evidence"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/clusters"
)

// restartBound is how long systemd and the service may take: 1 s of waiting and a few of starting, ten times over.
const restartBound = 40 * time.Second

// restart is a service whose main process is killed, and which systemd starts again.
type restart struct {
	service string
	count   int             // Of restarts, before.
	old     probe.Process   // The one that was killed.
	leases  evidence.Leases // When the old one was gone: what is renewed then was renewed without it.
}

// note notes what is to be killed.
func (r *restart) note(ctx context.Context, node clusters.Node) error {
	before, old, err := mainProcess(ctx, node, r.service)
	if err != nil {
		return err
	}
	r.count, r.old = before.Restarts, old
	return nil
}

// serves shows that a service that runs is at work, among the processes that were looked for. A state that is not empty
// says what is not so.
type serves func(ctx context.Context, found probe.Processes) (facts []fault.Fact, state string, err error)

// shown waits until the old process is gone, and a later one is the service and at work. The other pids are looked for
// with it.
func (r *restart) shown(ctx context.Context, env fault.Env, work serves, others ...int) ([]fault.Fact, error) {
	var facts []fault.Fact
	what := fmt.Sprintf("%s pid %d to be gone and a later one to serve", r.service, r.old.PID)
	begin := env.Clock()
	err := await.Until(ctx, what, 200*time.Millisecond, restartBound,
		func(ctx context.Context) (bool, string, error) {
			seen, state, err := r.look(ctx, env, begin, work, others...)
			facts = seen
			return seen != nil, state, err
		})
	return facts, err
}

// look looks once. It returns no facts until there is one for each thing to be shown.
func (r *restart) look(ctx context.Context, env fault.Env, begin history.Time, work serves, others ...int) (
	[]fault.Fact, string, error,
) {
	now, err := evidence.ReadUnit(ctx, env.Node, r.service)
	if err != nil {
		return nil, "", err
	}
	found, err := processes(ctx, env.Node, append([]int{r.old.PID, now.PID}, others...), nil)
	if err != nil {
		return nil, "", err
	}
	if same(found.Processes, r.old) {
		return nil, fmt.Sprintf("pid %d is still there", r.old.PID), nil
	}
	if r.leases.At == 0 {
		if r.leases, err = evidence.ReadLeases(ctx, env); err != nil {
			return nil, "", err
		}
	}
	later, ok := find(found.Processes, now.PID)
	switch {
	case !ok || later.Start < r.old.Start:
		return nil, fmt.Sprintf("%s is %s with pid %d, which is no later process", r.service, now.State, now.PID), nil
	case now.Restarts <= r.count:
		return nil, fmt.Sprintf("systemd counts %d restarts as before", now.Restarts), nil
	}
	atWork, state, err := work(ctx, found)
	if err != nil || state != "" {
		return nil, state, err
	}
	span := history.Between(begin, found.At)
	return append([]fault.Fact{
		{Span: span, Sentence: fmt.Sprintf("%s pid %d, started at %s, is gone", r.service, r.old.PID, r.old.Start)},
		{Span: history.Between(later.Start, found.At),
			Sentence: fmt.Sprintf("%s pid %d was started at %s", r.service, later.PID, later.Start)},
		{Span: span, Sentence: fmt.Sprintf("systemd counts %d restarts, %d before", now.Restarts, r.count)},
	}, atWork...), "", nil
}
