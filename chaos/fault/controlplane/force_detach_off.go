package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// ForceDetachOff adds a flag to the kube-controller-manager in its static pod manifests on every control-plane node. It
// breaks nothing: during the hold, the attach/detach controller does not force-detach volumes after six minutes.
func ForceDetachOff() fault.Definition {
	return fault.Plain(fault.Definition{
		Name:    "force-detach-off",
		Summary: "Runs the kube-controller-manager with " + flagSet + " during the hold, whatever the victim.",
		Shown: "Every kube-controller-manager that runs has the flag in its command line, and the leader's lease is " +
			"renewed after that.",
		Healed: "The manifest is restored; it runs without the flag, and the leader's lease is " +
			"renewed after that.",
		Needs: []string{"api", "static-pods", "systemd"},
		// Without the flag, a volume is detached while a NotReady node has it mounted.
		Takes:    []plan.Part{plan.PartManager},
		Upstream: "k/k#120328",
		Manifest: true,
	}, func(_ plan.Fault, env fault.Env) (fault.Fault, error) {
		return &forceDetachOff{victims: victims{Env: env, of: theManager()}}, nil
	})
}

const (
	flag         = "--disable-force-detach-on-timeout"
	flagSet      = flag + "=true"
	restartBound = 55 * time.Second // A few seconds until the kubelet syncs, and 15 s until the old lease expires.
	healedBound  = 2 * time.Minute  // The same on a machine that is busy after a fault.
)

type forceDetachOff struct {
	victims
	foreign bool // The flag was already set.
}

func (f *forceDetachOff) Undo(ctx context.Context) ([]undo.Task, error) {
	nodes, err := f.ControlPlane(ctx)
	if err != nil {
		return nil, err
	}
	return manifestsBack(ctx, nodes, f.Owner, f.of.manifest())
}

func (f *forceDetachOff) Inject(ctx context.Context) error {
	err := eachControlNode(ctx, f.Env, func(n clusters.Node) error {
		return swap(ctx, n, f.Owner, f.of.manifest(), withFlag)
	})
	f.foreign = errors.Is(err, errSet)
	return err
}

// Confirm shows that every kube-controller-manager has the flag, and that one of them leads.
func (f *forceDetachOff) Confirm(ctx context.Context) ([]fault.Fact, error) {
	return f.leads(ctx, true, restartBound)
}

func (f *forceDetachOff) Held(ctx context.Context) ([]fault.Fact, error) {
	_, facts, err := f.runsWith(flagSet, true)(ctx)
	return facts, err
}

// ConfirmHealed shows that none has the flag, and that one of them leads. A flag set by others stays.
func (f *forceDetachOff) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	return f.leads(ctx, f.foreign, healedBound)
}

// leads waits until all run with or without the flag as wanted, and the lease is renewed while they do.
func (f *forceDetachOff) leads(ctx context.Context, want bool, bound time.Duration) ([]fault.Fact, error) {
	what := fmt.Sprintf("%s to run %s, and to lead", manager, carrying(flagSet, want))
	return f.atWork(ctx, what, bound, 1, f.runsWith(flagSet, want))
}
