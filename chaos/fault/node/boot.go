package node

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/evidence"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
)

const (
	// bootBound is how long the node's services may take to come up; about 5 s on an idle machine.
	bootBound = 50 * time.Second
	// backBound is how long the pods may take. Each starts a database that recovers.
	backBound = 2 * time.Minute
)

// snapshot is what the end of all processes of a node takes away, and what must come back.
type snapshot struct {
	boot      history.Time // Start of the first process; 0 when nothing was noted.
	processes []probe.Process
	pods      []evidence.Pod
	routes    []string
	mounts    []string
}

// takeSnapshot notes what is on the victim: its kubelet, and what of the workload runs there, which can be nothing when
// the pod has not been started yet or was just told to end. Without any process that could be shown to end it is an
// error.
func takeSnapshot(ctx context.Context, env fault.Env) (snapshot, error) {
	var s snapshot
	var err error
	if s.pods, err = evidence.PodsOn(ctx, env); err != nil {
		return s, err
	}
	var uids []string
	for _, p := range s.pods {
		if p.Namespace == env.Namespace {
			uids = append(uids, p.UID)
		}
	}
	unit, err := evidence.ReadUnit(ctx, env.Node, kubelet)
	if err != nil {
		return s, err
	}
	var pids []int
	if unit.PID > 0 {
		pids = append(pids, unit.PID)
	}
	found, err := processes(ctx, env.Node, pids, uids)
	if err != nil {
		return s, err
	}
	s.boot, s.processes = found.PID1Start, found.Processes
	if len(s.processes) == 0 {
		return s, fmt.Errorf("neither a kubelet nor a process of the %d pods in namespace %q runs on the node: "+
			"none could be shown to end", len(uids), env.Namespace)
	}
	if s.routes, err = podRoutes(ctx, env); err != nil {
		return s, err
	}
	s.mounts, err = volumeMounts(ctx, env.Node)
	return s, err
}

// laterBoot waits until the node has a later boot and the processes of the old one are gone.
func (s snapshot) laterBoot(ctx context.Context, env fault.Env) ([]fault.Fact, error) {
	var facts []fault.Fact
	begin := env.Clock()
	err := await.Until(ctx, "a later boot", 200*time.Millisecond, bootBound,
		func(ctx context.Context) (bool, string, error) {
			now, err := processes(ctx, env.Node, pidsOf(s.processes...), nil)
			if err != nil {
				return false, "", err
			}
			if now.PID1Start <= s.boot {
				return false, fmt.Sprintf("the first process was started at %s, as before", now.PID1Start), nil
			}
			for _, old := range s.processes {
				if same(now.Processes, old) {
					return false, fmt.Sprintf("%s, pid %d of the old boot, is still there", old.Name, old.PID), nil
				}
			}
			facts = s.ended(now, history.Between(begin, now.At))
			return true, "", nil
		})
	return facts, err
}

func (s snapshot) ended(now probe.Processes, span history.Span) []fault.Fact {
	facts := []fault.Fact{{Span: history.Between(now.PID1Start, now.At), Sentence: fmt.Sprintf(
		"the node was booted at %s, the boot before at %s", now.PID1Start, s.boot)}}
	for _, old := range s.processes {
		facts = append(facts, fault.Fact{Span: span, Sentence: fmt.Sprintf(
			"%s, pid %d of the old boot, started at %s, is gone", old.Name, old.PID, old.Start)})
	}
	return facts
}

// back shows that the node and all that was on it is back. Since is of a moment after the boot, or zero when
// nothing is known of it: what is renewed then was renewed by the node's new kubelet.
func (s snapshot) back(ctx context.Context, env fault.Env, since evidence.Leases) ([]fault.Fact, error) {
	var facts []fault.Fact
	for _, look := range []func() (fault.Fact, error){
		func() (fault.Fact, error) { return evidence.UnitActive(ctx, env, kubelet, bootBound) },
		func() (fault.Fact, error) { return evidence.LeaseRenewed(ctx, env, since, time.Minute) },
		func() (fault.Fact, error) { return evidence.NodeReady(ctx, env, time.Minute) },
		func() (fault.Fact, error) { return evidence.PodsBack(ctx, env, s.gone(), backBound) },
		func() (fault.Fact, error) {
			return again(ctx, env, "routes to the pods of other nodes", s.routes,
				func(ctx context.Context) ([]string, error) { return podRoutes(ctx, env) })
		},
		func() (fault.Fact, error) {
			return again(ctx, env, "mounts of local volumes", s.mounts,
				func(ctx context.Context) ([]string, error) { return volumeMounts(ctx, env.Node) })
		},
	} {
		fact, err := look()
		if err != nil {
			return facts, err
		}
		facts = append(facts, fact)
	}
	return facts, nil
}

// gone returns the pods that must have new containers. Without any process of before, there are none.
func (s snapshot) gone() []evidence.Pod {
	if len(s.processes) == 0 {
		return nil
	}
	return s.pods
}

// again waits until everything of before is there again.
func again(ctx context.Context, env fault.Env, what string, before []string,
	read func(context.Context) ([]string, error),
) (fault.Fact, error) {
	var fact fault.Fact
	err := await.Until(ctx, what+" to be back", 500*time.Millisecond, time.Minute,
		func(ctx context.Context) (bool, string, error) {
			begin := env.Clock()
			now, err := read(ctx)
			if err != nil {
				return false, "", err
			}
			missing := without(before, now)
			fact = fault.Fact{Span: history.Between(begin, env.Clock()),
				Sentence: fmt.Sprintf("%d %s are back: %s", len(before), what, strings.Join(before, ", "))}
			if len(before) == 0 {
				fact.Sentence = "there were no " + what + " before"
			}
			return len(missing) == 0, "missing: " + strings.Join(missing, ", "), nil
		})
	return fact, err
}
