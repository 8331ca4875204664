package check

import (
	"cmp"
	"fmt"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

// VersionReached judges the versions at the end: of every kubelet, as its Node last said it, and of the API server, by
// its last answer. Of an upgrade that did not come to its end it says where it stood, and claims nothing.
func VersionReached() Check {
	return Check{
		Name: "version-reached",
		Promise: "At the end the API server and every kubelet have the version that the plan upgrades them to, or " +
			"the one that they began with.",
		Source:  "Kubernetes documentation, Upgrading kubeadm clusters, Verify the status of the cluster",
		Unit:    "components whose last version was seen",
		Applies: planned(upgradesNodes),
		judge:   judgeVersionReached,
	}
}

func judgeVersionReached(r *ruling) {
	server, want := r.trial.Plan.Kubernetes, map[string]string{}
	rest := server // The version of nodes that are not upgraded, where that is known.
	var serverSince history.Time
	stood := map[string]bool{} // Nodes whose upgrade did not come to its end.
	for _, s := range r.trial.Plan.AllSteps() {
		if s.Upgrade == nil {
			continue
		}
		last := r.lastPart(s.N)
		if last == nil {
			r.unknown("step %d, %s to %s, never began", s.N, r.trial.Plan.Upgraded(*s.Upgrade), s.Upgrade.To)
			rest = "" // Any of the nodes that were not upgraded may be its.
			continue
		}
		node, control := last.Upgrade.Node, s.Upgrade.Node == plan.UpgradeControlPlane
		want[node] = s.Upgrade.To
		if control {
			server, serverSince = s.Upgrade.To, last.Span.NotAfter
		}
		if u := last.Upgrade; u.Part != history.UpgradeSettled || !u.End || u.Error != "" {
			stood[node] = true
			r.unknown("%s", r.stoodAt(last))
			if control {
				server = ""
			}
		}
	}
	kubelets := r.kubelets()
	for _, node := range keys(kubelets) {
		versions := kubelets[node]
		if len(versions) == 0 || stood[node] {
			continue
		}
		k, wanted := versions[len(versions)-1], cmp.Or(want[node], rest)
		if wanted == "" {
			continue
		}
		r.reached("the kubelet of node "+node, "node "+node, node, "v"+k.version.String(), wanted, k.event)
	}
	answers := r.servers()
	if len(answers) == 0 || server == "" {
		return
	}
	last := answers[len(answers)-1]
	if last.event.Span.NotBefore < serverSince {
		r.unknown("the API server did not tell its version after its upgrade had ended")
		return
	}
	r.reached("the API server", "API server", "", "v"+last.version.String(), server, last.event)
}

func (r *ruling) reached(what, subject, node, is, wanted string, e *history.Event) {
	r.evidence++
	r.looked(subject)
	if is == wanted {
		return
	}
	r.violation(Finding{
		Sentence: fmt.Sprintf("At the end %s is %s, not %s.", what, is, wanted), Subject: subject, Node: node,
		Span:   history.Span{NotBefore: e.Span.NotBefore, NotAfter: max(e.Span.NotAfter, r.trial.LookedUntil())},
		Events: []int64{e.ID},
	})
}

// lastPart returns the last fact of a step's upgrade, nil when there is none. What is within another part ends before
// it, so the part that did not go well is the one of the first error.
func (r *ruling) lastPart(step int) *history.Event {
	var last *history.Event
	for _, e := range r.world.Of(history.KindUpgrade) {
		if e.Upgrade.Step != step {
			continue
		}
		if last = e; e.Upgrade.Error != "" {
			return e
		}
	}
	return last
}

// stoodAt says where an upgrade stood, and how a person goes on with it.
func (r *ruling) stoodAt(e *history.Event) string {
	u := e.Upgrade
	where, at := fmt.Sprintf("the upgrade of node %s to %s stood at %q", u.Node, u.To, u.Part), r.clock(e.Span.NotAfter)
	switch {
	case u.Error != "":
		where += fmt.Sprintf(", which failed at %s: %s", at, u.Error)
	case u.End:
		where += ", which had ended at " + at
	default:
		where += fmt.Sprintf(", which had begun at %s and was not seen to end", at)
	}
	return where + "; to go on: " + goOn(u)
}

// goOn says what finishes the upgrade of a node that stood at a part. What kubeadm was at may be done again (Kubernetes
// documentation, Upgrading kubeadm clusters, Recovering from a failure state).
func goOn(u *history.Upgrade) string {
	const kubelet = "replace kubelet and kubectl, restart the kubelet, and uncordon the node once it is Ready"
	again := map[history.UpgradePart]string{history.UpgradeKubeadm: "apply " + u.To + " (node on a worker)",
		history.UpgradePlan: "apply " + u.To, history.UpgradeApply: "apply " + u.To, history.UpgradeNode: "node"}
	switch u.Part {
	case history.UpgradeStock:
		return "nothing of the node was changed, begin its upgrade anew"
	case history.UpgradeDrain:
		return "drain the node, then " + kubelet
	case history.UpgradeKubelet, history.UpgradeReady:
		return kubelet
	case history.UpgradeSettled:
		return "the node is upgraded, wait until the StatefulSet has settled"
	}
	return "replace kubeadm, run kubeadm upgrade " + again[u.Part] + " on the node, drain it, then " + kubelet
}
