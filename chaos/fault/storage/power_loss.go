package storage

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/nodeagent/volfault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// PowerLoss simulates a power loss of the victim's node. It writes two files into each of the workload's volumes there
// and syncs one. It then shuts down all their file systems within milliseconds without flushing their logs, and kills
// the processes that have them mounted. Finally one command of the container engine, which does not depend on the
// harness, stops the node's machine without grace and starts it. Other file systems lose nothing: on kind the kernel
// keeps running. If the node is not restarted, the undo remounts the file systems.
func PowerLoss() fault.Definition {
	return fault.Plain(fault.Definition{
		Name:    "power-loss",
		Summary: "Cuts the power of the victim's node: what was not synced on the workload's volumes there is lost.",
		Shown: "Every access to the volumes fails, the node has booted again without the old processes, and on " +
			"each volume a synced file is whole and an unsynced one is gone.",
		Healed: "It is up: kubelet active, lease renewed, node and pods Ready with new containers, volumes readable " +
			"and writable.",
		Needs: []string{"power", "systemd"},
		Takes: []plan.Part{plan.PartNode},
		// Databases that trust a setting, and file systems that lose unsynced renames.
		Upstream: "MySQL Reference Manual, innodb_flush_log_at_trx_commit and sync_binlog",
	}, func(_ plan.Fault, env fault.Env) (fault.Fault, error) {
		power, err := env.Power()
		return &powerLoss{Env: env, node: power}, err
	})
}

const (
	bootBound  = 45 * time.Second // Until the node has mounted its volumes; the kubelet mounts those of a CSI driver.
	podsBound  = 2 * time.Minute  // Until its pods are Ready. Each starts a database that recovers.
	bootedPoll = 200 * time.Millisecond
)

type powerLoss struct {
	fault.Env
	node clusters.PowerNode

	volumes   []fault.Volume
	pods      []corev1.Pod
	processes probe.Processes // Before the act.
	lost      []volfault.Report
	leases    fault.Leases // As of the new boot.
}

// Undo remounts the file systems, in case the node is not restarted, and starts the node in case it is left down by a
// provider that needs two acts for it.
func (p *powerLoss) Undo(context.Context) ([]undo.Task, error) {
	tasks := []undo.Task{{Node: p.node, Actions: []undo.Action{undo.MendVolumes(p.Owner)}, UntilBoot: true}}
	if p.Watchdog != nil {
		tasks = append(tasks, undo.Task{Node: p.node, Power: true})
	}
	return tasks, nil
}

// Inject records the state, shuts the file systems down, and restarts the node without grace.
func (p *powerLoss) Inject(ctx context.Context) error {
	var err error
	if p.volumes, err = p.Volumes(ctx); err != nil {
		return err
	}
	if len(p.volumes) == 0 {
		return fmt.Errorf("no volume of the workload is on node %q: no loss could be shown", p.node.Name())
	}
	if p.pods, err = p.PodsOn(ctx); err != nil {
		return err
	}
	if p.processes, err = p.Workload(ctx, p.pods); err != nil {
		return err
	}
	if p.lost, err = inflict(ctx, p.Env, volfault.Power, names(p.volumes)...); err != nil {
		return err
	}
	return p.node.Reboot(ctx, 0)
}

// Confirm shows that the volumes failed, the later boot, and the loss on each volume.
func (p *powerLoss) Confirm(ctx context.Context) ([]fault.Fact, error) {
	booted := fault.Await("a later boot", bootedPoll, bootBound, p.LaterBoot(p.Clock(), p.processes))
	return fault.All(ctx, p.failed, booted, p.NoteLeases(&p.leases), p.shown)
}

// failed returns the facts about the volumes right after the shutdown of their file systems.
func (p *powerLoss) failed(context.Context) ([]fault.Fact, error) {
	if len(p.lost) != len(p.volumes) {
		return nil, fmt.Errorf("%d volumes were to lose their power, %d did", len(p.volumes), len(p.lost))
	}
	facts := make([]fault.Fact, 0, len(p.lost))
	for i, r := range p.lost {
		words := []string{fmt.Sprintf("volume %s of %s, %s on %s", r.PV, p.volumes[i].Pod, r.FileSystem, r.Source)}
		for _, op := range []string{volfault.AccessRead, volfault.AccessWrite} {
			t, ok := tried(r, op)
			if !ok || t.Error == "" {
				return nil, fmt.Errorf("volume %q was to be shut down: %s", r.PV, t)
			}
			words = append(words, t.String())
		}
		facts = append(facts, fault.Fact{Span: history.At(r.At), Sentence: strings.Join(words, ": ")})
	}
	return facts, nil
}

// shown waits until the volumes are mounted again and checks the loss on each.
func (p *powerLoss) shown(ctx context.Context) ([]fault.Fact, error) {
	return fault.Until(ctx, "the volumes to be mounted again", bootedPoll, bootBound,
		func(ctx context.Context) (facts []fault.Fact, err error) {
			begin := p.Clock()
			reports, err := usable(ctx, p.Env, names(p.volumes)...)
			if err != nil {
				return nil, err
			}
			for _, r := range reports {
				switch {
				case r.Synced != volfault.Whole:
					return nil, await.Stop(fmt.Errorf("volume %q has lost what was synced: the file is %s", r.PV,
						r.Synced))
				case r.Unsynced == volfault.Whole:
					return nil, await.Stop(fmt.Errorf(
						"volume %q has lost nothing: the file that was not synced is whole", r.PV))
				}
				facts = append(facts, p.Saw(begin,
					"volume %s is mounted again: the file that was synced is %s, the one that was not is %s", r.PV,
					r.Synced, r.Unsynced)...)
			}
			return facts, nil
		})
}

// Heal starts the node if it is down, and remounts file systems that are still shut down.
func (p *powerLoss) Heal(ctx context.Context) error {
	if _, err := undo.BringBack(ctx, p.node); err != nil {
		return err
	}
	return p.CarryOut(ctx)
}

// ConfirmHealed shows that the node, its pods and the volumes are back.
func (p *powerLoss) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx, p.UnitActive("kubelet", bootBound), p.NodeBack(&p.leases),
		p.PodsBack(&p.pods, true, podsBound), p.back)
}

// back removes our files and waits until every volume of the workload on the node can be read and written.
func (p *powerLoss) back(ctx context.Context) ([]fault.Fact, error) {
	return fault.Until(ctx, "the volumes to be readable and writable", bootedPoll, bootBound,
		func(ctx context.Context) (_ []fault.Fact, err error) {
			begin := p.Clock()
			if p.volumes, err = p.Volumes(ctx); err != nil {
				return nil, err
			}
			pvs := names(p.volumes)
			if len(pvs) == 0 {
				return p.Saw(begin, "no volume of the workload is on the node"), nil
			}
			if _, err := onVolumes[[]volfault.Report](ctx, p.Env, "mend", pvs...); err != nil {
				return nil, err
			}
			reports, err := usable(ctx, p.Env, pvs...)
			if err != nil {
				return nil, err
			}
			for _, r := range reports {
				if r.Synced != volfault.Missing || r.Unsynced != volfault.Missing {
					return nil, fault.NotYet("volume %q still has a file of ours", r.PV)
				}
			}
			return p.Saw(begin, "%d volumes can be read and written: %s", len(reports), strings.Join(pvs, ", ")), nil
		})
}
