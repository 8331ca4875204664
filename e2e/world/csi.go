package world

import (
	"cmp"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
)

// The CSI methods that attach, stage and publish a volume and undo it, by their names in the CSI specification.
const (
	RPCAttach    = "ControllerPublishVolume"
	RPCDetach    = "ControllerUnpublishVolume"
	RPCStage     = "NodeStageVolume"
	RPCUnstage   = "NodeUnstageVolume"
	RPCPublish   = "NodePublishVolume"
	RPCUnpublish = "NodeUnpublishVolume"
)

// Call is one call of a CSI driver.
type Call struct {
	history.CSI                // From its begin; from its end if the begin is missing.
	Begin, End  *history.Event // At most one is nil.
}

// Calls holds the calls of all drivers, in the order in which the first event of each was recorded.
type Calls struct {
	Calls      []*Call
	Driver     *Coverage // The node plugins.
	Controller *Coverage

	on map[onNode][]*Call
}

// onNode is what a call of a method concerns: a volume on its target node.
type onNode struct{ rpc, volume, node string }

// readCalls pairs the begins and ends of calls.
func readCalls(w *World) *Calls {
	type key struct{ node, boot, call string }
	open := map[key]*Call{}
	l := &Calls{on: map[onNode][]*Call{}}
	for _, e := range w.Of(history.KindCSI) {
		k := key{e.CSI.Node, e.CSI.Boot, e.CSI.Call}
		c := open[k]
		if c == nil || !e.CSI.End || c.RPC != e.CSI.RPC {
			c = &Call{CSI: *e.CSI}
			l.Calls = append(l.Calls, c)
			open[k] = c
		}
		if !e.CSI.End {
			c.Begin = e
			continue
		}
		c.End = e
		c.Code, c.Error, c.Point, c.Attached = e.CSI.Code, e.CSI.Error, e.CSI.Point, e.CSI.Attached
		c.Volume, c.For = cmp.Or(c.Volume, e.CSI.Volume), cmp.Or(c.For, e.CSI.For)
		delete(open, k)
	}
	for _, c := range l.Calls {
		k := onNode{c.RPC, c.Volume, c.TargetNode()}
		l.on[k] = append(l.on[k], c)
	}
	l.Driver, l.Controller = readDriver(w, csiObserver, false), readDriver(w, CsiControllerObserver, true)
	return l
}

// readDriver reads the coverage of the controller plugin or of the node plugins. A driver records its own calls, so a
// boot has none before the driver was on.
func readDriver(w *World, name string, controller bool) *Coverage {
	c := readCoverage(w, name, history.KindCSI, func(c *Coverage, e *history.Event) *Session {
		if strings.HasPrefix(e.CSI.RPC, "Node") == controller {
			return nil
		}
		return c.at(e.CSI.Node, e.CSI.Boot)
	})
	for _, sessions := range c.Sessions {
		for _, s := range sessions {
			s.early = true
		}
	}
	return c
}

// driverAway is the detail of a gap in which the driver did not run.
const driverAway = "the driver did not run"

// TargetNode is the node that the call attaches to or mounts on; a controller call runs elsewhere.
func (c *Call) TargetNode() string { return cmp.Or(c.For, c.Node) }

// Succeeded reports whether the call was answered with OK.
func (c *Call) Succeeded() bool { return c.End != nil && c.End.CSI.Code == "OK" }

// Began is when the call began; at any time up to its end if its begin was missed.
func (c *Call) Began() history.Span {
	if c.Begin == nil {
		return history.Span{NotAfter: c.End.Span.NotAfter}
	}
	return c.Begin.Span
}

// Ended is when the call ended; a call that was cut off may end at any later time. The span of an end fact covers the
// whole call, so only its NotAfter is the end.
func (c *Call) Ended() history.Span {
	if c.End == nil {
		return history.Span{NotBefore: c.Begin.Span.NotBefore, NotAfter: Forever}
	}
	return history.At(c.End.Span.NotAfter)
}

// Took reports whether the call succeeded and did its work. A call at point "lie" answers OK and does nothing.
func (c *Call) Took() bool { return c.Succeeded() && c.Point != "lie" }

// Events returns the ids of the call's events.
func (c *Call) Events() []int64 {
	switch {
	case c.Begin == nil:
		return []int64{c.End.ID}
	case c.End == nil:
		return []int64{c.Begin.ID}
	}
	return []int64{c.Begin.ID, c.End.ID}
}

// Of returns the calls of the given methods.
func (l *Calls) Of(rpcs ...string) []*Call {
	var calls []*Call
	for _, c := range l.Calls {
		if slices.Contains(rpcs, c.RPC) {
			calls = append(calls, c)
		}
	}
	return calls
}

// On returns the calls of a method for a volume and a target node.
func (l *Calls) On(rpc, volume, node string) []*Call { return l.on[onNode{rpc, volume, node}] }

// IsControlPlane reports whether a node was ever seen with the label of the control plane.
func (w *World) IsControlPlane(node string) bool {
	return slices.ContainsFunc(w.Objects().Nodes.ByKey[node],
		func(n *Node) bool { return IsControlPlane(n.Meta.Labels) })
}

// Lasted is the span of the whole call.
func (c *Call) Lasted() history.Span {
	return history.Span{NotBefore: c.Began().NotBefore, NotAfter: max(c.Began().NotAfter, c.Ended().NotAfter)}
}

// Detached reports whether the call detached the volume from its target node, given the nodes that it was attached to
// before. A call at point "fail" is failed on purpose and does nothing.
func (c *Call) Detached(before []string) bool {
	node := c.TargetNode()
	return c.Succeeded() || c.End != nil && c.Point != "fail" && slices.Contains(before, node) &&
		!slices.Contains(c.Attached, node)
}
