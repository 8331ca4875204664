package check_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// verified is the smoke trial with every data file verified on disk, after servers that ended with an exit code.
func verified(exitCode int) []history.Event {
	t := historytest.Smoke()
	h := t.History()
	for i := range h.Events {
		if e := &h.Events[i]; e.Kind == history.KindPlan {
			var p plan.Plan
			if err := json.Unmarshal(e.Plan, &p); err != nil {
				panic(err)
			}
			p.DataFiles = true
			raw, err := json.Marshal(p)
			if err != nil {
				panic(err)
			}
			e.Plan = raw
		}
	}
	events, last := h.Events, h.Events[len(h.Events)-1]
	add := func(e history.Event) {
		e.ID, e.Span = int64(len(events)+1), last.Span
		events = append(events, e)
	}
	for k := range 3 {
		name := fmt.Sprintf("mysql-%d", k)
		add(history.Event{Kind: history.KindObject, Object: &history.Object{
			Resource: "pods", Name: name, UID: t.PodUID(name), ResourceVersion: "999999", Verb: history.VerbDeleted,
			Raw: fmt.Appendf(nil,
				`{"status":{"containerStatuses":[{"state":{"terminated":{"exitCode":%d}}}]}}`, exitCode),
		}})
		for _, file := range []string{
			"ibdata1", "mysql.ibd", "undo_001", "undo_002", "seatrial/quiet.ibd", "seatrial/ledger.ibd",
			"#ib_16384_0.dblwr", "binlog.000001",
		} {
			in := history.Inspection{Tool: "page-verifier", Instance: name, File: "data/data/" + file, Pages: 640,
				PV: fmt.Sprintf("local-%d", k), Node: "worker", Clean: true}
			if strings.HasPrefix(file, "binlog") {
				in.Tool, in.Pages = "binlog-verifier", 0
			}
			add(history.Event{Kind: history.KindInspection, Source: "localpv", Inspection: &in})
		}
		add(history.Event{Kind: history.KindInspection, Source: "trial", Inspection: &history.Inspection{
			Tool: "mysqld's error log", Instance: name, Clean: true}})
	}
	return events
}

func file(instance, name string) func(*history.Event) bool {
	return func(e *history.Event) bool {
		return e.Kind == history.KindInspection && e.Inspection.Instance == instance &&
			strings.HasSuffix(e.Inspection.File, "/"+name)
	}
}

func TestIntegrityOfDataFiles(t *testing.T) {
	damaged := func(e *history.Event) {
		e.Inspection.Clean, e.Inspection.Messages = false, []string{"page 5 has a wrong checksum"}
	}
	quiet := file("mysql-1", "quiet.ibd")
	for _, tc := range []struct {
		name     string
		exitCode int
		change   func([]history.Event) []history.Event
		want     check.Verdict
		says     string
	}{
		{"all whole", 0, nil, check.Pass, ""},
		{"all whole, not ended in order", 137, nil, check.Pass, ""},
		{"a page", 0, edit(quiet, damaged), check.Fail,
			"page-verifier found damage in file data/data/seatrial/quiet.ibd " +
				"of mysql-1: page 5 has a wrong checksum."},
		{"a page, not ended in order", 137, edit(quiet, damaged), check.Unknown,
			"its server was not seen to end in order"},
		{"a page, end not seen", 0, then(edit(quiet, damaged), drop(func(e *history.Event) bool {
			return e.Kind == history.KindObject && strings.Contains(string(e.Object.Raw), "terminated")
		})), check.Unknown, "its server was not seen to end in order"},
		{"a binary log", 0, edit(file("mysql-0", "binlog.000001"), func(e *history.Event) {
			e.Inspection.Clean, e.Inspection.Messages = false, []string{"Event crc check failed"}
		}), check.Fail,
			"binlog-verifier found damage in file data/data/binlog.000001 of mysql-0: Event crc check failed."},
		{"a copy of a page", 0, edit(file("mysql-0", "#ib_16384_0.dblwr"), damaged), check.Fail,
			"page-verifier found damage in file data/data/#ib_16384_0.dblwr of mysql-0: page 5 has a wrong checksum."},
		{"a copy of a page, not ended in order", 137, edit(file("mysql-0", "#ib_16384_0.dblwr"), damaged), check.Pass,
			"file data/data/#ib_16384_0.dblwr of mysql-0: page 5 has a wrong checksum; a write that was cut short"},
		{"a copy of a page, killed before", 0, then(edit(file("mysql-0", "#ib_16384_0.dblwr"), damaged),
			editAll(func(e *history.Event) bool { return e.Kind == history.KindObject && e.Object.Name == "mysql-0" },
				func(e *history.Event) {
					e.Object.Raw = bytes.ReplaceAll(e.Object.Raw, []byte(`{"state":{"terminated"`),
						[]byte(`{"restartCount":1,"state":{"terminated"`))
				})), check.Pass, "a write that was cut short"},
		{"copies not looked at", 0, drop(file("mysql-1", "#ib_16384_0.dblwr")), check.Unknown,
			"not verified on disk, of mysql-1: #ib_*.dblwr"},
		{"no copies looked at", 0, drop(func(e *history.Event) bool {
			return e.Kind == history.KindInspection && strings.HasSuffix(e.Inspection.File, ".dblwr")
		}), check.Pass, ""},
		{"one file not looked at", 0, drop(quiet), check.Unknown, "not verified on disk, of mysql-1: quiet.ibd"},
		{"one undo log of two", 0, drop(file("mysql-1", "undo_002")), check.Unknown,
			"not verified on disk, of mysql-1: undo_002"},
		{"an error log not looked at", 0, drop(inspection("mysqld's error log", "mysql-1", "")), check.Unknown,
			"never looked over for damage, of mysql-1: the error log"},
		{"a table not looked at", 0, drop(inspection("CHECK TABLE", "mysql-1", "ledger")), check.Unknown,
			"never looked over for damage, of mysql-1: table ledger"},
		{"complaints in an error log", 0, edit(inspection("mysqld's error log", "mysql-1", ""), damaged), check.Fail,
			"mysqld's error log found damage in the data of mysql-1"},
		{"the volume of a pod that was removed instead", 0, edit(inspection("e2fsck", "local-1", ""),
			func(e *history.Event) { e.Inspection.Instance = "mysql-3" }), check.Unknown,
			"the file systems of 2 volumes were looked over for damage, the workload has 3"},
		{"an instance not looked at", 0, drop(func(e *history.Event) bool {
			return e.Kind == history.KindInspection && e.Inspection.File != "" && e.Inspection.Instance == "mysql-2"
		}), check.Unknown,
			"not verified on disk, of mysql-2: ibdata1, mysql.ibd, undo_*, quiet.ibd, ledger.ibd, binlog.*"},
		{"files of another instance instead", 0, edit(quiet, func(e *history.Event) {
			e.Inspection.Instance = "mysql-0"
		}), check.Unknown, "not verified on disk, of mysql-1: quiet.ibd"},
		{"a file that could not be looked at", 0, edit(quiet, func(e *history.Event) {
			e.Inspection.Clean, e.Inspection.Error = false, "it took longer than 2m0s"
		}), check.Unknown, "file data/data/seatrial/quiet.ibd of mysql-1 could not be looked over for damage: it took"},
		{"a volume that could not be mounted", 0, then(drop(func(e *history.Event) bool {
			return e.Kind == history.KindInspection && e.Inspection.File != "" && e.Inspection.Instance == "mysql-2"
		}), edit(inspection("e2fsck", "local-2", ""), func(e *history.Event) {
			e.Inspection.Tool, e.Inspection.Instance = "page-verifier", "mysql-2"
			e.Inspection.Clean, e.Inspection.Error = false, "no ctr"
		})), check.Unknown, "the data files of mysql-2 could not be looked over for damage: no ctr"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			events := verified(tc.exitCode)
			if tc.change != nil {
				events = tc.change(events)
			}
			r := check.Run(history.History{Events: events}, []check.Check{check.Integrity()}).Results[0]
			said := slices.Clone(r.Reasons)
			for _, f := range r.Findings {
				said = append(said, f.Sentence)
			}
			if tc.want == check.Pass && len(said) == 0 {
				said = r.Notes
			}
			if r.Verdict != tc.want || !strings.Contains(strings.Join(said, "\n"), tc.says) ||
				tc.want == check.Pass && len(said) > 0 && tc.says == "" {
				t.Errorf("%s: %q; want %s and %q", r.Verdict, said, tc.want, tc.says)
			}
			if !strings.Contains(r.Promise, "none that is in use is empty") {
				t.Errorf("promise %q", r.Promise)
			}
		})
	}
}

// A trial recorded before data files were verified promises only what was inspected then.
func TestIntegrityWithoutDataFiles(t *testing.T) {
	r := check.Run(historytest.Smoke().History(), []check.Check{check.Integrity()}).Results[0]
	if r.Verdict != check.Pass || r.Promise != "No table and no file system is damaged." {
		t.Errorf("%s: %q, %q", r.Verdict, r.Promise, r.Reasons)
	}
}
