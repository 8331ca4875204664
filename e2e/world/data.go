package world

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
)

// Read is one read of all rows of an instance: the chunks of it that the history has.
type Read struct {
	Chunks map[int]*history.Event // By number, from 1.
	Total  int
	First  history.Time // The earliest time at which it can have begun.
	Last   history.Span // Span of the chunk that came last.

	spoiled string           // Why its chunks do not form a whole read; "" if they show no reason.
	has     map[rowName]bool // Of Has; nil until it is asked.
}

// rowName names a row. A client never uses a seq for two inserts.
type rowName struct {
	client int
	seq    int64
}

// Reads returns the reads with a label, by instance.
func (w *World) Reads(label string) map[string]*Read {
	reads := map[string]*Read{}
	for _, e := range w.Of(history.KindRows) {
		if e.Rows.Read != label {
			continue
		}
		r := reads[e.Rows.Instance]
		if r == nil {
			r = &Read{Chunks: map[int]*history.Event{}, Total: e.Rows.Chunks, First: e.Span.NotBefore}
			reads[e.Rows.Instance] = r
		}
		r.add(e)
	}
	return reads
}

func (r *Read) add(e *history.Event) {
	r.First = min(r.First, e.Span.NotBefore)
	if e.Span.NotAfter >= r.Last.NotAfter {
		r.Last = e.Span
	}
	switch {
	case e.Rows.Error != "":
		r.spoiled = "it broke off: " + e.Rows.Error
		return
	case e.Rows.Chunks != r.Total:
		r.spoiled = "its chunks disagree on how many they are"
	case e.Rows.Chunk < 1 || e.Rows.Chunk > e.Rows.Chunks:
		r.spoiled = fmt.Sprintf("it has a chunk %d of %d", e.Rows.Chunk, e.Rows.Chunks)
	case r.Chunks[e.Rows.Chunk] != nil:
		r.spoiled = fmt.Sprintf("chunk %d is there twice", e.Rows.Chunk)
		return // A row is there twice only if one read says so.
	}
	r.Chunks[e.Rows.Chunk] = e
}

// Lacks returns why the read is not whole, "" if it is. The receiver may be nil: a read that was not made.
func (r *Read) Lacks() string {
	switch {
	case r == nil:
		return "there is none"
	case r.spoiled != "":
		return r.spoiled
	case r.Total < 1 || len(r.Chunks) != r.Total:
		return fmt.Sprintf("%d of its %d chunks are there", len(r.Chunks), r.Total)
	}
	return ""
}

// Rows yields the rows that the read returned, chunk by chunk.
func (r *Read) Rows() iter.Seq[history.Row] {
	return func(yield func(history.Row) bool) {
		for _, n := range slices.Sorted(maps.Keys(r.Chunks)) {
			for _, row := range r.Chunks[n].Rows.Rows {
				if !yield(row) {
					return
				}
			}
		}
	}
}

// Has reports whether the read returned a client's row.
func (r *Read) Has(client int, seq int64) bool {
	if r.has == nil {
		r.has = map[rowName]bool{}
		for row := range r.Rows() {
			r.has[rowName{row.Client, row.Seq}] = true
		}
	}
	return r.has[rowName{client, seq}]
}

// Table is a table of an instance, with the checksums taken of it.
type Table struct {
	Instance, Name string
	Quiet          bool             // No client writes to it.
	Taken          []*history.Event // In order, failed ones included.
}

func (t *Table) String() string { return t.Instance + " table " + t.Name }

// Tables returns the tables that have checksums, sorted by instance and name, quiet ones first.
func (w *World) Tables() []*Table {
	quiet := map[bool]int{true: 0, false: 1}
	order := func(a, b *Table) int {
		return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Name, b.Name),
			cmp.Compare(quiet[a.Quiet], quiet[b.Quiet]))
	}
	var all []*Table
	for _, e := range w.Of(history.KindChecksum) {
		of := &Table{Instance: e.Checksum.Instance, Name: e.Checksum.Table, Quiet: e.Checksum.Quiet}
		i, known := slices.BinarySearchFunc(all, of, order)
		if !known {
			all = slices.Insert(all, i, of)
		}
		all[i].Taken = append(all[i].Taken, e)
	}
	return all
}

// Operation is one operation of a client. Sent is nil if its invocation was not recorded, Answer if it got none.
type Operation struct{ Sent, Answer *history.Event }

// readOperations pairs the invocations and answers of each client. A client records its events in order and has few
// operations in flight.
func readOperations(w *World) *[]Operation {
	type client struct {
		instance string
		number   int
	}
	events := w.Of(history.KindOp)
	ops := make([]Operation, 0, len(events)/2+1)
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
			ops = append(ops, Operation{sent, e})
			continue
		}
		if sent != nil {
			unanswered = append(unanswered, Operation{Sent: sent})
		}
		open[e.Op.Number] = e
	}
	ops = append(ops, unanswered...)
	for _, k := range order {
		for _, number := range slices.Sorted(maps.Keys(clients[k])) {
			ops = append(ops, Operation{Sent: clients[k][number]})
		}
	}
	return &ops
}
