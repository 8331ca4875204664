package world

import (
	"cmp"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
)

// Table is a table of a database, and the checksums that were taken of it.
type Table struct {
	Instance, Name string
	Quiet          bool             // Nobody writes to it.
	Taken          []*history.Event // In their order, those that failed included.
}

func (t *Table) String() string { return t.Instance + " table " + t.Name }

// Tables returns the tables of which checksums were taken, by instance and name, quiet ones first.
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
