package check

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// UpgradeOrder judges the version of every kubelet, as its Node says it, against every answer of the API server to what
// version it is. Of several API servers it is the one that answered; patch versions do not count.
func UpgradeOrder() Check {
	return Check{
		Name: "upgrade-order",
		Promise: "Whenever the API server tells its version, no kubelet is newer, and none more than three minor " +
			"versions older; every kubelet was upgraded after the API server.",
		Source:  "Kubernetes documentation, Version Skew Policy, kubelet and kube-apiserver",
		Unit:    "kubelets held against an answer of the API server",
		Applies: planned(upgradesNodes),
		judge:   judgeUpgradeOrder,
	}
}

// upgradesNodes reports that a plan upgrades nodes.
func upgradesNodes(p plan.Plan) bool { return len(p.Upgrades()) > 0 }

// maxSkew is how many minor versions older than the API server a kubelet may be.
const maxSkew = 3

// kubeletAt is the version of a node's kubelet from one moment to another, certainly.
type kubeletAt struct {
	node     string
	version  *version.Version
	event    *history.Event // That first shows it.
	from, to history.Time
}

// kubelets returns the versions of all kubelets, node by node, in their order.
func (r *ruling) kubelets() map[string][]*kubeletAt {
	byNode := map[string][]*kubeletAt{}
	for _, node := range r.world.Nodes() {
		for _, o := range r.world.Objects().Nodes.ByKey[node] {
			text := o.Status.NodeInfo.KubeletVersion
			if text == "" || o.Deleted() {
				continue
			}
			v, err := version.ParseSemantic(text)
			if err != nil {
				r.unknown("the kubelet of node %s says that it is version %q, which is none", node, text)
				continue
			}
			all := byNode[node]
			if n := len(all); n > 0 {
				last := all[n-1]
				if last.version.EqualTo(v) {
					last.to = world.Forever
					continue
				}
				last.to = o.Event.Span.NotBefore
			}
			byNode[node] = append(all, &kubeletAt{node: node, version: v, event: o.Event, from: o.Event.Span.NotAfter,
				to: world.Forever})
		}
		if len(byNode[node]) == 0 {
			r.unknown("which version the kubelet of node %s is, was never seen", node)
		}
	}
	return byNode
}

// answered is what the API server answered when it was asked for its version.
type answered struct {
	version *version.Version
	event   *history.Event
}

// servers returns the answers of the API server, in the order of the record.
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
	if !r.world.Watch().On(world.NodesObserver) {
		r.unknown("the observer %s was never on: the versions of kubelets are not known", world.NodesObserver)
	}
	servers, byNode := r.servers(), r.kubelets()
	for _, node := range keys(byNode) {
		for i, k := range byNode[node] {
			first := false // An answer before shows that the API server had been upgraded.
			for _, s := range servers {
				if s.event.Span.NotAfter <= k.event.Span.NotBefore {
					first = first || compareMinor(s.version, k.version) >= 0
				}
				if s.event.Span.NotBefore >= k.from && s.event.Span.NotAfter <= k.to {
					r.evidence++
					r.looked("node " + node)
					r.judgeSkew(k, s)
				}
			}
			if i > 0 && compareMinor(k.version, byNode[node][i-1].version) > 0 && !first {
				r.unknown("no answer shows that the API server was at v%d.%d before the kubelet of node %s was, at %s",
					k.version.Major(), k.version.Minor(), node, r.clock(k.event.Span.NotAfter))
			}
		}
	}
}

func (r *ruling) judgeSkew(k *kubeletAt, s answered) {
	what := ""
	switch skew := compareMinor(s.version, k.version); {
	case skew < 0:
		what = "which is newer than the API server, v" + s.version.String()
	case skew > maxSkew:
		what = fmt.Sprintf("%d minor versions older than the API server, v%s", skew, s.version)
	}
	if what == "" || !r.first(k.node, what) {
		return
	}
	span := hull(history.At(k.event.Span.NotAfter), s.event.Span)
	r.violation(Finding{
		Sentence: fmt.Sprintf("At %s the kubelet of node %s was v%s, %s.", r.clock(s.event.Span.NotAfter), k.node,
			k.version, what),
		Subject: "node " + k.node, Node: k.node, Span: span, Events: []int64{k.event.ID, s.event.ID},
	})
}

// compareMinor returns how many minor versions a is after b.
func compareMinor(a, b *version.Version) int {
	if major := cmp.Compare(a.Major(), b.Major()); major != 0 {
		return major * 1000
	}
	return int(a.Minor()) - int(b.Minor())
}
