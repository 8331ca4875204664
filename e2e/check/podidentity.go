package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/e2e/world"
)

// PodIdentity judges the real database processes, whatever the API says about their pods: two processes of one pod name
// but different pod uids must never live at once. Several processes of one uid are fine: one initializes the data
// directory, one serves it.
//
// Only a certain overlap is a violation, see Mounts. A process whose disk was pulled out of its node lives until it
// ends, like any other: it can still answer clients from memory.
func PodIdentity() Check {
	return Check{
		Name:    "pod-identity",
		When:    Continuous,
		Promise: "There are never two live database processes of one ordinal.",
		Source: "Kubernetes documentation, Force Delete StatefulSet Pods: at most one pod with a given identity at " +
			"any time; kubernetes/kubernetes issue 61832",
		Unit:    "database processes",
		Applies: hasData,
		Lacks:   ofOwn(noProcess),
		judge:   judgePodIdentity,
	}
}

func judgePodIdentity(r *ruling) {
	pods, seen := r.world.Pods().ByUID, r.world.Containers()
	r.watched("which process is whose is not known", world.PodsObserver)
	byName, ran := map[string][]*world.Process{}, map[string]bool{}
	window := r.since()
	for _, p := range seen.Processes {
		if p.Name != world.Database {
			continue
		}
		window.NotBefore = min(window.NotBefore, p.From)
		pod := pods[p.Pod]
		switch {
		case p.Pod == "":
			r.unknown("%s is of no pod", p)
		case pod == nil && r.elsewhere(p.Pod):
			// Another database of the cluster: pods of other namespaces are not watched.
		case pod == nil:
			r.unknown("%s is of a pod with uid %s, which the API never showed", p, p.Pod)
		case strings.HasPrefix(pod.Name, r.trial.Plan.Workload.StatefulSet+"-"):
			r.judged(pod.Name)
			key := world.Key(pod.Namespace, pod.Name)
			byName[key] = append(byName[key], p)
			ran[p.Pod] = true
		}
	}
	for _, pod := range r.world.Sets().Named(r.trial.Plan.Workload.StatefulSet).Pods {
		if len(ran) > 0 && !ran[pod.UID] && slices.ContainsFunc(pod.States, (*world.PodState).Healthy) {
			r.unknown("no database process of pod %s (uid %s) was ever seen, though it was Ready", pod.Name, pod.UID)
		}
	}
	for _, name := range r.trial.Instances(r.trial.Plan.Workload.Replicas) {
		if !slices.ContainsFunc(keys(byName), func(key string) bool { return strings.HasSuffix(key, "/"+name) }) {
			r.unknown("no database process of %s was ever seen", name)
		}
	}
	for _, key := range keys(byName) {
		r.judgeTwins(key[strings.Index(key, "/")+1:], byName[key])
	}
	r.sawNodes(seen.ProcessCoverage, r.world.NodesUsed(), window)
}

// elsewhere reports whether a pod certainly is of another namespace: a volume was mounted for it whose claim is there.
func (r *ruling) elsewhere(uid string) bool {
	storage := r.world.Storage()
	return slices.ContainsFunc(r.world.Ledger().Lives, func(m *world.Mount) bool {
		return m.Place.Pod == uid && ofOthers(r.trial, storage.PVs[storage.VolumeAt(m.Place)])
	})
}

// judgeTwins reports, for each two pods of one name, the first pair of processes that lived at once.
func (r *ruling) judgeTwins(name string, all []*world.Process) {
	apart := func(a, b *world.Process) bool { return a.Pod != b.Pod }
	first := func(a, b *world.Process) bool { return r.first(name, min(a.Pod, b.Pod), max(a.Pod, b.Pod)) }
	overlaps(all, apart, first, func(o world.Overlap[*world.Process]) {
		fate := "the API still had the pod of the first"
		if pod := r.world.Pods().ByUID[o.A.Pod]; pod != nil && pod.End != nil {
			fate = fmt.Sprintf("the API had given up the pod of the first (uid %s) by %s", o.A.Pod,
				r.clock(pod.End.Event.Span.NotAfter))
		}
		r.violation(Finding{Subject: name, Node: o.B.Node, Span: o.Span,
			Events: slices.Concat(o.A.Events, o.B.Events)},
			"Two database processes of %s lived at once, %s: %s and %s; %s.", name, when(r, o), o.A, o.B, fate)
	}, func(o world.Overlap[*world.Process]) {
		r.unknown("%s and %s, both of %s, may have lived at once from %s on", o.A, o.B, name,
			r.clock(o.Span.NotBefore))
	})
}
