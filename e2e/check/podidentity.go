package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
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

func judgePodIdentity(h history.History) Result {
	r := newRuling("database processes")
	s, err := setScene(h)
	if err != nil {
		r.unknown("%v", err)
		return r.result()
	}
	objects, seen := readStorage(h), readContainers(h)
	if !objects.podsOn {
		r.unknown("the observer %s was never on: which process is whose is not known", podsObserver)
	}
	byPod := map[string][]*processLife{}
	window := history.Span{NotBefore: forever, NotAfter: s.lastSight(h)}
	for _, p := range seen.processes {
		if p.name != database {
			continue
		}
		window.NotBefore = min(window.NotBefore, p.from)
		pod := objects.pods[p.pod]
		switch {
		case p.pod == "":
			r.unknown("%s is of no pod", p)
		case pod == nil:
			r.unknown("%s is of a pod with uid %s, which the API never showed", p, p.pod)
		case strings.HasPrefix(pod.name, s.plan.Workload.StatefulSet+"-"):
			r.evidence++
			byPod[pod.namespace+"/"+pod.name] = append(byPod[pod.namespace+"/"+pod.name], p)
		}
	}
	for _, name := range s.instances(s.plan.Workload.Replicas) {
		if !slices.ContainsFunc(keys(byPod), func(key string) bool { return strings.HasSuffix(key, "/"+name) }) {
			r.unknown("no database process of %s was ever seen", name)
		}
	}
	for _, key := range keys(byPod) {
		judgeTwins(key[strings.Index(key, "/")+1:], byPod[key], objects, s, r)
	}
	nodes := clusterNodes(h)
	if len(nodes) == 0 {
		r.unknown("no node of the cluster is in the history: nobody knows whose processes are missing")
	}
	seen.processSight.judge(nodes, window, s, r)
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
func judgeTwins(name string, all []*processLife, objects *storageObjects, s *scene, r *ruling) {
	told := map[string]bool{}
	pair := func(a, b *processLife) string { return min(a.pod, b.pod) + "\x00" + max(a.pod, b.pod) }
	for i, b := range all {
		for _, a := range all[:i] {
			span := history.Span{NotBefore: max(a.from, b.from), NotAfter: min(a.to, b.to)}
			if a.pod == b.pod || span.NotBefore >= span.NotAfter || told[pair(a, b)] {
				continue
			}
			told[pair(a, b)] = true
			r.breach(Finding{
				Promise: PodIdentity().Promise,
				Sentence: fmt.Sprintf("Two database processes of %s lived at once, certainly from %s to %s (%s): %s "+
					"and %s; %s.", name, s.clock(span.NotBefore), s.clock(span.NotAfter),
					lasting(span), a, b,
					objects.fate(a.pod, s)),
				Subject: name, Node: b.node, Span: span, Events: slices.Concat(a.events, b.events),
				Faults: s.faultsIn(span),
			})
		}
	}
	for i, b := range all {
		for _, a := range all[:i] {
			if a.pod != b.pod && !told[pair(a, b)] && max(a.maybeFrom, b.maybeFrom) < min(a.maybeTo, b.maybeTo) {
				told[pair(a, b)] = true
				r.unknown("%s and %s, both of %s, may have lived at once from %s on", a, b, name,
					s.clock(max(a.maybeFrom, b.maybeFrom)))
			}
		}
	}
}

// fate says what the API knew of the pod of the elder process.
func (s *storageObjects) fate(uid string, sc *scene) string {
	pod := s.pods[uid]
	if pod == nil || pod.gone == nil {
		return "the API still had the pod of the first"
	}
	return fmt.Sprintf("the API had given up the pod of the first (uid %s) by %s", cmp.Or(uid, "unknown"),
		sc.clock(pod.gone.Span.NotAfter))
}
