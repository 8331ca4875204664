package check_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// auditedTrial is the passing trial with searches that found no residue; change alters each search.
func auditedTrial(change func(r *history.Residue)) func([]history.Event) []history.Event {
	searched := add(func(t *historytest.Trial) {
		common := []history.Thing{{Class: history.ThingTable, Name: "inet podnet"},
			{Class: history.ThingMount, Name: "/var/lib/seatrial/data-mysql-0", Is: "ext4"}}
		for _, look := range []struct {
			when history.When
			at   float64
		}{{history.Before, 9.8}, {history.After, 73.5}} {
			for _, node := range []string{"", "control-plane", "worker", "worker2"} {
				r := &history.Residue{When: look.when, Run: "r1", Node: node, Things: slices.Clone(common)}
				change(r)
				t.Add(history.Event{Kind: history.KindResidue, Source: "trial",
					Span: history.Between(historytest.At(look.at), historytest.At(look.at+0.2)), Residue: r})
			}
		}
	})
	return then(searched, edit(kind(history.KindPlan), func(e *history.Event) {
		p := historytest.SmokePlan()
		p.Audit = true
		e.Plan, _ = json.Marshal(p)
	}))
}

// leftOn adds a thing to the last search of a place.
func leftOn(node string, t history.Thing) func(*history.Residue) {
	return func(r *history.Residue) {
		if r.When == history.After && r.Node == node {
			r.Things = append(r.Things, t)
		}
	}
}

func looked(when history.When, node string) match {
	return func(e *history.Event) bool {
		return e.Kind == history.KindResidue && e.Residue.When == when && e.Residue.Node == node
	}
}

func auditMutations() []mutation {
	pass, fail, unknown := check.Pass, check.Fail, check.Unknown
	same := func(*history.Residue) {}
	table := history.Thing{Class: history.ThingTable, Name: "inet seatrial_r1_6", Run: "r1", Step: 6}
	taint := history.Thing{Class: history.ThingTaint, Name: "of node worker",
		Is: "node.kubernetes.io/out-of-service=x:NoExecute"}
	foreign, nobodys := table, table
	foreign.Run = "r0"
	nobodys.Step = 99
	return []mutation{
		{"nothing is left", "residue-audit", auditedTrial(same), pass, ""},
		{"a table of a fault", "residue-audit", auditedTrial(leftOn("worker2", table)), fail,
			"The nftables table inet seatrial_r1_6 is there after the trial, on node worker2, and was not there " +
				"before; it bears the mark of step 6 node-reboot of this trial."},
		{"a table of another run", "residue-audit", auditedTrial(leftOn("worker2", foreign)), fail,
			"it bears the mark of step 6 of run r0, which is another."},
		{"a table of a step that there is not", "residue-audit", auditedTrial(leftOn("worker2", nobodys)), fail,
			"step 99 of this trial, which the plan does not have"},
		{"a taint", "residue-audit", auditedTrial(leftOn("", taint)), fail,
			"The taint of node worker (node.kubernetes.io/out-of-service=x:NoExecute) is there after the trial, in " +
				"the API, and was not there before; it bears no owner's mark."},
		{"a taint of an autoscaler", "residue-audit", auditedTrial(leftOn("", history.Thing{
			Class: history.ThingTaint, Name: "of node worker",
			Is: "DeletionCandidateOfClusterAutoscaler=1700000000:PreferNoSchedule"})), unknown,
			"and was not there before: no fault and no controller of Kubernetes sets it"},
		{"a label of others", "residue-audit", auditedTrial(leftOn("", history.Thing{
			Class: history.ThingLabel, Name: "feature.node.kubernetes.io/cpu of node worker", Is: "true"})), unknown,
			"and was not there before: no fault sets it"},
		{"a unit of nobody's that failed", "residue-audit", auditedTrial(leftOn("worker", history.Thing{
			Class: history.ThingUnit, Name: "getty@tty1.service", Is: "failed"})), unknown,
			"on node worker, and was not there before: it may have failed by itself"},
		{"a container runtime that failed", "residue-audit", auditedTrial(leftOn("worker", history.Thing{
			Class: history.ThingUnit, Name: "containerd.service", Is: "failed"})), fail, "containerd.service (failed)"},
		{"a unit of ours without a mark that failed", "residue-audit", auditedTrial(leftOn("worker", history.Thing{
			Class: history.ThingUnit, Name: "seatrial-ledger.service", Is: "failed"})), fail,
			"seatrial-ledger.service (failed)"},
		{"a unit of ours that failed", "residue-audit", auditedTrial(leftOn("worker", history.Thing{
			Class: history.ThingUnit, Name: "seatrial-heal-r1-3.service", Is: "failed", Run: "r1", Step: 3})), fail,
			"seatrial-heal-r1-3.service (failed)"},
		{"a mount once more", "residue-audit", auditedTrial(leftOn("worker", history.Thing{
			Class: history.ThingMount, Name: "/var/lib/seatrial/data-mysql-0", Is: "ext4"})), fail,
			"(ext4) is there after the trial, on node worker,"},
		{"what was there before", "residue-audit", auditedTrial(func(r *history.Residue) {
			r.Things = append(r.Things, table)
		}), pass, ""},
		{"what is gone since", "residue-audit", auditedTrial(func(r *history.Residue) {
			if r.When == history.After {
				r.Things = nil
			}
		}), pass, ""},
		{"the last look counts", "residue-audit", then(auditedTrial(leftOn("worker", table)),
			func(events []history.Event) []history.Event {
				e := events[len(events)-1]
				e.ID++
				e.Kind, e.Phase = history.KindResidue, nil
				e.Residue = &history.Residue{When: history.After, Run: "r1", Node: "worker"}
				return append(events, e)
			}), pass, ""},
		{"nobody looked", "residue-audit", then(auditedTrial(same), drop(kind(history.KindResidue))), unknown,
			"the trial was never searched for leaks"},
		{"nobody looked before", "residue-audit", then(auditedTrial(same), drop(looked(history.Before, "worker"))),
			unknown, "node worker was not searched for leaks before the first fault"},
		{"nobody looked after", "residue-audit", then(auditedTrial(same), drop(looked(history.After, ""))), unknown,
			"the API was not searched for leaks after the trial"},
		{"a node was left out", "residue-audit", then(auditedTrial(same), drop(looked(history.Before, "worker")),
			drop(looked(history.After, "worker"))), unknown, "node worker was never searched for leaks"},
		{"the API was left out", "residue-audit", then(auditedTrial(same), drop(looked(history.Before, "")),
			drop(looked(history.After, ""))), unknown, "objects of the API were never searched for leaks"},
		{"a look that failed", "residue-audit", then(auditedTrial(same), edit(looked(history.After, "worker"),
			func(e *history.Event) { e.Residue.Error = "no answer" })), unknown,
			"node worker could not be searched for leaks after the trial: no answer"},
		{"a class that could not be looked at", "residue-audit", then(auditedTrial(same),
			edit(looked(history.After, "worker"), func(e *history.Event) {
				e.Residue.Blind = []history.Blind{{Class: history.ThingQdisc, Why: "no tc"}}
			})), unknown, "on node worker no qdisc could be looked for after the trial: no tc"},
		{"blind before is no proof", "residue-audit", then(auditedTrial(leftOn("worker", table)),
			edit(looked(history.Before, "worker"), func(e *history.Event) {
				e.Residue.Blind = []history.Blind{{Class: history.ThingTable, Why: "no nft"}}
			})), unknown, "no nft"},
		{"the wrong order", "residue-audit", then(auditedTrial(same), edit(looked(history.Before, "worker"),
			func(e *history.Event) { e.Span = history.At(historytest.At(79)) })), unknown, "in the wrong order"},
	}
}

// manifestMutations change a manifest of the control plane.
func manifestMutations() []mutation {
	manifest := history.Thing{Class: history.ThingFile, Name: "/etc/kubernetes/manifests/etcd.yaml", Is: "sha256 1"}
	return []mutation{
		{"a manifest that is gone", "residue-audit", auditedTrial(func(r *history.Residue) {
			if r.When == history.Before && r.Node == "control-plane" {
				r.Things = append(r.Things, manifest)
			}
		}), check.Fail, "The file /etc/kubernetes/manifests/etcd.yaml (sha256 1) was there before the trial, on node " +
			"control-plane, and is not there after it."},
		{"a manifest that is another", "residue-audit", auditedTrial(func(r *history.Residue) {
			if r.Node == "control-plane" {
				m := manifest
				if r.When == history.After {
					m.Is = "sha256 2"
				}
				r.Things = append(r.Things, m)
			}
		}), check.Fail, "(sha256 2) is there after the trial"},
	}
}

// rewrittenTrial is a trial with an upgrade of the control plane, after which a file on a node differs.
func rewrittenTrial(node, name string, upgraded ...history.Upgrade) func([]history.Event) []history.Event {
	looked := auditedTrial(func(r *history.Residue) {
		if r.Node == node {
			r.Things = append(r.Things, history.Thing{Class: history.ThingFile, Name: name,
				Is: "sha256 " + string(r.When)})
		}
	})
	return then(looked, func(events []history.Event) []history.Event {
		for _, u := range upgraded {
			events = append(events, history.Event{Kind: history.KindUpgrade, Source: "trial",
				Span: history.At(historytest.At(30)), Upgrade: &u})
		}
		return events
	}, edit(kind(history.KindPlan), func(e *history.Event) {
		p := historytest.UpgradePlan()
		p.Audit = true
		e.Plan, _ = json.Marshal(p)
	}))
}

// rewrittenMutations have files that differ after an upgrade.
func rewrittenMutations() []mutation {
	const etcd, server = "/etc/kubernetes/manifests/etcd.yaml", "/etc/kubernetes/manifests/kube-apiserver.yaml"
	apply := history.Upgrade{Step: 1, Node: "control-plane", Part: history.UpgradeApply, To: historytest.To}
	before, worker, another := apply, apply, apply
	before.Part = history.UpgradePlan
	worker.Step, worker.Node = 2, "worker"
	another.Step = 9
	stood, done := worker, worker
	stood.Part, done.Part, done.End = history.UpgradeKubelet, history.UpgradeSettled, true
	notReady := then(edit(looked(history.After, "worker"), func(e *history.Event) {
		e.Residue.Things = append(e.Residue.Things, history.Thing{Class: history.ThingUnit, Name: "kubelet.service",
			Is: "loaded activating"})
	}), edit(looked(history.After, ""), func(e *history.Event) {
		e.Residue.Things = append(e.Residue.Things, history.Thing{Class: history.ThingNode, Name: "worker",
			Is: "not Ready"}, history.Thing{Class: history.ThingTaint, Name: "of node worker",
			Is: "node.kubernetes.io/unreachable:NoExecute"})
	}))
	cordoned := edit(looked(history.After, ""), func(e *history.Event) {
		e.Residue.Things = append(e.Residue.Things, history.Thing{Class: history.ThingCordon, Name: "of node worker",
			Run: "r1", Step: 2})
	})
	return []mutation{
		{"a node whose upgrade did not end", "residue-audit", then(rewrittenTrial("control-plane", etcd, apply, stood),
			notReady), check.Unknown, "the node worker (not Ready) is there after the trial, in the API, and " +
			"the upgrade of node worker did not end"},
		{"another taint of such a node", "residue-audit", then(rewrittenTrial("control-plane", etcd, apply, stood),
			notReady, edit(looked(history.After, ""), func(e *history.Event) {
				e.Residue.Things = append(e.Residue.Things, history.Thing{Class: history.ThingTaint,
					Name: "of node worker", Is: "node.kubernetes.io/out-of-service:NoExecute"})
			})), check.Fail, "The taint of node worker (node.kubernetes.io/out-of-service:NoExecute) is there"},
		{"a fault's mark on such a node", "residue-audit", then(rewrittenTrial("control-plane", etcd, apply, stood),
			edit(looked(history.After, ""), func(e *history.Event) {
				e.Residue.Things = append(e.Residue.Things, history.Thing{Class: history.ThingTaint,
					Name: "of node worker", Is: "node.kubernetes.io/unreachable:NoExecute", Run: "r1", Step: 7})
			})), check.Fail, "it bears the mark of step 7"},
		{"the mark of an upgrade that did not end", "residue-audit", then(
			rewrittenTrial("control-plane", etcd, apply, stood), cordoned), check.Unknown,
			"the cordon of node worker is there after the trial, in the API, and the upgrade of node worker did not " +
				"end"},
		{"the mark of an upgrade that ended", "residue-audit", then(rewrittenTrial("control-plane", etcd, apply, done),
			cordoned), check.Fail, "it bears the mark of step 2 of this trial, an upgrade"},
		{"a node that was upgraded", "residue-audit", then(rewrittenTrial("control-plane", etcd, apply, done),
			notReady), check.Fail, "The node worker (not Ready) is there after the trial"},
		{"kubeadm writes etcd's manifest", "residue-audit", rewrittenTrial("control-plane", etcd, apply), check.Pass,
			""},
		{"kubeadm writes the API server's", "residue-audit", rewrittenTrial("control-plane", server, apply), check.Pass,
			""},
		{"before kubeadm did", "residue-audit", rewrittenTrial("control-plane", etcd, before), check.Fail,
			"etcd.yaml (sha256 after) is there after the trial, on node control-plane"},
		{"nothing was upgraded", "residue-audit", rewrittenTrial("control-plane", etcd), check.Fail, "(sha256 after)"},
		{"a manifest on another node", "residue-audit", rewrittenTrial("worker", etcd, apply), check.Fail,
			"etcd.yaml (sha256 after) is there after the trial, on node worker"},
		{"a manifest on a worker", "residue-audit", rewrittenTrial("worker", etcd, worker), check.Fail,
			"on node worker"},
		{"of a step that there is not", "residue-audit", rewrittenTrial("control-plane", etcd, another), check.Fail,
			"(sha256 after)"},
		{"a manifest that is not kubeadm's", "residue-audit", rewrittenTrial("control-plane",
			"/etc/kubernetes/manifests/mine.yaml", apply), check.Fail, "mine.yaml (sha256 after) is there after"},
		{"another file", "residue-audit", rewrittenTrial("control-plane",
			"/etc/systemd/system/kubelet.service.d/x.conf", apply), check.Fail, "x.conf (sha256 after) is there after"},
		{"a manifest that was not there", "residue-audit", then(rewrittenTrial("control-plane", etcd, apply),
			edit(looked(history.Before, "control-plane"), func(e *history.Event) {
				e.Residue.Things[len(e.Residue.Things)-1].Name = server
			})), check.Fail, "etcd.yaml (sha256 after) is there after the trial, on node control-plane, and was " +
			"not there before"},
	}
}

// TestResidueAuditGoesByThePlan holds that the check applies to a run only if its plan has the audit.
func TestResidueAuditGoesByThePlan(t *testing.T) {
	judged := func(h history.History) bool {
		for _, r := range check.Run(h, check.All()).Results {
			if r.Check == "residue-audit" {
				return true
			}
		}
		return false
	}
	if judged(historytest.Smoke().History()) {
		t.Error("it was asked for residue")
	}
	h := trialOf(edit(kind(history.KindPlan), func(e *history.Event) {
		var p plan.Plan
		if err := json.Unmarshal(e.Plan, &p); err != nil {
			t.Fatal(err)
		}
		p.Audit = true
		e.Plan, _ = json.Marshal(p)
	}))
	if !judged(h) {
		t.Error("it was not asked for residue")
	}
}
