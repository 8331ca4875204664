package node

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/evidence"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/probe"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/e2e/history"
)

// Reboot returns the fault that stops a node in an orderly way, with little time to do it, and starts it again.
//
// What: the node's machine is rebooted. On kind that is its container: /var stays, /run and /tmp go, and so do mounts
// made by hand, routes and nftables. The kernel and its page cache stay: it is not a power loss.
//
// Shown: the node's first process is a later one, and the processes of the victim's pods that ran before are gone.
//
// Healed: the boot is the heal; a node that is down is started. The kubelet is active, the node's lease is renewed by
// it and the node Ready, all its pods are Ready with new containers, and the routes to the other nodes' pods and the
// mounts of local volumes that were there before are there again.
func Reboot() fault.Definition {
	return fault.Definition{
		Name:    "node-reboot",
		Summary: "Reboots the victim's node with a grace of two seconds.",
		Shown:   "The node has a later boot, and the workload's processes of the old one are gone.",
		Healed: "It is up again: kubelet active, lease renewed, node and pods Ready with new containers, routes and " +
			"mounts back.",
		Needs: []string{"power"},
		// What is wrong after a boot: volumes reported unmounted, and leftovers taken for mounts.
		Takes:    []plan.Part{plan.PartNode},
		Upstream: "k/k#120853, k/k#124057",
		New: func(_ plan.Fault, _ int, env fault.Env) (fault.Fault, error) {
			power, ok := env.Node.(clusters.PowerNode)
			if !ok {
				return nil, fmt.Errorf("node %q cannot be rebooted: its provider has no power over it", env.Node.Name())
			}
			return &reboot{env: env, node: power}, nil
		},
	}
}

const (
	// grace is what the node has to stop in. Pods are not given their own grace: shutdown is what kills them.
	grace = 2 * time.Second
	// bootBound is how long the node's services may take to come up; about 5 s on an idle machine.
	bootBound = 50 * time.Second
	// backBound is how long the pods may take. Each starts a database that recovers.
	backBound = 2 * time.Minute
)

type reboot struct {
	env    fault.Env
	node   clusters.PowerNode
	before snapshot
	leases evidence.Leases // When the new boot was seen: what is renewed then was renewed by its kubelet.
}

// snapshot is what a reboot takes away and what must come back.
type snapshot struct {
	boot      history.Time // Start of the first process.
	processes []probe.Process
	pods      []evidence.Pod
	routes    []string
	mounts    []string
}

// Inject notes what is there, and reboots the node.
func (r *reboot) Inject(ctx context.Context) error {
	var before snapshot
	var err error
	if before.pods, err = evidence.PodsOn(ctx, r.env); err != nil {
		return err
	}
	var uids []string
	for _, p := range before.pods {
		if p.Namespace == r.env.Namespace {
			uids = append(uids, p.UID)
		}
	}
	found, err := processes(ctx, r.node, nil, uids)
	if err != nil {
		return err
	}
	before.boot, before.processes = found.PID1Start, found.Processes
	if len(before.processes) == 0 {
		return fmt.Errorf("no process of the %d pods in namespace %q runs on the node: none could be shown to end",
			len(uids), r.env.Namespace)
	}
	if before.routes, err = podRoutes(ctx, r.env); err != nil {
		return err
	}
	if before.mounts, err = volumeMounts(ctx, r.node); err != nil {
		return err
	}
	r.before = before
	return r.node.Reboot(ctx, grace)
}

// Confirm shows the later boot and the end of the old processes.
func (r *reboot) Confirm(ctx context.Context) ([]fault.Fact, error) {
	var facts []fault.Fact
	begin := r.env.Clock()
	err := await.Until(ctx, "a later boot", 200*time.Millisecond, bootBound,
		func(ctx context.Context) (bool, string, error) {
			now, err := processes(ctx, r.node, r.oldPIDs(), nil)
			if err != nil {
				return false, "", err
			}
			if now.PID1Start <= r.before.boot {
				return false, fmt.Sprintf("the first process was started at %s, as before", now.PID1Start), nil
			}
			for _, old := range r.before.processes {
				if same(now.Processes, old) {
					return false, fmt.Sprintf("%s, pid %d of the old boot, is still there", old.Name, old.PID), nil
				}
			}
			facts = r.facts(now, history.Between(begin, now.At))
			return true, "", nil
		})
	if err != nil {
		return nil, err
	}
	r.leases, err = evidence.ReadLeases(ctx, r.env)
	return facts, err
}

func (r *reboot) oldPIDs() []int {
	pids := make([]int, len(r.before.processes))
	for i, p := range r.before.processes {
		pids[i] = p.PID
	}
	return pids
}

func (r *reboot) facts(now probe.Processes, span history.Span) []fault.Fact {
	facts := []fault.Fact{{Span: history.Between(now.PID1Start, now.At), Sentence: fmt.Sprintf(
		"the node was booted at %s, the boot before at %s", now.PID1Start, r.before.boot)}}
	for _, old := range r.before.processes {
		facts = append(facts, fault.Fact{Span: span, Sentence: fmt.Sprintf(
			"%s, pid %d of the old boot, started at %s, is gone", old.Name, old.PID, old.Start)})
	}
	return facts
}

// Heal starts the node if it is down.
func (r *reboot) Heal(ctx context.Context) error {
	state, err := r.node.State(ctx)
	if err != nil {
		return fmt.Errorf("get state: %w", err)
	}
	switch state {
	case "exited":
		return r.node.Start(ctx)
	case "paused":
		return r.node.Unpause(ctx)
	}
	return nil
}

// ConfirmHealed shows that the node and all that was on it is back.
func (r *reboot) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	var err error
	if r.leases.At == 0 { // The boot was never shown: whatever is renewed from now on is good enough.
		if r.leases, err = evidence.ReadLeases(ctx, r.env); err != nil {
			return nil, err
		}
	}
	var facts []fault.Fact
	for _, look := range []func() (fault.Fact, error){
		func() (fault.Fact, error) { return evidence.UnitActive(ctx, r.env, kubelet, bootBound) },
		func() (fault.Fact, error) { return evidence.LeaseRenewed(ctx, r.env, r.leases, time.Minute) },
		func() (fault.Fact, error) { return evidence.NodeReady(ctx, r.env, time.Minute) },
		func() (fault.Fact, error) { return evidence.PodsBack(ctx, r.env, r.gone(), backBound) },
		func() (fault.Fact, error) {
			return r.same(ctx, "routes to the pods of other nodes", r.before.routes, r.routes)
		},
		func() (fault.Fact, error) {
			return r.same(ctx, "mounts of local volumes", r.before.mounts, r.mounts)
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

// gone returns the pods that must have new containers. If the node was not rebooted, there are none.
func (r *reboot) gone() []evidence.Pod {
	if len(r.before.processes) == 0 {
		return nil
	}
	return r.before.pods
}

func (r *reboot) routes(ctx context.Context) ([]string, error) { return podRoutes(ctx, r.env) }

func (r *reboot) mounts(ctx context.Context) ([]string, error) { return volumeMounts(ctx, r.node) }

// same waits until everything of before is there again.
func (r *reboot) same(ctx context.Context, what string, before []string,
	read func(context.Context) ([]string, error),
) (fault.Fact, error) {
	var fact fault.Fact
	err := await.Until(ctx, what+" to be back", 500*time.Millisecond, time.Minute,
		func(ctx context.Context) (bool, string, error) {
			begin := r.env.Clock()
			now, err := read(ctx)
			if err != nil {
				return false, "", err
			}
			missing := without(before, now)
			fact = fault.Fact{Span: history.Between(begin, r.env.Clock()),
				Sentence: fmt.Sprintf("%d %s are back: %s", len(before), what, strings.Join(before, ", "))}
			if len(before) == 0 {
				fact.Sentence = "there were no " + what + " before"
			}
			return len(missing) == 0, "missing: " + strings.Join(missing, ", "), nil
		})
	return fact, err
}
