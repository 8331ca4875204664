package check_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// damaged is a trial of one step that may flip a page of mysql-1, with the inspections after it.
func damaged(shown bool, said ...history.Inspection) history.History {
	p := historytest.SmokePlan()
	p.Steps = []plan.Step{{N: 1, Do: plan.ActionFault, Bound: plan.Duration(time.Minute), Fault: &plan.Fault{
		Name: "page-flip", Ordinal: 1, Hold: plan.Duration(time.Second),
		Params: plan.Params{"file": "data/seatrial/quiet.ibd"},
	}}}
	t := historytest.New(p)
	if shown {
		t.Fault(1, "page-flip", "worker", "mysql-1", historytest.FaultTimes{
			Intent: 21, Injected: 21.1, InjectedEnd: 21.2, Confirmed: 22, Healed: 24, HealedEnd: 24.5, Over: 26,
		})
	}
	for i := range said {
		t.Add(history.Event{Kind: history.KindInspection, Source: "ledger",
			Span: history.Between(historytest.At(40), historytest.At(41)), Inspection: &said[i]})
	}
	t.Done(50)
	return t.History()
}

// TestDamageOnPurposeMustBeFound demands that the checks of data find deliberate damage in the instance that has it.
func TestDamageOnPurposeMustBeFound(t *testing.T) {
	log := history.Inspection{Tool: "mysqld's error log", Instance: "mysql-1", Messages: []string{"MY-011906 page 4"}}
	other, clean, table := log, log, log
	other.Instance = "mysql-0"
	clean.Clean, clean.Messages = true, nil
	table.Tool, table.Table = "CHECK TABLE", "quiet"
	for name, c := range map[string]struct {
		history history.History
		verdict check.Verdict
		reason  string
	}{
		"its log says so":         {damaged(true, clean, log), check.Pass, ""},
		"its table is found":      {damaged(true, table), check.Pass, ""},
		"all is said to be clean": {damaged(true, clean), check.Unknown, "neither checksums nor integrity nor rows"},
		"another's is found":      {damaged(true, other, clean), check.Unknown, "of mysql-1, and neither"},
		"nobody looked":           {damaged(true), check.Unknown, "damaged file data/seatrial/quiet.ibd of mysql-1"},
		"nothing was damaged":     {damaged(false, log), check.Unknown, "never shown to have damaged anything"},
		"no plan":                 {history.History{}, check.Unknown, "plan"},
	} {
		r := check.Run(c.history, []check.Check{check.Damage()}).Results
		if len(r) != 1 || r[0].Verdict != c.verdict || !strings.Contains(strings.Join(r[0].Reasons, "\n"), c.reason) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := check.Run(historytest.Smoke().History(), []check.Check{check.Damage()}); len(r.Results) > 0 {
		t.Errorf("it judges a trial without damage: %+v", r)
	}
}

// TestEachDamageMustBeFound damages two files of one instance: what is found in one does not count for the other.
func TestEachDamageMustBeFound(t *testing.T) {
	p := historytest.SmokePlan()
	p.Steps = nil
	for i, file := range []string{"data/seatrial/quiet.ibd", "data/binlog.000001"} {
		p.Steps = append(p.Steps, plan.Step{N: i + 1, Do: plan.ActionFault, Bound: plan.Duration(time.Minute),
			Fault: &plan.Fault{Name: "page-flip", Ordinal: 1, Hold: plan.Duration(time.Second),
				Params: plan.Params{"file": file}}})
	}
	judge := func(said ...history.Inspection) check.Result {
		tr := historytest.New(p)
		for i := range p.Steps {
			at := 21 + 10*float64(i)
			tr.Fault(i+1, "page-flip", "worker", "mysql-1", historytest.FaultTimes{Intent: at, Injected: at + 0.1,
				InjectedEnd: at + 0.2, Confirmed: at + 1, Healed: at + 3, HealedEnd: at + 3.5, Over: at + 5})
		}
		for i := range said {
			said[i].Instance, said[i].Messages = "mysql-1", []string{"damage"}
			tr.Add(history.Event{Kind: history.KindInspection,
				Span: history.Between(historytest.At(50), historytest.At(51)), Inspection: &said[i]})
		}
		tr.Done(60)
		return result(t, tr.History(), "damage")
	}
	table := history.Inspection{Tool: "CHECK TABLE", Table: "quiet"}
	expect(t, judge(table), check.Unknown, "damaged file data/binlog.000001 of mysql-1, and neither")
	expect(t, judge(table, history.Inspection{Tool: "mysqld's error log"}), check.Pass, "")
}

// TestAServersOwnWordsAreAFinding demands a finding that names the instance; it does not replace CHECK TABLE.
func TestAServersOwnWordsAreAFinding(t *testing.T) {
	h := damaged(true, history.Inspection{
		Tool: "mysqld's error log", Instance: "mysql-1", Messages: []string{"MY-011906 Database page corruption."}})
	r := check.Run(h, []check.Check{check.Integrity()}).Results[0]
	want := "mysqld's error log found damage in the data of mysql-1: MY-011906 Database page corruption."
	if r.Verdict != check.Fail || len(r.Findings) != 1 || r.Findings[0].Sentence != want ||
		!slices.Contains(r.Findings[0].Faults, "step 1 page-flip") {
		t.Errorf("%+v", r)
	}
	if !strings.Contains(strings.Join(r.Reasons, "\n"), "the tables of mysql-0, mysql-1") {
		t.Errorf("reasons %q", r.Reasons)
	}
}
