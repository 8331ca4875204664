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

// readOperations pairs the invocations and answers of each client. Its facts come in the order of its doings, since it
// records them itself, and it does little at once: what is open of a client is few.
func readOperations(w *World) *Operations {
	type client struct {
		instance string
		number   int
	}
	type kept struct{ open map[int64]*history.Event }
	events := w.Of(history.KindOp)
	ops := &Operations{All: make([]Operation, 0, len(events)/2+1)}
	clients := map[client]*kept{}
	var order []*kept
	var unanswered []Operation
	for _, e := range events {
		k := client{e.Op.Instance, e.Op.Client}
		c := clients[k]
		if c == nil {
			c = &kept{map[int64]*history.Event{}}
			clients[k], order = c, append(order, c)
		}
		sent := c.open[e.Op.Number]
		if e.Op.Stage != history.StageInvoke {
			delete(c.open, e.Op.Number)
			ops.All = append(ops.All, Operation{sent, e})
			continue
		}
		if sent != nil {
			unanswered = append(unanswered, Operation{Sent: sent})
		}
		c.open[e.Op.Number] = e
	}
	ops.All = append(ops.All, unanswered...)
	for _, c := range order {
		for _, number := range slices.Sorted(maps.Keys(c.open)) {
			ops.All = append(ops.All, Operation{Sent: c.open[number]})
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
