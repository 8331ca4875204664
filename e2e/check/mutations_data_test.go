package check_test

import (
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

func rowMutations() []mutation {
	ok, pass, fail, unknown := history.StageOK, check.Pass, check.Fail, check.Unknown
	write := func(e *history.Event) *history.Row { return &e.Rows.Rows[3] }
	return []mutation{
		{"nothing changed", "rows", nil, pass, ""},
		{"acknowledged row dropped", "rows",
			edit(rowsOf("mysql-1", 1), func(e *history.Event) { e.Rows.Rows = e.Rows.Rows[1:] }),
			fail, "mysql-1 lost a row that it had acknowledged: client 2, seq 1, acknowledged at +9.210 s, last read"},
		{"row there twice", "rows", edit(rowsOf("mysql-0", 2), func(e *history.Event) {
			e.Rows.Rows = append(e.Rows.Rows, e.Rows.Rows[0])
		}), fail, "mysql-0 holds one row 2 times"},
		{"stored crc flipped", "rows",
			edit(rowsOf("mysql-0", 1), func(e *history.Event) { write(e).CRC ^= 1; write(e).Sum ^= 1 }),
			fail, "holds a damaged row: client 1, seq 4"},
		{"payload damaged under its crc", "rows", edit(rowsOf("mysql-0", 1),
			func(e *history.Event) { write(e).Sum ^= 1 }),
			fail, "holds a damaged row: client 1, seq 4"},
		{"row of nobody", "rows", edit(rowsOf("mysql-2", 1), func(e *history.Event) {
			e.Rows.Rows = append(e.Rows.Rows, history.Row{Client: 77, Seq: 5})
		}), fail, "holds a row that no client wrote: client 77, seq 5"},
		{"refused insert is there", "rows", edit(op(history.OpInsert, ok, "mysql-0", 7), func(e *history.Event) {
			e.Op.Stage = history.StageFailed
		}), fail, "holds a row whose insert it had refused: client 1, seq 7"},
		{"unknown outcome is there", "rows", edit(op(history.OpInsert, ok, "mysql-0", 7), func(e *history.Event) {
			e.Op.Stage = history.StageUnknown
		}), pass, ""},
		{"insert never answered is there", "rows", drop(op(history.OpInsert, ok, "mysql-0", 7)), pass, ""},
		{"invocation not recorded", "rows", drop(op(history.OpInsert, history.StageInvoke, "mysql-0", 7)), unknown,
			"not whole"},
		{"read misses an acknowledged row", "rows", edit(op(history.OpRead, ok, "mysql-0", 1),
			func(e *history.Event) {
				no := false
				e.Op.Found, e.Op.Intact = &no, nil
			}), fail, "lost a row for a time or for good: client 1, seq 1"},
		{"read finds a damaged row", "rows", edit(op(history.OpRead, ok, "mysql-0", 1), func(e *history.Event) {
			no := false
			e.Op.Intact = &no
		}), fail, "returned a damaged row"},
		{"read finds another payload", "rows", edit(op(history.OpRead, ok, "mysql-0", 1),
			func(e *history.Event) { e.Op.CRC++ }),
			fail, "returned a damaged row"},
		{"read sent as its row was acknowledged", "rows", add(func(t *historytest.Trial) {
			t.Insert("mysql-0", 1, 9001, ok, 20, 20.01)
			t.Read("mysql-0", 1, 9001, false, 20.01, 20.02)
		}), pass, ""},
		{"read sent 1 ns after its row was acknowledged", "rows", add(func(t *historytest.Trial) {
			t.Insert("mysql-0", 1, 9001, ok, 20, 20.01)
			t.Read("mysql-0", 1, 9001, false, 20.010000001, 20.02)
		}), fail, "client 1, seq 9001"},
		{"final read without its second chunk", "rows", drop(rowsOf("mysql-1", 2)), unknown, "1 of its 2 chunks"},
		{"final read with an error", "rows",
			edit(rowsOf("mysql-1", 2), func(e *history.Event) { e.Rows.Error = "gone away" }),
			unknown, "gone away"},
		{"no final read", "rows", drop(kind(history.KindRows)), unknown, "there is none"},
		{"damage in a read that is not whole", "rows", then(drop(rowsOf("mysql-0", 2)),
			edit(rowsOf("mysql-0", 1), func(e *history.Event) { write(e).Sum ^= 1 })), fail, "damaged row"},
		{"too few inserts", "rows", drop(after(op(history.OpInsert, ok, "mysql-2", 0), 11)), unknown, "too few"},
		{"seq used twice", "rows", add(func(t *historytest.Trial) { t.Insert("mysql-0", 1, 1, ok, 20, 20.01) }),
			unknown, "two inserts"},
	}
}

func checksumMutations() []mutation {
	pass, fail, unknown := check.Pass, check.Fail, check.Unknown
	return []mutation{
		{"nothing changed", "checksums", nil, pass, ""},
		{"checksum differs after a fault", "checksums", editAll(after(checksum("mysql-1", "after-node-reboot"), 0),
			func(e *history.Event) {
				e.Checksum.Table64++
			}), fail, `mysql-1 table quiet changed between the checksums "between" (step 5)`},
		{"row hash differs alone", "checksums", edit(checksum("mysql-1", "settled"), func(e *history.Event) {
			e.Checksum.RowHash = strings.Repeat("a", 64)
		}), fail, "row hash"},
		{"row count differs", "checksums", edit(checksum("mysql-1", "settled"),
			func(e *history.Event) { e.Checksum.Rows = 999 }),
			fail, "1000 rows, then 999"},
		{"ledger changes after the end", "checksums", edit(after(checksum("mysql-2", "settled"), 72.7),
			func(e *history.Event) {
				e.Checksum.Table64++
			}), fail, "after the last client had stopped"},
		{"no checksum between two faults", "checksums", then(drop(checksum("mysql-2", "between")),
			drop(checksum("mysql-2", "never"))), unknown, "mysql-2 table quiet: there is no checksum"},
		{"checksum could not be taken", "checksums", edit(checksum("mysql-2", "between"), func(e *history.Event) {
			e.Checksum.Error = "gone"
		}), unknown, "could not be taken: gone"},
		{"a step without one", "checksums", drop(checksum("mysql-1", "scaled")), unknown,
			`mysql-1: the checksum "scaled" of step`},
		{"settled by a step alone", "checksums", then(edit(checksum("mysql-0", "settled"),
			func(e *history.Event) { e.Checksum.Step = 1 })), unknown, `the checksum "settled" is missing`},
		{"not filled", "checksums", drop(checksum("mysql-0", "filled")), unknown, `the checksum "filled" is missing`},
		{"not settled", "checksums", drop(checksum("mysql-0", "settled")), unknown,
			`the checksum "settled" is missing`},
		{"an instance without any", "checksums", drop(func(e *history.Event) bool {
			return e.Kind == history.KindChecksum && e.Checksum.Instance == "mysql-0"
		}), unknown, "mysql-0: no checksum"},
		{"fault not over", "checksums", drop(faultStage(3, history.StageConfirmedHealed)), unknown, "mean nothing"},
	}
}

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
		{"a table nobody looked at", "integrity", drop(table), unknown,
			"never looked over for damage, of mysql-1: table ledger"},
		{"the volume of a pod that was removed instead", "integrity", edit(volume, func(e *history.Event) {
			e.Inspection.Instance = "mysql-3"
		}), unknown, "of 2 volumes were looked over for damage"},
		{"an instance nobody looked at", "integrity",
			then(drop(table), drop(inspection("CHECK TABLE", "mysql-1", "quiet"))), unknown,
			"the tables of mysql-1 were never looked over"},
		{"nobody looked", "integrity", drop(kind(history.KindInspection)), unknown,
			"the tables of mysql-0, mysql-1, mysql-2 were never looked over"},
	}
}

func witnessMutations() []mutation {
	pass, fail, unknown := check.Pass, check.Fail, check.Unknown
	read := func(instance, label string) match {
		return func(e *history.Event) bool {
			return e.Kind == history.KindWitness && e.Witness.Instance == instance && e.Witness.Label == label
		}
	}
	last := read("mysql-1", history.FinalRead) // 27 entries of start-b, then 12 of start-c.
	entries := func(f func(all []history.WitnessEntry) []history.WitnessEntry) func([]history.Event) []history.Event {
		return onDisk(edit(last, func(e *history.Event) { e.Witness.Entries = f(e.Witness.Entries) }))
	}
	alter := func(f func(*history.Witness)) func([]history.Event) []history.Event {
		return onDisk(edit(last, func(e *history.Event) { f(e.Witness) }))
	}
	return []mutation{
		{"nothing changed", "witness", onDisk(nil), pass, ""},
		{"in turns", "witness", entries(func(all []history.WitnessEntry) []history.WitnessEntry {
			all[26], all[27] = all[27], all[26]
			return all
		}), fail, "The witness file of volume pvc-1 (mysql-1) was written by two in turns: entry 27 of start start-b"},
		{"at once", "witness", entries(func(all []history.WitnessEntry) []history.WitnessEntry {
			all[26].At = historytest.At(43)
			return all
		}), fail, "was written by two at once: start start-c made its first entry 2s before start start-b made"},
		{"an entry missing", "witness", entries(func(all []history.WitnessEntry) []history.WitnessEntry {
			return append(all[:5], all[6:]...)
		}), fail, "has a line too few or too many: entry 7 of start start-b on node worker2 comes where entry 6"},
		{"an entry twice", "witness", entries(func(all []history.WitnessEntry) []history.WitnessEntry {
			return append(all, all[len(all)-1])
		}), fail, "entry 12 of start start-c on node worker comes where entry 13"},
		{"torn", "witness", alter(func(w *history.Witness) { w.Torn = 2 }), fail, "has 2 torn lines"},
		{"not read", "witness", onDisk(drop(func(e *history.Event) bool {
			return e.Kind == history.KindWitness && e.Witness.Instance == "mysql-1"
		})), unknown, "the witness in the volume of mysql-1 was never read"},
		{"not read at the end", "witness", onDisk(drop(last)), unknown,
			"the witness in the volume of mysql-1 was never read at the end"},
		{"could not be read", "witness", alter(func(w *history.Witness) { w.Error = "no node" }), unknown, "no node"},
		{"nobody wrote", "witness", alter(func(w *history.Witness) { w.Entries = nil }), unknown,
			"nothing wrote to it"},
		{"none at all", "witness", onDisk(drop(kind(history.KindWitness))), unknown, "was never read"},

		{"nothing changed", "right-volume", onDisk(nil), pass, ""},
		{"another's volume", "right-volume", alter(func(w *history.Witness) { w.Volume = "disk-pvc-0" }), fail,
			"mysql-1 on node worker had volume pvc-1, and the identity in it was that of volume disk-pvc-0."},
		{"named by the PersistentVolume", "right-volume", alter(func(w *history.Witness) {
			w.Volume = "pvc-1"
		}), pass, ""},
		{"empty volume", "right-volume", alter(func(w *history.Witness) { w.Volume, w.Entries = "", nil }), fail,
			"there was no identity in it"},
		{"entries of another volume", "right-volume", alter(func(w *history.Witness) {
			w.Entries[30].Volume = "disk-pvc-0"
		}), fail, `made by a writer that believed itself on volume "disk-pvc-0"`},
		{"earlier entries gone", "right-volume", alter(func(w *history.Witness) { w.Entries = w.Entries[27:] }), fail,
			`entry 1 of start start-b on node worker2, which an earlier reading ("scaled") had found in it, was gone`},
		{"not read at the end", "right-volume", onDisk(drop(last)), unknown,
			"the witness in the volume of mysql-1 was never read at the end"},
		{"could not be read", "right-volume", alter(func(w *history.Witness) { w.Error = "no node" }), unknown,
			"no node"},
		{"volume not in the API", "right-volume", onDisk(drop(func(e *history.Event) bool {
			return e.Kind == history.KindObject && e.Object.Resource == "persistentvolumes"
		})), unknown, "was not seen with a volume handle"},
		{"none at all", "right-volume", onDisk(drop(kind(history.KindWitness))), unknown, "was never read"},
	}
}
