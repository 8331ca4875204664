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

// stoodAt says where an upgrade stood.
func (r *ruling) stoodAt(e *history.Event) string {
	u := e.Upgrade
	where := fmt.Sprintf("the upgrade of node %s to %s stood at %q", u.Node, u.To, u.Part)
	switch {
	case u.Error != "":
		return fmt.Sprintf("%s, which failed at %s: %s", where, r.clock(e.Span.NotAfter), u.Error)
	case u.End:
		return fmt.Sprintf("%s, which had ended at %s", where, r.clock(e.Span.NotAfter))
	}
	return fmt.Sprintf("%s, which had begun at %s and was not seen to end", where, r.clock(e.Span.NotAfter))
}
