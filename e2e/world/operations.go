package world

import (
	"maps"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
)

// Operation is what a client did: Sent is nil where an answer came to nothing that was recorded, Answer where none
// came.
type Operation struct{ Sent, Answer *history.Event }

// Operations are those of all clients: the answered ones in the order of their answers, then the others.
type Operations struct{ All []Operation }

// readOperations pairs the invocations and answers of each client. A client records its facts in the order of its
// doings and does little at once, so few are open.
func readOperations(w *World) *Operations {
	type client struct {
		instance string
		number   int
	}
	events := w.Of(history.KindOp)
	ops := &Operations{All: make([]Operation, 0, len(events)/2+1)}
	clients := map[client]map[int64]*history.Event{} // Open invocations.
	var order []client
	var unanswered []Operation
	for _, e := range events {
		k := client{e.Op.Instance, e.Op.Client}
		open := clients[k]
		if open == nil {
			open = map[int64]*history.Event{}
			clients[k], order = open, append(order, k)
		}
		sent := open[e.Op.Number]
		if e.Op.Stage != history.StageInvoke {
			delete(open, e.Op.Number)
			ops.All = append(ops.All, Operation{sent, e})
			continue
		}
		if sent != nil {
			unanswered = append(unanswered, Operation{Sent: sent})
		}
		open[e.Op.Number] = e
	}
	ops.All = append(ops.All, unanswered...)
	for _, k := range order {
		for _, number := range slices.Sorted(maps.Keys(clients[k])) {
			ops.All = append(ops.All, Operation{Sent: clients[k][number]})
		}
	}
	return ops
}

// First returns what is known of the operation first: its invocation, or its answer where that is missing.
func (o Operation) First() *history.Event {
	if o.Sent != nil {
		return o.Sent
	}
	return o.Answer
}
