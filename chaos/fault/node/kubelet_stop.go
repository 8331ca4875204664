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
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// KubeletStop returns the fault that takes the kubelet away for a time, as a person who stops the service does, or a
// kubelet that cannot start. Its pods go on, and nobody looks after them.
//
// What: systemctl stop kubelet.
//
// Shown: the unit is inactive, the process is gone, and the node's lease is not renewed while that of another node is.
//
// Healed: the kubelet is started; it is active, the node's lease is renewed by it, and the node is
// Ready. A timer on the node does it when nobody heals it. A reboot in between starts the kubelet as well.
func KubeletStop() fault.Definition {
	return fault.Definition{
		Name:    "kubelet-stop",
		Summary: "Stops the kubelet of the victim's node and keeps it stopped; its pods go on.",
		Shown: "The unit is inactive, its process is gone, and the node's lease is not renewed while that of " +
			"another node is.",
		Healed: "It is started; it is active, the node's lease renewed by it, and the node Ready.",
		Needs:  []string{"systemd"},
		// A kubelet that is started again finds what became of its pods and volumes without it.
		Takes:    []plan.Part{plan.PartKubelet},
		Upstream: "k/k#113979",
		New: func(_ plan.Fault, step int, env fault.Env) (fault.Fault, error) {
			k := &kubeletStop{env: env, armed: newArmed(step, env)}
			return k, k.owner.Check()
		},
	}
}

// The bounds of what is to be shown; both are within fault.ConfirmLimit.
const (
	stopBound    = 10 * time.Second // Systemctl has waited for the end already.
	silenceBound = 40 * time.Second // Two renew intervals, and room for a lease renewed just before.
)

type kubeletStop struct {
	env fault.Env
	armed
	old    probe.Process   // The one that was stopped.
	pods   probe.Processes // The workload's, before.
	leases evidence.Leases // When the old one was gone.
}

// Undo notes which process is the kubelet; one that others have stopped is an error.
func (k *kubeletStop) Undo(ctx context.Context) (_ []undo.Task, err error) {
	_, k.old, err = mainProcess(ctx, k.env.Node, kubelet)
	return k.undoBy(undo.Command("systemctl", "start", kubelet)), err
}

// Inject notes what runs beside the kubelet, and stops it.
func (k *kubeletStop) Inject(ctx context.Context) (err error) {
	if k.pods, err = workload(ctx, k.env); err != nil {
		return err
	}
	_, err = clusters.Run(ctx, k.env.Node, "systemctl", "stop", kubelet)
	return err
}

// Confirm shows that it is gone, then that the node is silent, and then that its pods go on.
func (k *kubeletStop) Confirm(ctx context.Context) ([]fault.Fact, error) {
	var facts []fault.Fact
	what := fmt.Sprintf("kubelet pid %d to be gone and none in its place", k.old.PID)
	begin := k.env.Clock()
	err := await.Until(ctx, what, 200*time.Millisecond, stopBound, func(ctx context.Context) (bool, string, error) {
		fact, state, err := unitDown(ctx, k.env, kubelet)
		if err != nil || state != "" {
			return false, state, err
		}
		found, err := processes(ctx, k.env.Node, pidsOf(k.old), nil)
		if err != nil {
			return false, "", err
		}
		if same(found.Processes, k.old) {
			return false, fmt.Sprintf("pid %d is still there", k.old.PID), nil
		}
		gone := fault.Fact{Span: history.Between(begin, found.At),
			Sentence: fmt.Sprintf("kubelet pid %d, started at %s, is gone", k.old.PID, k.old.Start)}
		facts = []fault.Fact{fact, gone}
		return true, "", nil
	})
	if err != nil {
		return nil, err
	}
	if k.leases, err = evidence.ReadLeases(ctx, k.env); err != nil {
		return facts, err
	}
	silent, err := evidence.LeaseSilent(ctx, k.env, k.leases, silenceBound)
	if err != nil {
		return facts, err
	}
	facts = append(facts, silent)
	live, err := podsGoOn(ctx, k.env, k.pods)
	return append(facts, live...), err
}

// Held shows that it is still inactive.
func (k *kubeletStop) Held(ctx context.Context) ([]fault.Fact, error) {
	return still(unitDown(ctx, k.env, kubelet))
}

// ConfirmHealed shows that the kubelet is back and that the node is.
func (k *kubeletStop) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	return kubeletBack(ctx, k.env, k.leases)
}
