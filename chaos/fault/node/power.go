package node

import (
	"cmp"
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

// orderly is the grace period of an orderly shutdown: services and containers are told to stop before they are killed.
const orderly = 20 * time.Second

// Crash kills a node without notice and keeps it down for the hold. On kind the kernel and its page cache survive: it
// is not a power loss.
func Crash() fault.Definition {
	return powerFault(fault.Definition{
		Name:    "node-crash",
		Summary: "Kills every process on the victim's node with SIGKILL, and boots the node after the hold.",
		// The node is gone without notice, with volumes attached.
		Upstream: "KEP-2268 non-graceful node shutdown",
	}, func(ctx context.Context, n clusters.PowerNode) error { return n.Kill(ctx) })
}

// Stop shuts a node down and keeps it down for the hold, as an operator who takes a machine out for repair without
// draining it.
func Stop() fault.Definition {
	return powerFault(fault.Definition{
		Name:    "node-stop",
		Summary: "Shuts the victim's node down within 20 seconds, and boots it after the hold.",
		// Pods and volumes whose node was shut down.
		Upstream: "KEP-2000 graceful node shutdown, KEP-2268 non-graceful node shutdown",
	}, func(ctx context.Context, n clusters.PowerNode) error { return n.Stop(ctx, orderly) })
}

// powerFault completes the definition of a fault whose act takes a node down.
func powerFault(d fault.Definition, act func(context.Context, clusters.PowerNode) error) fault.Definition {
	d.Shown = "It is down, its kubelet answers on no address of either family, and its lease is not " +
		"renewed while that of another node is."
	d.Healed = "It is started: a later boot without the old processes, kubelet active, lease renewed, node and pods " +
		"Ready with new containers, routes and mounts back."
	d.Needs = []string{"power"}
	d.Takes = []plan.Part{plan.PartNode, plan.PartProcesses}
	return fault.Define(d, func(p bootParams, _ plan.Fault, env fault.Env) (fault.Fault, error) {
		a, err := newAway(env, clusters.StateExited)
		return &down{away: a, act: act, boot: p.bound()}, err
	})
}

// Pause freezes a whole node, as a hypervisor does under pressure or during a migration. Its network stays up, so
// connections are accepted and never answered, and a database on it still believes it is the only one.
func Pause() fault.Definition {
	return fault.Plain(fault.Definition{
		Name:    "node-pause",
		Summary: "Freezes every process on the victim's node, and continues them after the hold.",
		Shown: "It is paused, its kubelet answers on no address of either family, and its lease is not " +
			"renewed while that of another node is.",
		Healed: "It is thawed: the same boot, its kubelet answers on every address, lease renewed, node Ready.",
		Needs:  []string{"power"},
		// Processes resume without knowing that they were paused.
		Takes:    []plan.Part{plan.PartNode},
		Upstream: "jepsen.io: process pause (SIGSTOP), here of a whole node; KEP-2268 non-graceful node shutdown",
	}, func(_ plan.Fault, env fault.Env) (fault.Fault, error) {
		a, err := newAway(env, clusters.StatePaused)
		return &pause{away: a}, err
	})
}

// Reboot stops a node with a short grace period and starts it again. On kind /var stays; /run, /tmp, manual mounts,
// routes and nftables are lost. The kernel and its page cache survive: it is not a power loss.
func Reboot() fault.Definition {
	return fault.Define(fault.Definition{
		Name:    "node-reboot",
		Summary: "Reboots the victim's node with a grace period of two seconds.",
		Shown:   "The node has booted again; the kubelet and the workload's processes of the old boot are gone.",
		Healed: "It is up again: kubelet active, lease renewed, node and pods Ready with new containers, routes and " +
			"mounts back.",
		Needs: []string{"reboot"},
		// After a boot, volumes may be reported unmounted and leftovers taken for mounts.
		Takes:    []plan.Part{plan.PartNode},
		Upstream: "k/k#120853, k/k#124057",
	}, func(p bootParams, _ plan.Fault, env fault.Env) (fault.Fault, error) {
		node, ok := env.Node.(clusters.Rebooter)
		if !ok {
			return nil, fmt.Errorf("node %q cannot be rebooted: its provider cannot do it", env.Node.Name())
		}
		act := func(ctx context.Context) error { return node.Reboot(ctx, grace) }
		return &reboot{Env: env, node: node, act: act, boot: p.bound()}, nil
	})
}

// Reset resets the machine of a node, as a watchdog or a triple fault does.
func Reset() fault.Definition {
	return fault.Define(fault.Definition{
		Name:    "node-reset",
		Summary: "Resets the victim's machine: no process is told, nothing is written back, and it boots at once.",
		Shown:   "The node has booted again; the kubelet and the workload's processes of the old boot are gone.",
		Healed: "It is up again: kubelet active, lease renewed, node and pods Ready with new containers, routes and " +
			"mounts back.",
		Needs:    []string{"reset"},
		Takes:    []plan.Part{plan.PartNode},
		Upstream: "KEP-2268 non-graceful node shutdown; sysrq.rst of Linux, command b",
	}, func(p bootParams, _ plan.Fault, env fault.Env) (fault.Fault, error) {
		node, ok := env.Node.(clusters.Resetter)
		if !ok {
			return nil, fmt.Errorf("node %q cannot be reset: its provider cannot do it", env.Node.Name())
		}
		return &reboot{Env: env, node: node, act: node.Reset, boot: p.bound()}, nil
	})
}

const (
	// grace is a rebooted node's time to stop. It is shorter than the pods' grace period, so the shutdown kills them.
	grace = 2 * time.Second
	// bootBound is how long a node may take to boot where the plan does not say; about 5 s on an idle kind cluster.
	bootBound = 50 * time.Second
	maxBoot   = 10 * time.Minute
	// backBound is how long the pods may take. Each starts a database that recovers.
	backBound = 2 * time.Minute
	// evictedAfter is how long pods surely stay on a node that is down: they tolerate it for five minutes once it is
	// known (DefaultTolerationSeconds), and may be replaced after that.
	evictedAfter = 4 * time.Minute
)

// bootParams are the parameters of faults that boot a node.
type bootParams struct {
	// Boot is how long the node may take until its kubelet runs: the firmware of a real machine takes minutes.
	Boot plan.Duration `json:"boot,omitempty"`
}

func (p bootParams) bound() time.Duration { return cmp.Or(p.Boot.D(), bootBound) }

// Waits is what the boot may take in addition to that of a node of kind.
func (p bootParams) Waits() time.Duration { return p.bound() - bootBound }

func (p bootParams) Validate(plan.Setting) (errs plan.FieldErrors) {
	if b := p.bound(); b < bootBound || b > maxBoot {
		errs.Add("boot", fmt.Sprintf("use %s to %s, or leave it out", bootBound, maxBoot), "%s is out of range", p.Boot)
	}
	return errs
}

// away is a node that is down or paused as a whole. Only the watchdog outside of the cluster can undo that.
type away struct {
	fault.Env
	node    clusters.PowerNode
	want    string       // The node's state during the hold.
	witness witness      // Asked the node before the act.
	leases  fault.Leases // As of when the node was down.
}

func newAway(env fault.Env, want string) (away, error) {
	power, err := env.Power()
	if err == nil && env.Watchdog == nil {
		err = fmt.Errorf("node %q cannot be taken down: there is no watchdog to bring it back",
			env.Node.Name())
	}
	return away{Env: env, node: power, want: want}, err
}

func (a *away) Undo(context.Context) ([]undo.Task, error) {
	return []undo.Task{{Node: a.node, Power: true}}, nil
}

// look checks that the node has the wanted state.
func (a *away) look() fault.Show {
	return fault.Judged(a.Env, a.node.State, func(now string) (string, error) {
		if now != a.want {
			return "", fault.NotYet("node %q is %s, not %s", a.node.Name(), now, a.want)
		}
		return fmt.Sprintf("node %q is %s, as its provider has it", a.node.Name(), now), nil
	})
}

// Confirm shows that the node is away: by its state, by its kubelet, which answers at no address, and by its lease.
func (a *away) Confirm(ctx context.Context) ([]fault.Fact, error) {
	what := fmt.Sprintf("node %q to be %s", a.node.Name(), a.want)
	facts, err := fault.All(ctx, fault.Await(what, 100*time.Millisecond, stopBound, a.look()))
	if err != nil {
		return facts, err
	}
	shown, err := fault.All(ctx, a.NoteLeases(&a.leases), a.witness.silence, a.LeaseSilent(&a.leases))
	if err != nil {
		err = fmt.Errorf("node %q is %s as its provider has it, and the cluster does not show that: %w", a.node.Name(),
			a.want, err)
	}
	return append(facts, shown...), err
}

func (a *away) Held(ctx context.Context) ([]fault.Fact, error) { return a.look()(ctx) }

func (a *away) Heal(ctx context.Context) error {
	_, err := undo.BringBack(ctx, a.node)
	return err
}

// down is a node whose processes have all ended; the heal boots it.
type down struct {
	away
	act    func(context.Context, clusters.PowerNode) error // Takes the node down.
	boot   time.Duration                                   // How long the boot may take.
	before snapshot
}

func (d *down) Inject(ctx context.Context) error {
	before, err := takeSnapshot(ctx, d.Env)
	if err != nil {
		return err
	}
	if d.witness, err = kubeletWitness(ctx, d.Env); err != nil {
		return err
	}
	d.before = before
	return d.act(ctx, d.node)
}

// ConfirmHealed shows that the node has booted and that everything on it is back.
func (d *down) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	var shows []fault.Show
	var since fault.Leases
	if d.before.processes.PID1Start != 0 {
		shows = append(shows, d.before.laterBoot(d.Env, d.boot), func(ctx context.Context) ([]fault.Fact, error) {
			if _, err := d.NoteLeases(&since)(ctx); err != nil { // LeaseRenewed then reads them itself.
				d.Log.Debug("read the leases after a boot", "node", d.node.Name(), "error", err)
			}
			return nil, nil
		})
	}
	env := d.Env
	if d.Life > evictedAfter {
		env.Pod = "" // The pod may have been evicted and run elsewhere.
	}
	return fault.All(ctx, append(shows, d.before.back(env, d.boot, &since))...)
}

type pause struct {
	away
	boot probe.Processes // Before the pause.
}

// Inject records the boot and a witness, then pauses the node.
func (p *pause) Inject(ctx context.Context) error {
	found, err := nodeagent.On(p.node).Processes(ctx, probe.Query{PIDs: []int{1}})
	if err != nil {
		return err
	}
	if p.witness, err = kubeletWitness(ctx, p.Env); err != nil {
		return err
	}
	p.boot = found
	return p.node.Pause(ctx)
}

func (p *pause) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx, p.witness.answers, p.sameBoot, kubeletActive(p.Env), p.NodeBack(&p.leases))
}

// sameBoot shows that the node was not booted since the pause.
func (p *pause) sameBoot(ctx context.Context) ([]fault.Fact, error) {
	if p.boot.PID1Start == 0 {
		return nil, nil
	}
	begin := p.Clock()
	now, err := nodeagent.On(p.node).Processes(ctx, probe.Query{PIDs: []int{1}})
	if err != nil {
		return nil, err
	}
	if !now.SameBoot(p.boot) {
		return nil, fmt.Errorf("node %q was booted at %s, and at %s before it was paused: it did not just go on",
			p.node.Name(), now.BootName(), p.boot.BootName())
	}
	return fault.Seen(history.Between(begin, now.At),
		"the first process of node %q is the one of before, started at %s", p.node.Name(), p.boot.BootName()), nil
}

type reboot struct {
	fault.Env
	node   clusters.Node
	act    func(context.Context) error // Returns when the node was started again.
	boot   time.Duration               // How long it may take.
	before snapshot
	leases fault.Leases // As of the new boot: only its kubelet can renew the lease since.
}

func (r *reboot) Inject(ctx context.Context) error {
	before, err := takeSnapshot(ctx, r.Env)
	if err != nil {
		return err
	}
	r.before = before
	return r.act(ctx)
}

// Confirm shows a later boot and the end of the old processes.
func (r *reboot) Confirm(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx, r.before.laterBoot(r.Env, r.boot), r.NoteLeases(&r.leases))
}

// Heal starts the node if it is down and the provider has power over it. Without, it boots by itself or not at all.
func (r *reboot) Heal(ctx context.Context) error {
	_, err := undo.BringBack(ctx, r.node)
	return err
}

func (r *reboot) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	return r.before.back(r.Env, r.boot, &r.leases)(ctx)
}

// snapshot is what a node runs before its processes end, and what must come back.
type snapshot struct {
	processes probe.Processes // The processes that must end, and the time of the boot.
	pods      []corev1.Pod
	routes    []string
	mounts    []string
}

// takeSnapshot records the kubelet and the workload on the victim. The workload may have no process, for example if its
// pod has not started yet. It is an error if there is no process at all whose end could be shown.
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

// laterBoot waits until the node has booted again and the processes of the old boot are gone.
func (s snapshot) laterBoot(env fault.Env, bound time.Duration) fault.Show {
	return fault.Await("a later boot", 200*time.Millisecond, bound, env.LaterBoot(env.Clock(), s.processes))
}

// back shows that the node and everything on it is back. Since holds the leases after the boot, or is zero: a later
// renewal is by the new kubelet. Without a snapshot, it does not check pods.
func (s snapshot) back(env fault.Env, boot time.Duration, since *fault.Leases) fault.Show {
	if len(s.processes.Processes) == 0 {
		s.pods = nil
	}
	routes := func(ctx context.Context) ([]string, error) { return podRoutes(ctx, env) }
	mounts := func(ctx context.Context) ([]string, error) { return volumeMounts(ctx, env.Node) }
	return func(ctx context.Context) ([]fault.Fact, error) {
		return fault.All(ctx, env.UnitActive(kubelet, boot), env.NodeBack(since),
			env.PodsBack(&s.pods, true, backBound),
			again(env, "routes to the pods of other nodes", s.routes, routes),
			again(env, "mounts of local volumes", s.mounts, mounts))
	}
}
