package world

import (
	"cmp"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
)

// The methods of a CSI driver that move a volume through its life, by their names in the CSI specification.
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
	history.CSI                // As its begin has it, or its end where the begin is missing.
	Begin, End  *history.Event // Either may be nil.
}

// Calls is the calls of all drivers in the order in which their begins, or else their ends, reached the recorder.
type Calls struct {
	Calls      []*Call
	Driver     *Coverage // The observers of the nodes' drivers.
	Controller *Coverage
}

// readCalls puts begins and ends together.
func readCalls(w *World) *Calls {
	type key struct{ node, boot, call string }
	open := map[key]*Call{}
	l := &Calls{}
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
	l.Driver, l.Controller = readDriver(w, csiObserver, false), readDriver(w, CsiControllerObserver, true)
	return l
}

// readDriver reads what a driver, which writes down what it does itself, says of its record: on the controller's side
// or on a node's. Before it was on, a boot had no calls.
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

// TargetNode is the node that the call is about.
func (c *Call) TargetNode() string { return cmp.Or(c.For, c.Node) }

// Is reports that the call is of that method, volume and node.
func (c *Call) Is(rpc, volume, node string) bool {
	return c.RPC == rpc && c.Volume == volume && c.TargetNode() == node
}

// Succeeded reports that the call was answered with success.
func (c *Call) Succeeded() bool { return c.End != nil && c.End.CSI.Code == "OK" }

// Began is when the call began, no later than its end if its begin was missed.
func (c *Call) Began() history.Span {
	if c.Begin == nil {
		return history.Span{NotAfter: c.End.Span.NotAfter}
	}
	return c.Begin.Span
}

// Ended is when it ended; a call that was cut off may end at any later time. The span of an end is that of the whole
// call, from which it follows that it ended at the end of it.
func (c *Call) Ended() history.Span {
	if c.End == nil {
		return history.Span{NotBefore: c.Begin.Span.NotBefore, NotAfter: Forever}
	}
	return history.At(c.End.Span.NotAfter)
}

// Took reports that the call did what its answer says: success that was not answered on purpose without the act.
func (c *Call) Took() bool { return c.Succeeded() && c.Point != "lie" }

// Events are the ids of its facts.
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

// IsControlPlane reports whether a node carries the label of the control plane.
func (w *World) IsControlPlane(node string) bool {
	return slices.ContainsFunc(w.Objects().Nodes.ByKey[node], func(n *Node) bool {
		_, ok := n.Meta.Labels["node-role.kubernetes.io/control-plane"]
		return ok
	})
}

// Lasted is the time of the whole call.
func (c *Call) Lasted() history.Span {
	return history.Span{NotBefore: c.Began().NotBefore, NotAfter: max(c.Began().NotAfter, c.Ended().NotAfter)}
}

// Detached reports that the call took the volume from the node, given the table before it. One that was made to fail
// on purpose did nothing.
func (c *Call) Detached(before []string) bool {
	node := c.TargetNode()
	return c.Succeeded() || c.End != nil && c.Point != "fail" && slices.Contains(before, node) &&
		!slices.Contains(c.Attached, node)
}
