package check

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// UpgradeOrder judges the version of every kubelet, from its Node object, against every version that the API server
// reported. Of several API servers, the one that answered counts; patch versions do not matter.
func UpgradeOrder() Check {
	return Check{
		Name: "upgrade-order",
		When: Continuous,
		Promise: "Whenever the API server tells its version, no kubelet is newer, and none more than three minor " +
			"versions older; every kubelet was upgraded after the API server, and to another minor version only when " +
			"no pod of the StatefulSet was on its node.",
		Source: "Kubernetes documentation, Version Skew Policy, kubelet and kube-apiserver; kubelet (drain pods " +
			"before a minor version upgrade)",
		Unit:    "kubelets held against an answer of the API server",
		Applies: upgradesNodes,
		judge:   judgeUpgradeOrder,
	}
}

// upgradesNodes reports whether a plan upgrades nodes.
func upgradesNodes(p plan.Plan) bool { return len(p.Upgrades()) > 0 }

// maxSkew is how many minor versions older than the API server a kubelet may be.
const maxSkew = 3

// kubeletAt is the version that a node's kubelet certainly had between from and to.
type kubeletAt struct {
	version  *version.Version
	event    *history.Event // The first that shows it.
	from, to history.Time
}

// kubelets returns the successive versions of each node's kubelet, by node.
func (r *ruling) kubelets() map[string][]*kubeletAt {
	r.watched("the versions of kubelets are not known", world.NodesObserver)
	byNode := map[string][]*kubeletAt{}
	for _, node := range r.world.Nodes() {
		var last *kubeletAt
		for _, o := range r.world.Objects().Nodes.ByKey[node] {
			text := o.Status.NodeInfo.KubeletVersion
			v, err := version.ParseSemantic(text)
			switch {
			case o.Deleted():
				if last != nil {
					last.to, last = o.Event.Span.NotBefore, nil
				}
				continue
			case text == "" || err == nil && last != nil && last.version.EqualTo(v):
				continue
			case err != nil:
				r.unknown("the kubelet of node %s says that it is version %q, which is none", node, text)
				continue
			case last != nil:
				last.to = o.Event.Span.NotBefore
			}
			last = &kubeletAt{v, o.Event, o.Event.Span.NotAfter, world.Forever}
			byNode[node] = append(byNode[node], last)
		}
		if len(byNode[node]) == 0 {
			r.unknown("which version the kubelet of node %s is, was never seen", node)
		}
	}
	return byNode
}

// answered is one version that the API server reported.
type answered struct {
	version *version.Version
	event   *history.Event
}

// servers returns the versions that the API server reported, in recorded order.
func (r *ruling) servers() []answered {
	var all []answered
	for _, e := range r.world.Of(history.KindVersion) {
		if e.Version.Component != history.ComponentAPIServer {
			continue
		}
		v, err := version.ParseSemantic(e.Version.Version)
		if err != nil {
			r.unknown("the API server says that it is version %q, which is none", e.Version.Version)
			continue
		}
		all = append(all, answered{v, e})
	}
	if len(all) == 0 {
		r.unknown("the API server never told its version")
	}
	return all
}

func judgeUpgradeOrder(r *ruling) {
	servers, byNode := r.servers(), r.kubelets()
	r.watched("whether nodes were drained is not known", world.PodsObserver)
	for _, node := range keys(byNode) {
		for i, k := range byNode[node] {
			first := false // An earlier answer shows that the API server was upgraded first.
			for _, s := range servers {
				at := s.event.Span
				if at.NotAfter <= k.event.Span.NotBefore {
					first = first || compareMinor(s.version, k.version) >= 0
				}
				if at.NotBefore >= k.from && at.NotAfter <= k.to {
					r.judgeSkew(node, k, s)
				}
			}
			if i > 0 && compareMinor(k.version, byNode[node][i-1].version) != 0 {
				r.judgeDrained(node, k)
			}
			if i > 0 && compareMinor(k.version, byNode[node][i-1].version) > 0 && !first {
				r.unknown("no answer shows that the API server was at v%d.%d before the kubelet of node %s was, at %s",
					k.version.Major(), k.version.Minor(), node, r.clock(k.event.Span.NotAfter))
			}
		}
	}
}

// judgeSkew holds a kubelet against an answer. While its Node was not observed it may have had another version.
func (r *ruling) judgeSkew(node string, k *kubeletAt, s answered) {
	what, at := "", s.event.Span
	switch skew := compareMinor(s.version, k.version); {
	case skew < 0:
		what = "which is newer than the API server, v" + s.version.String()
	case skew > maxSkew:
		what = fmt.Sprintf("%d minor versions older than the API server, v%s", skew, s.version)
	}
	switch blind := r.world.Watch().Blind(at.NotBefore, at.NotAfter, world.NodesObserver); {
	case !blind:
		r.judged("node " + node)
		if what != "" && r.first(node, what) {
			r.violation(Finding{Subject: "node " + node, Node: node, Events: []int64{k.event.ID, s.event.ID},
				Span: hull(history.At(k.event.Span.NotAfter), at)}, "At %s the kubelet of node %s was v%s, %s.",
				r.clock(at.NotAfter), node, k.version, what)
		}
	case what != "" && r.first(node, what, "blind"):
		r.unknown("the observer %s was blind at %s: whether the kubelet of node %s was still v%s, %s, is not known",
			world.NodesObserver, r.clock(at.NotAfter), node, k.version, what)
	}
}

// judgeDrained finds the pods of the StatefulSet that were on a node when its kubelet was replaced, or came there
// before the new one had told its version, and were still there then.
func (r *ruling) judgeDrained(node string, k *kubeletAt) {
	var begin *history.Event
	for _, e := range r.world.Of(history.KindUpgrade) {
		u := e.Upgrade
		if u.Node == node && u.Part == history.UpgradeKubelet && !u.End && e.Span.NotAfter <= k.event.Span.NotAfter {
			begin = e
		}
	}
	if begin == nil {
		r.unknown("when the kubelet of node %s was replaced by v%s was not recorded: whether the node was drained is "+
			"not known", node, k.version)
		return
	}
	from, to := begin.Span.NotBefore, k.event.Span.NotAfter
	blind := r.world.Watch().Blind(from, to, world.PodsObserver)
	set := r.world.Sets().Named(r.trial.Plan.Workload.StatefulSet)
	for _, life := range r.world.Pods().All {
		if life.Set != set || life.Node != node {
			continue
		}
		var there *world.PodState // Its last state before, or, of a pod that came meanwhile, the first in which it ran.
		for _, p := range life.States {
			came := (there == nil || !there.Status.Running) && p.Status.Running &&
				p.Event.Span.NotAfter < k.event.Span.NotBefore
			if !p.Guessed() && (came || p.Event.Span.NotAfter < from) {
				there = p
			}
		}
		gone := life.End != nil && life.End.Event.Span.NotBefore <= to
		switch {
		case there == nil || !there.Status.Running || there.Deleted() || gone && !blind:
		case gone || life.End == nil && blind:
			r.unknown("whether %s was on node %s when its kubelet was replaced is not known: the observer %s was blind",
				life.Name, node, world.PodsObserver)
		default:
			r.violation(Finding{Subject: "node " + node, Node: node,
				Events: []int64{there.Event.ID, begin.ID, k.event.ID},
				Span:   history.Span{NotBefore: from, NotAfter: to}},
				"The kubelet of node %s was replaced by v%s between %s and %s while %s ran there: the node was not "+
					"drained.", node, k.version, r.clock(from), r.clock(to), life.Name)
		}
	}
}

// compareMinor returns how many minor versions a is newer than b, a multiple of 1000 if their major versions differ.
func compareMinor(a, b *version.Version) int {
	if major := cmp.Compare(a.Major(), b.Major()); major != 0 {
		return major * 1000
	}
	return int(a.Minor()) - int(b.Minor())
}
