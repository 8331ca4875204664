package check

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// ResidueAudit judges what a trial leaves behind. The harness searches each node and the API objects for what a fault
// can leave, before the first fault and after everything was healed and had settled. Anything found only afterwards is
// a leak, but for what others may have done meanwhile: a unit that failed, a label, a taint. Of what is gone
// afterwards, only a static pod manifest is a violation: it certainly belongs there. A manifest that kubeadm upgraded
// as the plan asked may differ.
//
// Package chaos/nodeagent/leaks defines what is searched for and what is ignored because it comes and goes by itself.
// A plan without audit asks for no searches, and the check does not apply to it.
func ResidueAudit() Check {
	return Check{
		Name:    "residue-audit",
		When:    Edge,
		Promise: "Every fault is gone without a trace when the trial is over.",
		Source: "Seatrial's design: heal works by owner mark and leaves nothing; reports of rules and frozen " +
			"processes that outlived their experiment",
		Unit:    "places looked over before and after",
		Applies: func(p plan.Plan) bool { return p.Audit },
		judge:   judgeResidueAudit,
	}
}

// searches holds the last search before and the last after at one place.
type searches struct {
	place, node   string // "node worker" and "worker"; "the API" and "".
	before, after *history.Event
}

func judgeResidueAudit(r *ruling) {
	places := readSearches(r.world)
	if len(places) == 0 {
		r.unknown("the trial was never searched for leaks")
	}
	for _, p := range places {
		if p.whole(r) {
			r.evidence++
			p.judge(r)
		}
	}
	if len(places) > 0 && places[0].node != "" {
		r.unknown("the objects of the API were never searched for leaks")
	}
	for _, name := range keys(r.world.Ledger().Sessions) {
		if name != "" && !slices.ContainsFunc(places, func(p *searches) bool { return p.node == name }) {
			r.unknown("node %s was never searched for leaks", name)
		}
	}
}

// readSearches returns the searches of each place: the API first, then the nodes sorted by name.
func readSearches(w *world.World) []*searches {
	byNode := map[string]*searches{}
	for _, e := range w.Of(history.KindResidue) {
		node := e.Residue.Node
		if byNode[node] == nil {
			byNode[node] = &searches{place: "node " + node, node: node}
		}
		switch e.Residue.When {
		case history.Before:
			byNode[node].before = e
		case history.After:
			byNode[node].after = e
		}
	}
	if api := byNode[""]; api != nil {
		api.place = "the API"
	}
	var all []*searches
	for _, node := range keys(byNode) {
		all = append(all, byNode[node])
	}
	return all
}

// whole reports whether there are two searches to compare, and adds a reason for everything that they lack.
func (p *searches) whole(r *ruling) bool {
	whole := true
	for _, l := range []struct {
		when  string
		event *history.Event
	}{{"before the first fault", p.before}, {"after the trial", p.after}} {
		switch {
		case l.event == nil:
			r.unknown("%s was not searched for leaks %s", p.place, l.when)
			whole = false
		case l.event.Residue.Error != "":
			r.unknown("%s could not be searched for leaks %s: %s", p.place, l.when, l.event.Residue.Error)
			whole = false
		default:
			for _, b := range l.event.Residue.Blind {
				r.unknown("on %s no %s could be looked for %s: %s", p.place, b.Class, l.when, b.Why)
			}
		}
	}
	if whole && p.after.Span.NotBefore < p.before.Span.NotAfter {
		r.unknown("%s was searched for leaks in the wrong order", p.place)
		whole = false
	}
	return whole
}

// judge reports everything that is left at one place, and every manifest that is missing. It skips classes that could
// not be searched before: what is there now may have been there.
func (p *searches) judge(r *ruling) {
	before, after := p.before.Residue, p.after.Residue
	where, until := "on "+p.place, r.trial.FaultsUntil(p.after.Span.NotAfter)
	if p.node == "" {
		where = "in the API"
	}
	blame := func(t history.Thing, faults []string, format string, args ...any) {
		r.violation(Finding{Subject: t.String(), Node: p.node, Span: p.after.Span, Faults: faults,
			Events: []int64{p.before.ID, p.after.ID}}, format, args...)
	}
	blind := func(look *history.Residue, class string) bool {
		return slices.ContainsFunc(look.Blind, func(b history.Blind) bool { return b.Class == class })
	}
	for _, t := range history.Left(before.Things, after.Things) {
		if blind(before, t.Class) || slices.ContainsFunc(before.Things, func(b history.Thing) bool {
			return r.rewritten(p.node, b, t)
		}) {
			continue
		}
		if stood := r.halfUpgraded(p.node, t, after.Run); stood != nil {
			r.unknown("the %s is there after the trial, %s, and the upgrade of node %s did not end", t, where,
				stood.Upgrade.Node)
			continue
		}
		if why := byOthers(t); why != "" {
			r.unknown("the %s is there after the trial, %s, and was not there before: %s", t, where, why)
			continue
		}
		owner, faults := r.trial.OwnerOf(t, after.Run)
		if faults == nil {
			faults = until
		}
		blame(t, faults, "The %s is there after the trial, %s, and was not there before; %s.", t, where, owner)
	}
	for _, t := range before.Things {
		if t.Class != history.ThingFile || !strings.HasPrefix(t.Name, manifests) || blind(after, history.ThingFile) ||
			slices.ContainsFunc(after.Things, func(o history.Thing) bool {
				return o.Class == t.Class &&
					o.Name == t.Name
			}) {
			continue
		}
		blame(t, until, "The %s was there before the trial, %s, and is not there after it.", t, where)
	}
}

// byOthers returns why a thing may be there although no fault left it, if it bears no mark and is nothing that faults
// or Kubernetes bring about: a unit of others that failed, a Node's label, a taint such as an autoscaler's.
func byOthers(t history.Thing) string {
	if t.Run != "" {
		return ""
	}
	switch t.Class {
	case history.ThingUnit:
		if t.Is == "failed" && !slices.Contains(nodeUnits(), t.Name) && !strings.HasPrefix(t.Name, "seatrial-") {
			return "it may have failed by itself"
		}
	case history.ThingLabel:
		if !strings.HasPrefix(t.Name, "seatrial/") {
			return "no fault sets it"
		}
	case history.ThingTaint:
		domain, _, _ := strings.Cut(t.Is, "/")
		if domain != "seatrial" && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io") {
			return "no fault and no controller of Kubernetes sets it"
		}
	}
	return ""
}

// halfUpgraded returns where the upgrade of a node stood that did not end, if it explains a thing: its own mark, which
// is that of its drain; without a mark, a node that is not Ready, the taints that say so, and its kubelet that does not
// come up.
func (r *ruling) halfUpgraded(node string, t history.Thing, run string) *history.Event {
	switch {
	case t.Run != "":
		own := slices.IndexFunc(r.world.Of(history.KindUpgrade), func(e *history.Event) bool {
			return t.Run == run && e.Upgrade.Step == t.Step
		})
		if own < 0 {
			return nil
		}
		node = r.world.Of(history.KindUpgrade)[own].Upgrade.Node
	case t.Class == history.ThingNode:
		node = t.Name
	case t.Class == history.ThingTaint:
		key, _, _ := strings.Cut(t.Is, ":")
		if key != corev1.TaintNodeUnreachable && key != corev1.TaintNodeNotReady {
			return nil
		}
		node = strings.TrimPrefix(t.Name, "of node ")
	case t.Class != history.ThingUnit || t.Name != "kubelet.service":
		return nil
	}
	return r.unfinished(node)
}

// nodeUnits returns the units that faults stop, kill and freeze: the kubelet, and container runtimes.
func nodeUnits() []string {
	return []string{"containerd.service", "cri-docker.service", "crio.service", "docker.service", "kubelet.service"}
}

// manifests is the kubelet's directory of static pod manifests on a control-plane node.
const manifests = "/etc/kubernetes/manifests/"

// rewritten reports whether before and after are the same manifest file, of a component that kubeadm upgraded on a node
// as the plan asked.
func (r *ruling) rewritten(node string, before, after history.Thing) bool {
	component, ok := strings.CutPrefix(after.Name, manifests)
	if before.Class != history.ThingFile || after.Class != history.ThingFile || before.Name != after.Name || !ok ||
		!slices.Contains([]string{"etcd.yaml", "kube-apiserver.yaml", "kube-controller-manager.yaml",
			"kube-scheduler.yaml"}, component) {
		return false
	}
	return slices.ContainsFunc(r.world.Of(history.KindUpgrade), func(e *history.Event) bool {
		return e.Upgrade.Node == node && e.Upgrade.Part == history.UpgradeApply &&
			slices.ContainsFunc(r.trial.Plan.AllSteps(), func(s plan.Step) bool {
				return s.N == e.Upgrade.Step && s.Upgrade != nil && s.Upgrade.Node == plan.UpgradeControlPlane
			})
	})
}
