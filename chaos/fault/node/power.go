package node

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// orderly is what a node has to shut down in: its services stop in turn, and what runs in its containers is asked to
// end before it is killed.
const orderly = 20 * time.Second

// Crash ends a node without a word and leaves it down for the hold. On kind the kernel and its page cache stay: it is
// not a power loss.
func Crash() fault.Definition {
	return takingAway(fault.Definition{
		Name:    "node-crash",
		Summary: "Kills every process on the victim's node with SIGKILL, and boots the node after the hold.",
		// A node that is gone without a word, with its volumes attached.
		Upstream: "KEP-2268 non-graceful node shutdown",
	}, func(ctx context.Context, n clusters.PowerNode) error { return n.Kill(ctx) })
}

// Stop shuts a node down and leaves it down for the hold, as somebody does who takes a machine out for repair without
// draining it.
func Stop() fault.Definition {
	return takingAway(fault.Definition{
		Name:    "node-stop",
		Summary: "Shuts the victim's node down within 20 seconds, and boots it after the hold.",
		// What is left of pods and volumes when their node is shut down under them.
		Upstream: "KEP-2000 graceful node shutdown, KEP-2268 non-graceful node shutdown",
	}, func(ctx context.Context, n clusters.PowerNode) error { return n.Stop(ctx, orderly) })
}

// takingAway completes the definition of a fault that does something to a node after which it is down.
func takingAway(d fault.Definition, act func(context.Context, clusters.PowerNode) error) fault.Definition {
	d.Shown = "The runtime has it down, its kubelet answers on no address of either family, and its lease is not " +
		"renewed while that of another node is."
	d.Healed = "It is started: a later boot without the old processes, kubelet active, lease renewed, node and pods " +
		"Ready with new containers, routes and mounts back."
	d.Needs = []string{"power"}
	d.Takes = []plan.Part{plan.PartNode, plan.PartProcesses}
	return fault.Plain(d, func(_ plan.Fault, env fault.Env) (fault.Fault, error) {
		a, err := newAway(env, clusters.StateExited)
		return &down{away: a, act: act}, err
	})
}

// Pause freezes a whole node, as the host of a virtual machine does that is short of something or moves it elsewhere.
// Its network stays, so connections are taken and never answered, and a database on it still believes it is the only
// one.
func Pause() fault.Definition {
	return fault.Plain(fault.Definition{
		Name:    "node-pause",
		Summary: "Freezes every process on the victim's node, and lets them go on later.",
		Shown: "The runtime has it paused, its kubelet answers on no address of either family, and its lease is not " +
			"renewed while that of another node is.",
		Healed: "It is thawed: the same boot, its kubelet answers on every address, lease renewed, node Ready.",
		Needs:  []string{"power"},
		// What a process does that was away and does not know it.
		Takes:    []plan.Part{plan.PartNode},
		Upstream: "jepsen.io: process pause (SIGSTOP), here of a whole node; KEP-2268 non-graceful node shutdown",
	}, func(_ plan.Fault, env fault.Env) (fault.Fault, error) {
		a, err := newAway(env, clusters.StatePaused)
		return &pause{away: a}, err
	})
}

// Reboot stops a node in an orderly way, with little time to do it, and starts it again. On kind /var stays, and /run,
// /tmp, mounts made by hand, routes and nftables go. The kernel and its page cache stay: it is not a power loss.
func Reboot() fault.Definition {
	return fault.Plain(fault.Definition{
		Name:    "node-reboot",
		Summary: "Reboots the victim's node with a grace of two seconds.",
		Shown:   "The node has a later boot, and the old one's kubelet and processes of the workload are gone.",
		Healed: "It is up again: kubelet active, lease renewed, node and pods Ready with new containers, routes and " +
			"mounts back.",
		Needs: []string{"reboot"},
		// What is wrong after a boot: volumes reported unmounted, and leftovers taken for mounts.
		Takes:    []plan.Part{plan.PartNode},
		Upstream: "k/k#120853, k/k#124057",
	}, func(_ plan.Fault, env fault.Env) (fault.Fault, error) {
		node, ok := env.Node.(clusters.Rebooter)
		if !ok {
			return nil, fmt.Errorf("node %q cannot be rebooted: its provider cannot do it", env.Node.Name())
		}
		return &reboot{Env: env, node: node}, nil
	})
}

const (
	// grace is what a rebooted node has to stop in. Pods are not given their own grace: shutdown is what kills them.
	grace = 2 * time.Second
	// bootBound is how long the node's services may take to come up; about 5 s on an idle machine.
	bootBound = 50 * time.Second
	// backBound is how long the pods may take. Each starts a database that recovers.
	backBound = 2 * time.Minute
	// evictedAfter is for how long pods stay on a node that is away: they tolerate it for five minutes from when it is
	// known (DefaultTolerationSeconds), and another may have taken their place after that.
	evictedAfter = 4 * time.Minute
)

// away is a node that is taken away as a whole: nothing on it can undo that, so the watchdog beside the cluster does.
type away struct {
	fault.Env
	node    clusters.PowerNode
	want    string       // The state of the node while it is away.
	witness witness      // Who asked the node before, and where.
	leases  fault.Leases // When it was away.
}

func newAway(env fault.Env, want string) (away, error) {
	power, err := env.Power()
	if err == nil && env.Watchdog == nil {
		err = fmt.Errorf("node %q cannot be taken away: no watchdog beside the cluster could bring it back",
			env.Node.Name())
	}
	return away{Env: env, node: power, want: want}, err
}

// Undo has the watchdog bring the node back.
func (a *away) Undo(context.Context) ([]undo.Task, error) {
	return []undo.Task{{Node: a.node, Power: true}}, nil
}

// look looks whether the node has the wanted state.
func (a *away) look() fault.Show {
	return fault.Judged(a.Env, a.node.State, func(now string) (string, error) {
		if now != a.want {
			return "", fault.NotYet("node %q is %s, not %s", a.node.Name(), now, a.want)
		}
		return fmt.Sprintf("node %q is %s, as the container runtime has it", a.node.Name(), now), nil
	})
}

// Confirm shows that the node is away: by its state, by its kubelet that answers on none of its addresses, and by its
// lease.
func (a *away) Confirm(ctx context.Context) ([]fault.Fact, error) {
	what := fmt.Sprintf("node %q to be %s", a.node.Name(), a.want)
	return fault.All(ctx, fault.Await(what, 100*time.Millisecond, stopBound, a.look()), a.NoteLeases(&a.leases),
		a.witness.silence, a.LeaseSilent(&a.leases))
}

func (a *away) Held(ctx context.Context) ([]fault.Fact, error) { return a.look()(ctx) }

// Heal brings the node back.
func (a *away) Heal(ctx context.Context) error {
	_, err := undo.BringBack(ctx, a.node)
	return err
}

// down is a node whose processes have all ended, and which is booted when it is healed.
type down struct {
	away
	act    func(context.Context, clusters.PowerNode) error // Takes the node away.
	before snapshot
}

// Inject notes what is there, and takes the node away.
func (d *down) Inject(ctx context.Context) error {
	before, err := takeSnapshot(ctx, d.Env)
	if err != nil {
		return err
	}
	if d.witness, err = newWitness(ctx, d.Env, "https", kubeletPort, true); err != nil {
		return err
	}
	d.before = before
	return d.act(ctx, d.node)
}

// ConfirmHealed shows that the node has booted since, and that all that was on it is back.
func (d *down) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	var shows []fault.Show
	var since fault.Leases
	if d.before.processes.PID1Start != 0 {
		shows = append(shows, d.before.laterBoot(d.Env), func(ctx context.Context) ([]fault.Fact, error) {
			if _, err := d.NoteLeases(&since)(ctx); err != nil { // They are read later, then.
				d.Log.Debug("read the leases after a boot", "node", d.node.Name(), "error", err)
			}
			return nil, nil
		})
	}
	env := d.Env
	if d.Life > evictedAfter {
		env.Pod = "" // It may have been evicted, and be elsewhere.
	}
	return fault.All(ctx, append(shows, d.before.back(env, &since))...)
}

type pause struct {
	away
	boot history.Time // Start of the first process.
}

// Inject notes the boot and who is answered, and pauses the node.
func (p *pause) Inject(ctx context.Context) error {
	found, err := nodeagent.On(p.node).Processes(ctx, probe.Query{PIDs: []int{1}})
	if err != nil {
		return err
	}
	if p.witness, err = newWitness(ctx, p.Env, "https", kubeletPort, true); err != nil {
		return err
	}
	p.boot = found.PID1Start
	return p.node.Pause(ctx)
}

// ConfirmHealed shows that the node goes on.
func (p *pause) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx, p.witness.answers, p.sameBoot, kubeletActive(p.Env), p.NodeBack(&p.leases))
}

// sameBoot shows that the node was not booted since it was paused.
func (p *pause) sameBoot(ctx context.Context) ([]fault.Fact, error) {
	if p.boot == 0 {
		return nil, nil
	}
	begin := p.Clock()
	now, err := nodeagent.On(p.node).Processes(ctx, probe.Query{PIDs: []int{1}})
	if err != nil {
		return nil, err
	}
	if now.PID1Start != p.boot {
		return nil, fmt.Errorf("node %q was booted at %s, and at %s before it was paused: it did not just go on",
			p.node.Name(), now.PID1Start, p.boot)
	}
	return fault.Seen(history.Between(begin, now.At),
		"the first process of node %q is the one of before, started at %s", p.node.Name(), p.boot), nil
}

type reboot struct {
	fault.Env
	node   clusters.Rebooter
	before snapshot
	leases fault.Leases // When the new boot was seen: what is renewed then was renewed by its kubelet.
}

// Inject notes what is there, and reboots the node.
func (r *reboot) Inject(ctx context.Context) error {
	before, err := takeSnapshot(ctx, r.Env)
	if err != nil {
		return err
	}
	r.before = before
	return r.node.Reboot(ctx, grace)
}

// Confirm shows the later boot and the end of the old processes.
func (r *reboot) Confirm(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx, r.before.laterBoot(r.Env), r.NoteLeases(&r.leases))
}

// Heal starts the node if it is down and somebody has the power to. Any other boots by itself, or never.
func (r *reboot) Heal(ctx context.Context) error {
	_, err := undo.BringBack(ctx, r.node)
	return err
}

// ConfirmHealed shows that the node and all that was on it is back.
func (r *reboot) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	return r.before.back(r.Env, &r.leases)(ctx)
}

// snapshot is what the end of all processes of a node takes away, and what must come back.
type snapshot struct {
	processes probe.Processes // Those that must end, and when the node was booted.
	pods      []corev1.Pod
	routes    []string
	mounts    []string
}

// takeSnapshot notes what is on the victim: its kubelet, and what of the workload runs there, which can be nothing when
// the pod has not been started yet or was just told to end. Without any process that could be shown to end it is an
// error.
func takeSnapshot(ctx context.Context, env fault.Env) (snapshot, error) {
	var s snapshot
	var err error
	if s.pods, err = env.PodsOn(ctx); err != nil {
		return s, err
	}
	unit, err := fault.ReadUnit(ctx, env.Node, kubelet)
	if err != nil {
		return s, err
	}
	var pids []int
	if unit.PID > 0 {
		pids = append(pids, unit.PID)
	}
	if s.processes, err = env.Workload(ctx, s.pods, pids...); err != nil {
		return s, err
	}
	if len(s.processes.Processes) == 0 {
		return s, fmt.Errorf("neither a kubelet nor a process of the pods in namespace %q runs on the node: "+
			"none could be shown to end", env.Namespace)
	}
	if s.routes, err = podRoutes(ctx, env); err != nil {
		return s, err
	}
	s.mounts, err = volumeMounts(ctx, env.Node)
	return s, err
}

// laterBoot waits until the node has a later boot and the processes of the old one are gone.
func (s snapshot) laterBoot(env fault.Env) fault.Show {
	return fault.Await("a later boot", 200*time.Millisecond, bootBound, env.LaterBoot(env.Clock(), s.processes))
}

// back shows that the node and all that was on it is back. Since is of a moment after the boot, or zero when nothing is
// known of it: what is renewed then was renewed by the node's new kubelet. Without any process of before, no pod must
// have new containers.
func (s snapshot) back(env fault.Env, since *fault.Leases) fault.Show {
	if len(s.processes.Processes) == 0 {
		s.pods = nil
	}
	routes := func(ctx context.Context) ([]string, error) { return podRoutes(ctx, env) }
	mounts := func(ctx context.Context) ([]string, error) { return volumeMounts(ctx, env.Node) }
	return func(ctx context.Context) ([]fault.Fact, error) {
		return fault.All(ctx, env.UnitActive(kubelet, bootBound), env.NodeBack(since),
			env.PodsBack(&s.pods, true, backBound),
			again(env, "routes to the pods of other nodes", s.routes, routes),
			again(env, "mounts of local volumes", s.mounts, mounts))
	}
}
