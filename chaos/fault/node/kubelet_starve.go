package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// KubeletStarve leaves the kubelet a thousandth of one processor, as on a node that is overloaded. It lives and does
// everything late; whether its heartbeats come in time is for the record to show.
func KubeletStarve() fault.Definition {
	return fault.Plain(fault.Definition{
		Name: "kubelet-starve",
		Summary: "Leaves the kubelet of the victim's node 1 ms of one processor in each second; its pods keep " +
			"running.",
		Shown: "systemd has the quota, the kernel held the kubelet back in nine of ten periods at least, and it is " +
			"the same process as before.",
		Healed: "The quota is gone; the kubelet is active and healthy, the node's lease renewed, the node Ready.",
		Needs:  []string{"systemd"},
		// Everything that it does is late: heartbeats, probes, mounts, the end of pods.
		Takes:    []plan.Part{plan.PartKubelet},
		Upstream: "k/k#45419",
	}, func(_ plan.Fault, env fault.Env) (fault.Fault, error) { return &kubeletStarve{Env: env}, nil })
}

const (
	// The least that Linux takes: a quota of 1 ms, in the longest period of 1 s (kernel documentation, sched-bwc).
	starved = "CPUQuota=0.1%"
	period  = "CPUQuotaPeriodSec=1s"
	// starvedBound is how long the kernel may take to count enough periods, which begin only when the kubelet runs.
	starvedBound = 30 * time.Second
	fewPeriods   = 5
)

type kubeletStarve struct {
	fault.Env
	old    probe.Process   // The kubelet.
	pods   probe.Processes // The workload's processes, before the act.
	before throttle
	leases fault.Leases // As of the act.
}

// throttle is what systemd and the kernel say of the kubelet's share of the processors.
type throttle struct {
	quota            string // Of a second, as systemd prints it: "infinity" for none.
	periods, heldOut int    // How many there were, and in how many it was held back.
}

func (k *kubeletStarve) throttle(ctx context.Context) (t throttle, err error) {
	said, err := clusters.Run(ctx, k.Node, "systemctl", "show", kubelet, "--property=CPUQuotaPerSecUSec,ControlGroup")
	if err != nil {
		return t, err
	}
	group := ""
	for line := range strings.Lines(said) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), "="); key {
		case "CPUQuotaPerSecUSec":
			t.quota = value
		case "ControlGroup":
			group = value
		}
	}
	var stat string
	var exit *clusters.ExitError
	for _, root := range []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup"} { // Of version 1, and 2.
		stat, err = clusters.Run(ctx, k.Node, "cat", root+group+"/cpu.stat")
		if !errors.As(err, &exit) {
			break
		}
	}
	if err != nil {
		return t, err
	}
	for line := range strings.Lines(stat) {
		for key, n := range map[string]*int{"nr_periods": &t.periods, "nr_throttled": &t.heldOut} {
			if rest, ok := strings.CutPrefix(line, key+" "); ok {
				if _, err := fmt.Sscan(rest, n); err != nil {
					return t, fmt.Errorf("read cpu.stat of the kubelet: %q: %w", line, err)
				}
			}
		}
	}
	return t, nil
}

// Undo records the kubelet's process and takes the quota away. It is an error if it has one already, which is not ours.
func (k *kubeletStarve) Undo(ctx context.Context) (_ []undo.Task, err error) {
	if _, k.old, err = mainProcess(ctx, k.Node, kubelet); err != nil {
		return nil, err
	}
	now, err := k.throttle(ctx)
	if err == nil && now.quota != "infinity" {
		err = fmt.Errorf("the kubelet has a quota of %s of each second already: take it away first", now.quota)
	}
	task := undo.Task{Node: k.Node, UntilBoot: true, Actions: []undo.Action{
		undo.Command("systemctl", "set-property", "--runtime", kubelet, "CPUQuota=", "CPUQuotaPeriodSec="),
		undo.Command("find", "/run/systemd/system.control", "-depth", // Where set-property keeps a reset.
			"(", "-path", "*/kubelet.service.d/50-CPUQuota*.conf", "-o", "-name", "kubelet.service.d", "-empty", ")",
			"-delete"),
		undo.Command("systemctl", "daemon-reload"),
	}}
	return []undo.Task{task}, err
}

func (k *kubeletStarve) Inject(ctx context.Context) (err error) {
	if k.pods, err = workload(ctx, k.Env); err != nil {
		return err
	}
	if k.before, err = k.throttle(ctx); err != nil {
		return err
	}
	_, err = clusters.Run(ctx, k.Node, "systemctl", "set-property", "--runtime", kubelet, starved, period)
	return err
}

// Confirm shows that the kubelet is held back, and that the pods keep running.
func (k *kubeletStarve) Confirm(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx, k.NoteLeases(&k.leases),
		fault.Await("the kubelet to be held back", time.Second, starvedBound, k.Held), podsSurvive(k.Env, &k.pods))
}

// Held checks once that it is the same kubelet, with the quota, and held back since the act.
func (k *kubeletStarve) Held(ctx context.Context) ([]fault.Fact, error) {
	begin := k.Clock()
	found, err := k.Again(ctx, k.old)
	if err != nil {
		return nil, err
	}
	if !found.Lives(k.old) {
		return nil, await.Stop(fmt.Errorf("kubelet pid %d is gone", k.old.PID))
	}
	now, err := k.throttle(ctx)
	if err != nil {
		return nil, err
	}
	periods, held := now.periods-k.before.periods, now.heldOut-k.before.heldOut
	if now.quota != "1ms" || periods < fewPeriods || held*10 < periods*9 {
		return nil, fault.NotYet("its quota is %s of each second, and it was held back in %d of %d periods", now.quota,
			held, periods)
	}
	return fault.Seen(history.Between(begin, k.Clock()), "kubelet pid %d may run for %s of each second, and was held "+
		"back in %d of %d periods", k.old.PID, now.quota, held, periods), nil
}

// ConfirmHealed shows that the quota is gone, the kubelet healthy and the node Ready.
func (k *kubeletStarve) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	free := fault.Judged(k.Env, k.throttle, func(now throttle) (string, error) {
		if now.quota != "infinity" {
			return "", fault.NotYet("its quota is %s of each second", now.quota)
		}
		return "the kubelet has no quota", nil
	})
	return fault.All(ctx, fault.Await("the kubelet's quota to be gone", 200*time.Millisecond, stopBound, free),
		kubeletHealthy(k.Env), kubeletActive(k.Env), k.NodeBack(&k.leases))
}
