package check

import (
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// judge holds that the observer of each of the nodes saw all of window, but for holes within the bound.
func judgeSight(w *world.Coverage, nodes []string, window history.Span, s *world.Trial, r *ruling) {
	for _, node := range nodes {
		if !w.On(node) {
			r.unknown("the observer %s was never on on node %s: what happened there is not known", w.Name, node)
			continue
		}
		var longest history.Span
		for _, hole := range w.Holes(node, window, s) {
			if hole.Length() > longest.Length() {
				longest = hole
			}
		}
		if bound := s.Plan.Bounds.BlindGap.D(); longest.Length() > bound {
			r.unknown("the observer %s of node %s was blind for %s from %s, longer than the bound of %s", w.Name, node,
				longest.Length(), s.Clock(longest.NotBefore), bound)
		}
	}
}

// judgeLedger holds that the ledger of every node of the cluster saw all of window, but for holes within the bound.
//
// A mount that was seen and could not be identified, because it was gone at once, is a hole as long as its whole life
// may have been: it can have been a volume for no longer than that, and a hole of that length is what the bound
// allows. One that was never seen to end is a hole to the end.
func judgeLedger(l *world.Ledger, h *world.World, window history.Span, s *world.Trial, r *ruling) {
	if len(h.Nodes()) == 0 {
		r.unknown("no node of the cluster is in the history: nobody knows whose ledgers are missing")
	}
	for _, node := range l.Everywhere(h) {
		if !l.Kept(node) {
			r.unknown("node %s kept no mount ledger: what was mounted there is not known", node)
			continue
		}
		for _, se := range l.Sessions[node] {
			if !se.BootKnown {
				r.unknown("node %s: boot %q is no time on the boot clock", node, se.Boot)
			}
		}
		hole := l.Longest(node, window, s)
		if bound := s.Plan.Bounds.BlindGap.D(); hole.Length() > bound {
			r.unknown("the mount ledger of node %s was blind for %s from %s, longer than the bound of %s",
				node, hole.Length(), s.Clock(hole.NotBefore), bound)
		}
	}
}

// noteLedger tells of the longest hole of each ledger.
func noteLedger(l *world.Ledger, h *world.World, window history.Span, s *world.Trial, r *ruling) {
	for _, node := range l.Everywhere(h) {
		if !l.Kept(node) {
			continue
		}
		unidentified := 0
		for _, se := range l.Sessions[node] {
			for _, life := range se.Lives {
				if life.Unknown {
					unidentified++
				}
			}
		}
		hole := l.Longest(node, window, s)
		at := ""
		if hole.Length() > 0 {
			at = " from " + s.Clock(hole.NotBefore)
		}
		r.note("node %s: longest blind gap %s%s; %d mounts not identified", node, hole.Length(), at, unidentified)
	}
}

// judgeCallSight holds that the drivers were watched all through window: on every node, and where the controller runs.
// A node of the control plane needs no observer of its own where no volume is ever mounted there.
func judgeCallSight(l *world.Calls, h *world.World, window history.Span, s *world.Trial, r *ruling) {
	nodes := slices.DeleteFunc(h.Nodes(), func(node string) bool {
		return !l.Driver.On(node) && world.IsControlPlane(h, node) &&
			!slices.ContainsFunc(l.Calls, func(c *world.Call) bool { return c.TargetNode() == node })
	})
	if len(nodes) == 0 {
		r.unknown("no node of the cluster is in the history: nobody knows whose CSI calls are missing")
	}
	judgeSight(l.Driver, nodes, window, s, r)
	var at []string
	for node := range l.Controller.Runs {
		if l.Controller.On(node) {
			at = append(at, node)
		}
	}
	if len(at) == 0 {
		r.unknown(
			"the observer %s was never on: what was attached and detached is not known",
			world.CsiControllerObserver,
		)
	}
	slices.Sort(at)
	judgeSight(l.Controller, at, window, s, r)
}
