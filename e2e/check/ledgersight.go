package check

import (
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
)

// judge holds that the ledger of every node of the cluster saw all of window, but for holes within the bound.
//
// A mount that was seen and could not be identified, because it was gone at once, is a hole as long as its whole life
// may have been: it can have been a volume for no longer than that, and a hole of that length is what the bound
// allows. One that was never seen to end is a hole to the end.
func (l *mountLedger) judge(h history.History, window history.Span, s *scene, r *ruling) {
	if len(clusterNodes(h)) == 0 {
		r.unknown("no node of the cluster is in the history: nobody knows whose ledgers are missing")
	}
	for _, node := range l.everywhere(h) {
		if !l.kept(node) {
			r.unknown("node %s kept no mount ledger: what was mounted there is not known", node)
			continue
		}
		for _, se := range l.sessions[node] {
			if !se.bootKnown {
				r.unknown("node %s: boot %q is no time on the boot clock", node, se.boot)
			}
		}
		hole := l.longest(node, window, s)
		if bound := s.plan.Bounds.BlindGap.D(); hole.Length() > bound {
			r.unknown("the mount ledger of node %s was blind for %s from %s, longer than the bound of %s",
				node, hole.Length(), s.clock(hole.NotBefore), bound)
		}
	}
}

// note tells of the longest hole of each ledger.
func (l *mountLedger) note(h history.History, window history.Span, s *scene, r *ruling) {
	for _, node := range l.everywhere(h) {
		if !l.kept(node) {
			continue
		}
		unidentified := 0
		for _, se := range l.sessions[node] {
			for _, life := range se.lives {
				if life.unknown {
					unidentified++
				}
			}
		}
		hole := l.longest(node, window, s)
		at := ""
		if hole.Length() > 0 {
			at = " from " + s.clock(hole.NotBefore)
		}
		r.note("node %s: longest blind gap %s%s; %d mounts not identified", node, hole.Length(), at, unidentified)
	}
}

func (l *mountLedger) longest(node string, window history.Span, s *scene) history.Span {
	return longestHole(window, l.watched(node, s), l.unseen(node))
}

// kept reports whether a node's ledger was ever on.
func (l *mountLedger) kept(node string) bool {
	return slices.ContainsFunc(l.sessions[node], func(se *session) bool { return se.on != nil })
}

// everywhere returns the nodes of the cluster and those that told of mounts, each once and in order.
func (l *mountLedger) everywhere(h history.History) []string {
	return slices.Compact(slices.Sorted(slices.Values(append(clusterNodes(h), l.nodes...))))
}
