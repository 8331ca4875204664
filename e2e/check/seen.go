package check

import (
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// since returns the window from the first of some moments to the last that the observers could see.
func (r *ruling) since(moments ...history.Time) history.Span {
	return history.Span{NotBefore: slices.Min(append(moments, world.Forever)), NotAfter: r.trial.LookedUntil()}
}

// sawNodes holds that the observer of each of the nodes saw all of window, but for holes within the bound.
func (r *ruling) sawNodes(c *world.Coverage, nodes []string, window history.Span) {
	for _, node := range nodes {
		if !c.On(node) {
			r.unknown("the observer %s was never on on node %s: what happened there is not known", c.Name, node)
			continue
		}
		r.sawNode(c, node, window, "the observer "+c.Name+" of node "+node)
	}
}

// sawNode is sawNodes for one node whose observer was on; who names that observer.
func (r *ruling) sawNode(c *world.Coverage, node string, window history.Span, who string) {
	hole := c.Longest(node, window, r.trial)
	if bound := r.trial.Plan.Bounds.BlindGap.D(); hole.Length() > bound {
		r.unknown("%s was blind for %s from %s, longer than the bound of %s", who, hole.Length(),
			r.clock(hole.NotBefore), bound)
	}
}

// sawMounts holds that the ledger of every node of the cluster saw all of window, but for holes within the bound.
//
// A mount that was seen and could not be identified, because it was gone at once, is a hole as long as its whole life
// may have been: it can have been a volume for no longer than that, and a hole of that length is what the bound
// allows. One that was never seen to end is a hole to the end.
func (r *ruling) sawMounts(window history.Span) {
	if len(r.world.Nodes()) == 0 {
		r.unknown("no node of the cluster is in the history: whose ledgers are missing is not known")
	}
	ledger := r.world.Ledger()
	for _, node := range ledger.Everywhere(r.world) {
		if !ledger.On(node) {
			r.unknown("node %s kept no mount ledger: what was mounted there is not known", node)
			continue
		}
		for _, s := range ledger.Sessions[node] {
			if !s.BootKnown {
				r.unknown("node %s: when boot %q began is not known", node, s.Boot)
			}
		}
		r.sawNode(ledger.Coverage, node, window, "the mount ledger of node "+node)
	}
}

// sawCalls holds that the drivers were watched all through window: on every node, and where the controller runs. A node
// of the control plane needs no observer of its own where no volume is ever mounted there.
func (r *ruling) sawCalls(window history.Span) {
	calls := r.world.Calls()
	nodes := slices.DeleteFunc(r.world.Nodes(), func(node string) bool {
		return !calls.Driver.On(node) && r.world.IsControlPlane(node) &&
			!slices.ContainsFunc(calls.Calls, func(c *world.Call) bool { return c.TargetNode() == node })
	})
	if len(nodes) == 0 {
		r.unknown("no node of the cluster is in the history: whose CSI calls are missing is not known")
	}
	r.sawNodes(calls.Driver, nodes, window)
	at := slices.DeleteFunc(keys(calls.Controller.Sessions),
		func(node string) bool { return !calls.Controller.On(node) })
	if len(at) == 0 {
		r.unknown("the observer %s was never on: what was attached and detached is not known",
			world.CsiControllerObserver)
	}
	r.sawNodes(calls.Controller, at, window)
}

// hasData reports that the plan's workload is a database that clients write to.
func hasData(w *world.World) bool {
	return planned(func(p plan.Plan) bool { return !p.Workload.Light })(w)
}
