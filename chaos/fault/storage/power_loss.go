package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/evidence"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/nodeagent/volfault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// PowerLoss returns the fault that takes the power from the victim's node: what was not synced on the workload's
// volumes there is gone.
//
// What: two files of ours are written into each volume, and the one is synced. Within milliseconds the file systems of
// all the workload's volumes on the node are shut down without their logs being flushed, and the processes that have
// them mounted are killed. The node's machine is then stopped with no grace and started: one command of the engine,
// which goes on without the harness. Other file systems of the node lose nothing: on kind its kernel lives on.
//
// Shown: every access to the volumes fails at once; the node has a later boot, and the workload's processes of the old
// one are gone; on each volume, mounted anew, the file that was synced is whole, and the other one is not.
//
// Healed: the boot is the heal; a node that is down is started. A file system that was shut down on a node that was not
// started is mounted anew, by a timer on the node if nobody else does it. The kubelet is active, the node's lease is
// renewed by it and the node Ready, its pods are Ready with new containers, and each volume can be read and written.
func PowerLoss() fault.Definition {
	return fault.Definition{
		Name:    "power-loss",
		Summary: "Takes the power from the victim's node: what was not synced on the workload's volumes there is gone.",
		Shown: "Every access to the volumes fails, the node has a later boot without a process of the old one, and " +
			"on each volume a file that was synced is whole, and one that was not is gone.",
		Healed: "It is up again: kubelet active, lease renewed, node and pods Ready with new containers, volumes " +
			"readable and writable.",
		Needs: []string{"power", "systemd"},
		Takes: []plan.Part{plan.PartNode},
		// Databases that trust a setting, and file systems that lose what was renamed and not synced.
		Upstream: "MySQL Reference Manual, innodb_flush_log_at_trx_commit and sync_binlog",
		New: func(_ plan.Fault, step int, env fault.Env) (fault.Fault, error) {
			power, ok := env.Node.(clusters.PowerNode)
			if !ok {
				return nil, fmt.Errorf("node %q cannot lose its power: its provider has none over it", env.Node.Name())
			}
			p := &powerLoss{
				env: env, node: power, owner: undo.Owner{Run: env.RunID, Step: step},
			}
			return p, p.owner.Check()
		},
	}
}

// The bounds of what is to be shown.
const (
	bootBound  = 45 * time.Second // Until the node has its volumes again; the kubelet mounts those of a CSI driver.
	podsBound  = 2 * time.Minute  // Until its pods are back. Each starts a database that recovers.
	bootedPoll = 200 * time.Millisecond
)

type powerLoss struct {
	env   fault.Env
	node  clusters.PowerNode
	owner undo.Owner

	volumes   []evidence.Volume
	pods      []evidence.Pod
	processes probe.Processes // Of before.
	lost      []volfault.Report
	leases    evidence.Leases // When the new boot was seen.
}

// Undo has the node mount again what was shut down, should the power not be lost.
func (p *powerLoss) Undo(context.Context) ([]undo.Task, error) {
	return []undo.Task{{Node: p.node, Actions: []undo.Action{undo.MendVolumes(p.owner)}, UntilBoot: true}}, nil
}

// Inject notes what is there, shuts the file systems down, and restarts the node with no grace.
func (p *powerLoss) Inject(ctx context.Context) error {
	var err error
	if p.volumes, err = evidence.VolumesOn(ctx, p.env); err != nil {
		return err
	}
	if len(p.volumes) == 0 {
		return fmt.Errorf("no volume of the workload is on node %q: nothing could be shown to be lost", p.node.Name())
	}
	if p.pods, err = evidence.PodsOn(ctx, p.env); err != nil {
		return err
	}
	var uids []string
	for _, pod := range p.pods {
		if pod.Namespace == p.env.Namespace {
			uids = append(uids, pod.UID)
		}
	}
	if p.processes, err = processesOf(ctx, p.node, uids); err != nil {
		return err
	}
	if p.lost, err = inflict(ctx, p.node, p.owner, volfault.Power, p.pvs()...); err != nil {
		return err
	}
	return p.node.Reboot(ctx, 0)
}

func (p *powerLoss) pvs() []string {
	pvs := make([]string, len(p.volumes))
	for i, v := range p.volumes {
		pvs[i] = v.PV
	}
	return pvs
}

// Confirm shows that the volumes failed, the later boot, and what is lost on each volume.
func (p *powerLoss) Confirm(ctx context.Context) ([]fault.Fact, error) {
	facts, err := p.failed()
	if err != nil {
		return nil, err
	}
	booted, err := p.booted(ctx)
	if err != nil {
		return facts, err
	}
	facts = append(facts, booted...)
	if p.leases, err = evidence.ReadLeases(ctx, p.env); err != nil {
		return facts, err
	}
	lost, err := p.shown(ctx)
	return append(facts, lost...), err
}

// failed is what was seen of the volumes when their file systems had been shut down.
func (p *powerLoss) failed() ([]fault.Fact, error) {
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

// booted waits for the later boot and the end of the old processes.
func (p *powerLoss) booted(ctx context.Context) ([]fault.Fact, error) {
	var facts []fault.Fact
	begin := p.env.Clock()
	err := await.Until(ctx, "a later boot", bootedPoll, bootBound, func(ctx context.Context) (bool, string, error) {
		now, err := processesOf(ctx, p.node, nil, p.processes.Processes...)
		if err != nil {
			return false, "", err
		}
		if now.PID1Start <= p.processes.PID1Start {
			return false, fmt.Sprintf("the first process was started at %s, as before", now.PID1Start), nil
		}
		for _, old := range p.processes.Processes {
			for _, q := range now.Processes {
				if q.PID == old.PID && q.Start == old.Start {
					return false, fmt.Sprintf("%s, pid %d of the old boot, is still there", old.Name, old.PID), nil
				}
			}
		}
		facts = []fault.Fact{
			{Span: history.Between(now.PID1Start, now.At), Sentence: fmt.Sprintf(
				"the node was booted at %s, the boot before at %s", now.PID1Start, p.processes.PID1Start)},
			{Span: history.Between(begin, now.At), Sentence: fmt.Sprintf(
				"%d processes of the workload's pods are gone", len(p.processes.Processes))},
		}
		return true, "", nil
	})
	return facts, err
}

// shown waits until the volumes are mounted anew, and shows what is lost on each.
func (p *powerLoss) shown(ctx context.Context) ([]fault.Fact, error) {
	var facts []fault.Fact
	err := await.Until(ctx, "the volumes to be mounted anew", bootedPoll, bootBound,
		func(ctx context.Context) (bool, string, error) {
			begin := p.env.Clock()
			reports, err := look(ctx, p.node, p.owner, p.pvs()...)
			if err != nil {
				return false, "", err
			}
			facts = nil
			for _, r := range reports {
				if why := usable(r); why != "" {
					return false, why, nil
				}
				switch {
				case r.Synced != volfault.Whole:
					return false, "", await.Stop(fmt.Errorf("volume %q has lost what was synced: the file is %s", r.PV,
						r.Synced))
				case r.Unsynced == volfault.Whole:
					return false, "", await.Stop(fmt.Errorf("volume %q has lost nothing: the file that was not synced "+
						"is whole", r.PV))
				}
				facts = append(facts, fault.Fact{Span: history.Between(begin, p.env.Clock()), Sentence: fmt.Sprintf(
					"volume %s is mounted anew: the file that was synced is %s, the one that was not is %s", r.PV,
					r.Synced, r.Unsynced)})
			}
			return true, "", nil
		})
	return facts, err
}

// Heal starts the node if it is down, and mounts anew what was shut down and not lost.
func (p *powerLoss) Heal(ctx context.Context) error {
	state, err := p.node.State(ctx)
	if err != nil {
		return fmt.Errorf("get state: %w", err)
	}
	switch state {
	case "exited":
		err = p.node.Start(ctx)
	case "paused":
		err = p.node.Unpause(ctx)
	}
	if err != nil {
		return err
	}
	return undo.CarryOut(ctx, undo.On(p.node), p.owner)
}

// ConfirmHealed shows that the node, its pods and the volumes are back.
func (p *powerLoss) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	var facts []fault.Fact
	for _, see := range []func() (fault.Fact, error){
		func() (fault.Fact, error) { return evidence.UnitActive(ctx, p.env, "kubelet", bootBound) },
		func() (fault.Fact, error) { return evidence.LeaseRenewed(ctx, p.env, p.leases, time.Minute) },
		func() (fault.Fact, error) { return evidence.NodeReady(ctx, p.env, time.Minute) },
		func() (fault.Fact, error) { return evidence.PodsBack(ctx, p.env, p.pods, podsBound) },
		func() (fault.Fact, error) { return p.back(ctx) },
	} {
		fact, err := see()
		if err != nil {
			return facts, err
		}
		facts = append(facts, fact)
	}
	return facts, nil
}

// back waits until every volume that the workload has on the node can be read and written. What was written there to
// tell what is lost is removed.
func (p *powerLoss) back(ctx context.Context) (fault.Fact, error) {
	var fact fault.Fact
	err := await.Until(ctx, "the volumes to be readable and writable", bootedPoll, bootBound,
		func(ctx context.Context) (bool, string, error) {
			begin := p.env.Clock()
			volumes, err := evidence.VolumesOn(ctx, p.env)
			if err != nil {
				return false, "", err
			}
			if p.volumes = volumes; len(volumes) == 0 {
				fact = fault.Fact{Span: history.Between(begin, p.env.Clock()),
					Sentence: "no volume of the workload is on the node"}
				return true, "", nil
			}
			if _, err := injuryCommand(ctx, p.node, p.owner, "mend", p.pvs()...); err != nil {
				return false, "", err
			}
			reports, err := look(ctx, p.node, p.owner, p.pvs()...)
			if err != nil {
				return false, "", err
			}
			var ours error
			for _, r := range reports {
				if why := usable(r); why != "" {
					return false, why, nil
				}
				if r.Synced != volfault.Missing || r.Unsynced != volfault.Missing {
					ours = errors.Join(ours, fmt.Errorf("volume %q still has a file of ours", r.PV))
				}
			}
			fact = fault.Fact{Span: history.Between(begin, p.env.Clock()), Sentence: fmt.Sprintf(
				"%d volumes can be read and written: %s", len(reports), strings.Join(p.pvs(), ", "))}
			return ours == nil, "", ours
		})
	return fact, err
}

// processesOf asks the agent on the node for the processes of pods, and for those that were there before.
func processesOf(ctx context.Context, node clusters.Node, uids []string, before ...probe.Process) (
	probe.Processes, error,
) {
	argv := []string{undo.AgentPath, "probe", "process"}
	for _, p := range before {
		argv = append(argv, "--pid", strconv.Itoa(p.PID))
	}
	for _, uid := range uids {
		argv = append(argv, "--pod", uid)
	}
	var found probe.Processes
	out, err := clusters.Run(ctx, node, argv...)
	if err == nil {
		err = json.Unmarshal([]byte(out), &found)
	}
	if err != nil {
		return found, fmt.Errorf("look for processes: %w", err)
	}
	return found, nil
}
