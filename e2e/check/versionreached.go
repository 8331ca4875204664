package check

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// VersionReached judges the final versions: of every kubelet, from its Node's last state, and of the API server, from
// its last answer. For an upgrade that did not end it only reports where it stood.
func VersionReached() Check {
	return Check{
		Name: "version-reached",
		When: End,
		Promise: "At the end the API server and every kubelet have the version that the plan upgrades them to, or " +
			"the one that they began with if it does not, or takes them back.",
		Source:  "Kubernetes documentation, Upgrading kubeadm clusters, Verify the status of the cluster",
		Unit:    "components whose last version was seen",
		Applies: upgradesNodes,
		judge:   judgeVersionReached,
	}
}

func judgeVersionReached(r *ruling) {
	server, want := "", map[string]string{}
	var serverSince history.Time
	broken, serverBroken := map[string]bool{}, false // Upgrades that did not end.
	missing := false                                 // A step has no events: its node is not known.
	for _, s := range r.trial.Plan.AllSteps() {
		if s.Upgrade == nil {
			continue
		}
		last, control := r.lastPart(s.N), s.Upgrade.Node == plan.UpgradeControlPlane
		if last == nil {
			r.unknown("step %d, %s to %s, never began", s.N, r.trial.Plan.Upgraded(*s.Upgrade), s.Upgrade.To)
			serverBroken, missing = serverBroken || control, true
			continue
		}
		u := last.Upgrade
		if control {
			serverSince = last.Span.NotAfter
		}
		if !s.Upgrade.Back {
			want[u.Node] = s.Upgrade.To
			if control {
				server = s.Upgrade.To
			}
		}
		if !u.Done() {
			r.unknown("%s", r.stoodAt(last))
			broken[u.Node], serverBroken = true, serverBroken || control
		}
	}
	kubelets, until := r.kubelets(), r.trial.LookedUntil()
	for _, node := range keys(want) {
		if !slices.Contains(r.world.Nodes(), node) {
			r.unknown("the kubelet of node %s, which was upgraded, was never seen", node)
		}
	}
	for _, node := range keys(kubelets) {
		versions, latest := kubelets[node], r.world.Objects().Nodes.Latest(node)
		k := versions[len(versions)-1]
		switch {
		case broken[node] || missing && want[node] == "":
		case latest.Deleted():
			r.unknown("node %s was gone at the end: which version its kubelet is, is not known", node)
		case r.world.Watch().Blind(latest.Event.Span.NotAfter+1, until, world.NodesObserver):
			r.unknown("the observer %s was blind after it had last shown node %s: which version its kubelet is at the "+
				"end is not known", world.NodesObserver, node)
		default:
			r.reached("the kubelet of node "+node, "node "+node, node, k.version, k.event,
				cmp.Or(want[node], "v"+versions[0].version.String()))
		}
	}
	answers := r.servers()
	if len(answers) == 0 || serverBroken {
		return
	}
	last := answers[len(answers)-1]
	if last.event.Span.NotBefore < serverSince {
		r.unknown("the API server did not tell its version after its upgrade had ended")
		return
	}
	r.reached("the API server", "API server", "", last.version, last.event,
		cmp.Or(server, "v"+answers[0].version.String()))
}

func (r *ruling) reached(what, subject, node string, is *version.Version, e *history.Event, wanted string) {
	r.judged(subject)
	if "v"+is.String() != wanted {
		r.violation(Finding{Subject: subject, Node: node, Events: []int64{e.ID}, Span: history.Span{
			NotBefore: e.Span.NotBefore, NotAfter: max(e.Span.NotAfter, r.trial.LookedUntil())}},
			"At the end %s is v%s, not %s.", what, is, wanted)
	}
}

// lastPart returns the first event with an error of a step's upgrade, else its last event, nil if there is none. The
// first error names the part that failed: parts nest, and an inner part ends before the outer one.
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

// unfinished returns where the upgrade of a node stood that did not end, nil if there is none.
func (r *ruling) unfinished(node string) *history.Event {
	for _, s := range r.trial.Plan.AllSteps() {
		if last := r.lastPart(s.N); last != nil && last.Upgrade.Node == node && !last.Upgrade.Done() {
			return last
		}
	}
	return nil
}

// stoodAt says where an upgrade stood, and how to finish it.
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
	replaced := slices.ContainsFunc(r.trial.Plan.AllSteps(), func(s plan.Step) bool {
		return s.N == u.Step && s.Upgrade != nil && s.Upgrade.Replaced
	})
	if replaced && u.Part == history.UpgradeKubelet {
		return where + "; to go on: delete the Node if it is there, run kubeadm reset on the node, replace kubelet " +
			"and kubectl, and join it with kubeadm join"
	}
	return where + "; to go on: " + goOn(u)
}

// goOn says how to finish the upgrade of a node that stood at a part. An interrupted kubeadm command may be run again
// (Kubernetes documentation, Upgrading kubeadm clusters, Recovering from a failure state).
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
	case history.UpgradeEmulate, history.UpgradeBack:
		return "put the manifests of kube-apiserver, kube-controller-manager and kube-scheduler back that kubeadm " +
			"keeps in /etc/kubernetes/tmp, or run kubeadm upgrade apply " + u.To + " again and stay there"
	case history.UpgradeSettled:
		return "the node is upgraded, wait until the StatefulSet has settled"
	}
	return "replace kubeadm, run kubeadm upgrade " + again[u.Part] + " on the node, drain it, then " + kubelet
}
