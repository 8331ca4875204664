package world

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
)

// Read is one read of all rows of an instance, as far as its chunks are in the history.
type Read struct {
	Chunks map[int]*history.Event // By their numbers, from 1.
	Total  int
	First  history.Time // When it began, at the earliest.
	Last   history.Span // Of the chunk that came last.

	spoiled string // Why it is not whole, as far as its chunks say; "" when nothing speaks against it.
}

// Reads returns the reads with a label, by their instances.
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

// Lacks says why the read is not whole, "" when it is. It takes nil, for a read that was not made.
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

// Rows are the rows that the read returned, chunk by chunk.
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
