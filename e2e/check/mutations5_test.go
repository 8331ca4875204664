package check_test

import (
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
)

// inspection picks what a tool said of a table of an instance, or of the file system of a volume.
func inspection(tool, of, table string) func(*history.Event) bool {
	return func(e *history.Event) bool {
		return e.Kind == history.KindInspection && e.Inspection.Tool == tool && e.Inspection.Table == table &&
			(e.Inspection.Instance == of || e.Inspection.PV == of)
	}
}

func integrityMutations() []mutation {
	pass, fail, unknown := check.Pass, check.Fail, check.Unknown
	damaged := func(messages ...string) func(*history.Event) {
		return func(e *history.Event) { e.Inspection.Clean, e.Inspection.Messages = false, messages }
	}
	table, volume := inspection("CHECK TABLE", "mysql-1", "ledger"), inspection("e2fsck", "local-2", "")
	return []mutation{
		{"nothing changed", "integrity", nil, pass, ""},
		{"nothing changed, on disks", "integrity", onDisk(nil), pass, ""},
		{"a damaged table", "integrity", edit(table, damaged("Error: Index primary is corrupted.")), fail,
			"CHECK TABLE found damage in table ledger of mysql-1: Error: Index primary is corrupted."},
		{"a damaged file system", "integrity", edit(volume, damaged("a", "b", "c", "d")), fail,
			"e2fsck found damage in the file system of volume local-2: a; b; c; and more."},
		{"damage that is not told", "integrity", edit(volume, damaged()), fail, "it does not say which"},
		{"a table that could not be looked at", "integrity", edit(table, func(e *history.Event) {
			e.Inspection.Clean, e.Inspection.Error = false, "server has gone away"
		}), unknown, "table ledger of mysql-1 could not be looked over for damage: server has gone away"},
		{"a volume that is still mounted", "integrity", edit(volume, func(e *history.Event) {
			e.Inspection.Clean, e.Inspection.Error = false, "it is still set up on worker"
		}), unknown, "volume local-2 could not be looked over for damage: it is still set up on worker"},
		{"a volume nobody looked at", "integrity", drop(volume), unknown, "of 2 volumes were looked over for damage"},
		{"one volume looked at twice", "integrity", edit(volume, func(e *history.Event) {
			e.Inspection.PV = "local-1"
		}), unknown, "of 2 volumes were looked over for damage"},
		{"an instance nobody looked at", "integrity",
			then(drop(table), drop(inspection("CHECK TABLE", "mysql-1", "quiet"))), unknown,
			"the tables of mysql-1 were never looked over"},
		{"nobody looked", "integrity", drop(kind(history.KindInspection)), unknown,
			"the tables of mysql-0, mysql-1, mysql-2 were never looked over"},
	}
}
