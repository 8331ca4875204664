package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// PodIdentity judges the real database processes, whatever the API says of their pods: two of one pod's name that
// belong to different pods, by their uids, must never both live. Processes of one uid are one pod's own affair: the one
// that initializes the data directory and the one that serves it.
//
// They are claimed to have lived at once only if they certainly did, see Mounts. One whose disk was pulled out of its
// node lives until it ends, like any other: it can still answer clients from what it has in memory.
func PodIdentity() Check {
	return Check{
		Name:    "pod-identity",
		Promise: "There are never two live database processes of one ordinal.",
		Source: "Kubernetes documentation, Force Delete StatefulSet Pods: at most one pod with a given identity at " +
			"any time; kubernetes/kubernetes issue 61832",
		Applies: hasData,
		Judge:   judgePodIdentity,
	}
}

func judgePodIdentity(h *world.World) Result {
	r := newRuling("database processes")
	s, err := h.Trial()
	if err != nil {
		r.unknown("%v", err)
		return r.result()
	}
	objects, seen := h.Storage(), h.Containers()
	if !objects.PodsOn {
		r.unknown("the observer %s was never on: which process is whose is not known", world.PodsObserver)
	}
	byPod := map[string][]*world.Process{}
	window := history.Span{NotBefore: world.Forever, NotAfter: s.LastSight()}
	for _, p := range seen.Processes {
		if p.Name != world.Database {
			continue
		}
		window.NotBefore = min(window.NotBefore, p.From)
		pod := objects.Pods[p.Pod]
		switch {
		case p.Pod == "":
			r.unknown("%s is of no pod", p)
		case pod == nil:
			r.unknown("%s is of a pod with uid %s, which the API never showed", p, p.Pod)
		case strings.HasPrefix(pod.Name, s.Plan.Workload.StatefulSet+"-"):
			r.evidence++
			r.looked(pod.Name)
			byPod[pod.Namespace+"/"+pod.Name] = append(byPod[pod.Namespace+"/"+pod.Name], p)
		}
	}
	for _, name := range s.Instances(s.Plan.Workload.Replicas) {
		if !slices.ContainsFunc(keys(byPod), func(key string) bool { return strings.HasSuffix(key, "/"+name) }) {
			r.unknown("no database process of %s was ever seen", name)
		}
	}
	for _, key := range keys(byPod) {
		judgeTwins(key[strings.Index(key, "/")+1:], byPod[key], objects, s, r)
	}
	nodes := h.Nodes()
	if len(nodes) == 0 {
		r.unknown("no node of the cluster is in the history: nobody knows whose processes are missing")
	}
	judgeSight(seen.ProcessSight, nodes, window, s, r)
	return r.result()
}

func keys[V any](m map[string]V) []string {
	var all []string
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

// judgeTwins looks for two that lived at once, and tells of the first pair of each two pods.
func judgeTwins(name string, all []*world.Process, objects *world.Storage, s *world.Trial, r *ruling) {
	told := map[string]bool{}
	pair := func(a, b *world.Process) string { return min(a.Pod, b.Pod) + "\x00" + max(a.Pod, b.Pod) }
	for i, b := range all {
		for _, a := range all[:i] {
			span := history.Span{NotBefore: max(a.From, b.From), NotAfter: min(a.To, b.To)}
			if a.Pod == b.Pod || span.NotBefore >= span.NotAfter || told[pair(a, b)] {
				continue
			}
			told[pair(a, b)] = true
			r.breach(Finding{
				Promise: PodIdentity().Promise,
				Sentence: fmt.Sprintf("Two database processes of %s lived at once, certainly from %s to %s (%s): %s "+
					"and %s; %s.", name, s.Clock(span.NotBefore), s.Clock(span.NotAfter),
					bounds(span, history.Between(max(a.MaybeFrom, b.MaybeFrom), min(a.MaybeTo, b.MaybeTo))), a, b,
					fate(objects, a.Pod, s)),
				Subject: name, Node: b.Node, Span: span, Events: slices.Concat(a.Events, b.Events),
				Faults: s.FaultsIn(span),
			})
		}
	}
	for i, b := range all {
		for _, a := range all[:i] {
			if a.Pod != b.Pod && !told[pair(a, b)] && max(a.MaybeFrom, b.MaybeFrom) < min(a.MaybeTo, b.MaybeTo) {
				told[pair(a, b)] = true
				r.unknown("%s and %s, both of %s, may have lived at once from %s on", a, b, name,
					s.Clock(max(a.MaybeFrom, b.MaybeFrom)))
			}
		}
	}
}

// fate says what the API knew of the pod of the elder process.
func fate(s *world.Storage, uid string, sc *world.Trial) string {
	pod := s.Pods[uid]
	if pod == nil || pod.Gone == nil {
		return "the API still had the pod of the first"
	}
	return fmt.Sprintf("the API had given up the pod of the first (uid %s) by %s", cmp.Or(uid, "unknown"),
		sc.Clock(pod.Gone.Span.NotAfter))
}
