package fault

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// Fact is one thing that was seen, and when.
type Fact struct {
	Span     history.Span
	Sentence string // For example: "kubelet pid 214 is gone".
}

// Fault is one fault, made for one victim. The guard calls its methods in the order Heal (to begin clean), Inject,
// Confirm, Heal, ConfirmHealed. A fault that did nothing returns an error, never a quiet nil.
type Fault interface {
	// Inject carries out the act. An error may leave it half done: the guard heals then.
	Inject(ctx context.Context) error
	// Confirm waits until the effect is shown from the victim's side and returns what was seen.
	Confirm(ctx context.Context) ([]Fact, error)
	// Heal undoes what Inject did. It is idempotent, legal at any time, and safe with nothing injected.
	Heal(ctx context.Context) error
	// ConfirmHealed waits until the effect is shown to be gone and returns what was seen. It is called after an
	// Inject that failed or was cut short, too.
	ConfirmHealed(ctx context.Context) ([]Fact, error)
}

// Undoer is a fault that leaves something to undo. The guard arms the undo before the act, so that the fault ends
// although the harness is gone, and disarms it after Heal.
type Undoer interface {
	// Undo notes what is there before the act and says how to get back to it, node by node.
	Undo(ctx context.Context) ([]undo.Task, error)
}

// Arm arms the tasks of an undo for at most life.
func Arm(ctx context.Context, env Env, owner undo.Owner, life time.Duration, tasks []undo.Task) error {
	var errs []error
	for _, t := range tasks {
		if t.Power {
			errs = append(errs, env.Watchdog.Arm(ctx, t.Node.Name(), owner, life+t.Longer))
		} else {
			errs = append(errs, undo.Arm(ctx, t, owner, life))
		}
	}
	return errors.Join(errs...)
}

// Disarm removes what Arm has armed.
func Disarm(ctx context.Context, env Env, owner undo.Owner, tasks []undo.Task) error {
	var errs []error
	for _, t := range tasks {
		if t.Power {
			errs = append(errs, env.Watchdog.Disarm(ctx, t.Node.Name(), owner))
		} else {
			errs = append(errs, undo.Disarm(ctx, t.Node, owner))
		}
	}
	return errors.Join(errs...)
}

// Holder is a fault whose effect could end by itself while it is held: the undo that is armed may have come early.
type Holder interface {
	// Held looks once whether the effect is still there, and returns what was seen.
	Held(ctx context.Context) ([]Fact, error)
}

// Env is what a fault is given to work with.
type Env struct {
	Cluster   clusters.Cluster
	Kube      kubernetes.Interface
	Node      clusters.Node // The victim.
	Pod       string        // The pod by which the victim was chosen, for example "mysql-1".
	Namespace string        // The workload's namespace.
	Peer      string        // The pod on the other side, of faults between two.
	PeerNode  clusters.Node // Its node; nil for other faults.
	RunID     string        // Owner mark of everything the fault leaves on a node.
	Watchdog  undo.Watchdog // Brings back a node that is taken away as a whole; nil when there is none.
	Clock     func() history.Time
	Log       *slog.Logger
}

// Caps returns what a plan may name, for plan.Validate. Can is what the cluster is able to do, nil when there is no
// cluster yet.
func Caps(definitions []Definition, workloads, can []string) plan.Caps {
	caps := plan.Caps{Workloads: workloads, Can: can}
	for _, d := range definitions {
		caps.Faults = append(caps.Faults, plan.FaultCaps{
			Name: d.Name, Needs: d.Needs, Families: d.Families, CSI: d.CSI, Outlasts: d.Outlasts,
			Triggers: d.Triggers, Network: d.Network, Takes: d.Takes, Longest: plan.Duration(d.Longest),
			Container: d.Container, File: d.File, Grace: d.Grace, Manifest: d.Manifest, Offset: d.Offset,
			Check: d.Check,
		})
	}
	return caps
}

// Definition is one entry of the list of faults.
type Definition struct {
	Name    string
	Summary string // What it does, one sentence.
	Shown   string // How its effect is shown from the victim's side.
	Healed  string // How it is undone, and how that is shown.
	// Needs is what the cluster must be able to do: "api", "clock", "netem", "nftables", "power", "static-pods",
	// "systemd", "tbf".
	Needs    []string
	Families bool             // It can be limited to address families (plan.Fault.Families).
	CSI      bool             // It is one of a CSI driver (plan.Fault.CSI).
	Triggers bool             // Its act can wait on the node for a CSI call (plan.Fault.When).
	Outlasts bool             // It can outlast the one within which it is (plan.Fault.Outlast), and then arms nothing.
	Network  plan.NetworkCaps // Which fields of network faults it takes; with Peer, Env has the other side.
	// Takes is what it has in its hands while it is in force: what no other fault may then touch. Every fault that is
	// not over in a moment has something.
	Takes []plan.Part
	// Container, File, Grace, Manifest and Offset say that it takes the field of plan.Fault of that name. Check, when
	// set, holds a fault against rules of its own, on paper.
	Container, File, Grace, Manifest, Offset bool
	Check                                    func(plan.Fault, plan.Workload) plan.FieldErrors

	// Example, when set, fills in what an example of the fault cannot be without, beyond what the fields above say.
	Example func(*plan.Fault)

	// Longest is the longest hold: beyond it, the cluster undoes the effect by itself. 0 is no limit.
	Longest  time.Duration
	Upstream string // How it is known upstream: an issue, a KEP.
	New      func(spec plan.Fault, step int, env Env) (Fault, error)
}
