package check

import (
	"path"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

// EtcdRollback judges what kubeadm says of etcd's data when it fails to upgrade a control plane, against what is on
// disk. kubeadm saves the data directory before, and copies it back if etcd does not come up. If the saved database
// lies in a directory below etcd's own and not in the place where etcd reads it, nothing was rolled back.
func EtcdRollback() Check {
	return Check{
		Name: "etcd-rollback",
		When: OnFault,
		Promise: "If kubeadm says that it rolled etcd's data back, etcd's directory holds the data that kubeadm had " +
			"saved.",
		Source:  "k/k#65580; kubeadm design documents, kubeadm upgrade, rollback of etcd",
		Unit:    "ends of kubeadm upgrade apply",
		Applies: func(p plan.Plan) bool { return len(hurtApplies(p)) > 0 },
		judge:   judgeEtcdRollback,
	}
}

// hurtApplies returns the numbers of the steps in which something is done during kubeadm upgrade apply.
func hurtApplies(p plan.Plan) (steps []int) {
	for _, s := range p.AllSteps() {
		if s.Upgrade != nil && s.Upgrade.At == string(history.UpgradeApply) {
			steps = append(steps, s.N)
		}
	}
	return steps
}

// rolledBack is what kubeadm v1.11 to v1.37 prints after it has copied etcd's data.
const rolledBack = "Etcd data rollback successful"

func judgeEtcdRollback(r *ruling) {
	for _, step := range hurtApplies(r.trial.Plan) {
		end, data := r.applied(step)
		switch {
		case end == nil:
			r.unknown("step %d: kubeadm upgrade apply was not seen to end", step)
		case end.Upgrade.Error == "":
			r.judged("node " + end.Upgrade.Node)
			r.note("step %d: kubeadm upgraded the control plane, and rolled nothing back", step)
		case data == nil:
			r.unknown("step %d: kubeadm upgrade apply failed, and etcd's data was not looked at", step)
		default:
			r.judgeRollback(data)
		}
	}
}

// applied returns the end of kubeadm upgrade apply of a step, and what was seen of etcd's data, nil if missing.
func (r *ruling) applied(step int) (end, data *history.Event) {
	for _, e := range r.world.Of(history.KindUpgrade) {
		if e.Upgrade.Step == step && e.Upgrade.Part == history.UpgradeApply && e.Upgrade.End {
			end = e
		}
	}
	for _, e := range r.world.Of(history.KindEtcdData) {
		if e.EtcdData.Step == step {
			data = e
		}
	}
	return end, data
}

func (r *ruling) judgeRollback(e *history.Event) {
	d, subject := e.EtcdData, "etcd of node "+e.EtcdData.Node
	said := strings.Contains(strings.Join(d.Said, "\n"), rolledBack)
	live := d.Databases[path.Join(history.EtcdDir, history.EtcdDatabase)]
	var backup, nested string
	for _, at := range keys(d.Databases) {
		if !strings.HasPrefix(at, history.EtcdBackups) {
			continue
		}
		backup = at
		for _, copied := range keys(d.Databases) {
			if strings.HasPrefix(copied, history.EtcdDir) && d.Databases[copied] == d.Databases[at] {
				nested = copied
			}
		}
	}
	switch {
	case !said:
		r.judged(subject)
		r.note("kubeadm did not say that it rolled the data back: %s", strings.Join(d.Said, "; "))
	case live == "" || backup == "":
		r.unknown("kubeadm says that it rolled back the data of %s, and the database or its backup was not found",
			subject)
	case nested == "":
		r.unknown("kubeadm says that it rolled back the data of %s, and the backup is nowhere in %s: etcd may have "+
			"written since", subject, history.EtcdDir)
	default:
		r.judged(subject)
		if d.Databases[backup] == live {
			return
		}
		state := "etcd is healthy"
		if !d.Healthy {
			state = "etcd is not healthy"
		}
		state += plan.Given(" and said last: %s", d.Log)
		r.violation(Finding{Subject: subject, Node: d.Node, Events: []int64{e.ID}, Span: e.Span}, "kubeadm says %q, "+
			"but the backup was copied to %s, and %s, which etcd reads, is not the one that was saved. %s.",
			rolledBack, nested, path.Join(history.EtcdDir, history.EtcdDatabase), state)
	}
}
