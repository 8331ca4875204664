package check

import (
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

// The methods of a CSI driver that move a volume through its life, by their names in the CSI specification.
const (
	rpcAttach    = "ControllerPublishVolume"
	rpcDetach    = "ControllerUnpublishVolume"
	rpcStage     = "NodeStageVolume"
	rpcUnstage   = "NodeUnstageVolume"
	rpcPublish   = "NodePublishVolume"
	rpcUnpublish = "NodeUnpublishVolume"
)

// csiCall is one call of a CSI driver.
type csiCall struct {
	history.CSI                // As its begin has it, or its end where the begin is missing.
	begin, end  *history.Event // Either may be nil.
}

// callLog is the calls of all drivers in the order in which their begins, or else their ends, reached the recorder.
type callLog struct {
	calls      []*csiCall
	driver     *sight // The observers of the nodes' drivers.
	controller *sight
}

// readCalls puts begins and ends together.
func readCalls(h history.History) *callLog {
	type key struct{ node, boot, call string }
	open := map[key]*csiCall{}
	l := &callLog{}
	for i := range h.Events {
		e := &h.Events[i]
		if e.Kind != history.KindCSI || e.CSI == nil {
			continue
		}
		k := key{e.CSI.Node, e.CSI.Boot, e.CSI.Call}
		c := open[k]
		if c == nil || !e.CSI.End || c.RPC != e.CSI.RPC {
			c = &csiCall{CSI: *e.CSI}
			l.calls = append(l.calls, c)
			open[k] = c
		}
		if !e.CSI.End {
			c.begin = e
			continue
		}
		c.end = e
		c.Code, c.Error, c.Point, c.Attached = e.CSI.Code, e.CSI.Error, e.CSI.Point, e.CSI.Attached
		c.Volume, c.For = firstOf(c.Volume, e.CSI.Volume), firstOf(c.For, e.CSI.For)
		delete(open, k)
	}
	l.driver = readSight(h, csiObserver, callsOf(false))
	l.controller = readSight(h, csiControllerObserver, callsOf(true))
	for _, w := range []*sight{l.driver, l.controller} {
		for _, runs := range w.runs {
			for _, run := range runs {
				run.selfTold()
			}
		}
	}
	return l
}

// driverAway is the detail of a gap in which the driver did not run.
const driverAway = "the driver did not run"

// selfTold makes of the stretch that of an observer which writes down what it does itself, as a driver does: before it
// was on, a boot had no calls, and while it did not run there were none to miss.
func (s *stretch) selfTold() {
	s.early = true
	s.seenTo = max(s.seenTo, s.awayTo)
	s.blind = slices.DeleteFunc(s.blind, func(b history.Span) bool { return slices.Contains(s.away, b) })
}

// callsOf returns whose fact a call is: the controller's or a node's.
func callsOf(controller bool) func(*history.Event) (string, string, bool) {
	return func(e *history.Event) (string, string, bool) {
		if e.Kind != history.KindCSI || e.CSI == nil || strings.HasPrefix(e.CSI.RPC, "Node") == controller {
			return "", "", false
		}
		return e.CSI.Node, e.CSI.Boot, true
	}
}

// target is the node that the call is about.
func (c *csiCall) target() string { return firstOf(c.For, c.Node) }

// is reports that the call is of that method, volume and node.
func (c *csiCall) is(rpc, volume, node string) bool {
	return c.RPC == rpc && c.Volume == volume && c.target() == node
}

// ok reports that the call was answered with success.
func (c *csiCall) ok() bool { return c.end != nil && c.end.CSI.Code == "OK" }

// began is when the call began. Of one whose begin was missed it is known that it did not begin after its end.
func (c *csiCall) began() history.Span {
	if c.begin == nil {
		return history.Span{NotAfter: c.end.Span.NotAfter}
	}
	return c.begin.Span
}

// ended is when it ended; a call that was cut off may end at any later time. The span of an end is that of the whole
// call, from which it follows that it ended at the end of it.
func (c *csiCall) ended() history.Span {
	if c.end == nil {
		return history.Span{NotBefore: c.begin.Span.NotBefore, NotAfter: forever}
	}
	return history.At(c.end.Span.NotAfter)
}

// events are the ids of its facts.
func (c *csiCall) events() []int64 {
	var ids []int64
	for _, e := range []*history.Event{c.begin, c.end} {
		if e != nil {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// of returns the calls of the given methods.
func (l *callLog) of(rpcs ...string) []*csiCall {
	var calls []*csiCall
	for _, c := range l.calls {
		if slices.Contains(rpcs, c.RPC) {
			calls = append(calls, c)
		}
	}
	return calls
}

// judgeSight holds that the drivers were watched all through window: on every node, and where the controller runs. A
// node of the control plane needs no observer of its own where no volume is ever mounted there.
func (l *callLog) judgeSight(h history.History, window history.Span, s *scene, r *ruling) {
	nodes := slices.DeleteFunc(clusterNodes(h), func(node string) bool {
		return !l.driver.on(node) && isControlPlane(h, node) &&
			!slices.ContainsFunc(l.calls, func(c *csiCall) bool { return c.target() == node })
	})
	if len(nodes) == 0 {
		r.unknown("no node of the cluster is in the history: nobody knows whose CSI calls are missing")
	}
	l.driver.judge(nodes, window, s, r)
	var at []string
	for node := range l.controller.runs {
		if l.controller.on(node) {
			at = append(at, node)
		}
	}
	if len(at) == 0 {
		r.unknown("the observer %s was never on: what was attached and detached is not known", csiControllerObserver)
	}
	slices.Sort(at)
	l.controller.judge(at, window, s, r)
}

// isControlPlane reports whether a node carries the label of the control plane.
func isControlPlane(h history.History, node string) bool {
	return slices.ContainsFunc(h.Events, func(e history.Event) bool {
		return e.Kind == history.KindObject && e.Object != nil && e.Object.Resource == "nodes" &&
			e.Object.Name == node && strings.Contains(string(e.Object.Raw), `"node-role.kubernetes.io/control-plane"`)
	})
}

// onSharedDisk reports that the plan puts the workload on disks that are attached. A history without a plan may have
// planned anything.
func onSharedDisk(h history.History) bool {
	s, err := setScene(h)
	return err != nil || s.plan.Workload.StorageName() == plan.StorageSharedDisk
}
