package node

import (
	"context"
	"fmt"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// KubeletStop stops the kubelet's service, as an operator does or a kubelet that fails to start. A reboot during the
// hold starts it too.
func KubeletStop() fault.Definition {
	return fault.Plain(fault.Definition{
		Name:    "kubelet-stop",
		Summary: "Stops the kubelet of the victim's node and keeps it stopped; its pods keep running.",
		Shown: "The unit is inactive, its process is gone, and the node's lease is not renewed while that of " +
			"another node is.",
		Healed: "It is started; it is active, the node's lease renewed by it, and the node Ready.",
		Needs:  []string{"systemd"},
		// The restarted kubelet finds pods and volumes changed.
		Takes:    []plan.Part{plan.PartKubelet},
		Upstream: "k/k#113979",
	}, func(_ plan.Fault, env fault.Env) (fault.Fault, error) { return &kubeletStop{Env: env}, nil })
}

type kubeletStop struct {
	fault.Env
	old    probe.Process   // The stopped process.
	pods   probe.Processes // The workload's processes, before the act.
	leases fault.Leases    // As of the end of the process.
}

// Undo records the kubelet's process and starts the service. It is an error if no process runs.
func (k *kubeletStop) Undo(ctx context.Context) (_ []undo.Task, err error) {
	_, k.old, err = mainProcess(ctx, k.Node, kubelet)
	return k.Here(undo.Command("systemctl", "start", kubelet)), err
}

// Inject records the workload's processes, then stops the kubelet.
func (k *kubeletStop) Inject(ctx context.Context) (err error) {
	if k.pods, err = workload(ctx, k.Env); err != nil {
		return err
	}
	_, err = clusters.Run(ctx, k.Node, "systemctl", "stop", kubelet)
	return err
}

// Confirm shows that the kubelet is gone, that its lease is not renewed, and that the pods keep running.
func (k *kubeletStop) Confirm(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx, stopped(k.Env, kubelet, k.old, stopBound), k.NoteLeases(&k.leases),
		k.LeaseSilent(&k.leases), podsSurvive(k.Env, &k.pods))
}

// stopped waits until a service is inactive and its former process is gone.
func stopped(env fault.Env, service string, old probe.Process, bound time.Duration) fault.Show {
	what := fmt.Sprintf("%s pid %d to be gone and none in its place", service, old.PID)
	return fault.Await(what, 200*time.Millisecond, bound, env.UnitDown(service), env.Gone(env.Clock(), old))
}

func (k *kubeletStop) Held(ctx context.Context) ([]fault.Fact, error) {
	return k.UnitDown(kubelet)(ctx)
}

// ConfirmHealed shows that the kubelet is active and the node Ready.
func (k *kubeletStop) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx, kubeletActive(k.Env), k.NodeBack(&k.leases))
}
