package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/explain"
	"github.com/seatrial/seatrial/e2e/world"
)

// faultTable puts a line for every planned fault: when it began, and how long each part of its life took.
func (s *story) faultTable(p *page) {
	var rows []row
	for _, l := range s.faults {
		rows = append(rows, s.faultRow(l))
	}
	if len(rows) == 0 {
		return
	}
	p.heading("FAULTS")
	p.table([]column{
		{"step", 0, true}, {"fault", 18, false}, {"node", 24, false}, {"victim", 14, false}, {"began", 0, true},
		{"injected", 0, true}, {"shown", 0, true}, {"held", 0, true}, {"healed", 0, true}, {"gone", 0, true},
	}, rows)
	p.text("  ", "injected, healed: time the act took; shown, gone: time until it was seen; held: from shown to heal")
}

func (s *story) faultRow(l world.Fault) row {
	missing := "-"
	if len(l.Failed) > 0 {
		missing = "FAILED"
	}
	first := func(sp history.Span) history.Time { return sp.NotBefore }
	last := func(sp history.Span) history.Time { return sp.NotAfter }
	type moment func(history.Span) history.Time
	took := func(begin moment, since history.FaultStage, end moment, until history.FaultStage) string {
		a, b := l.Facts[since], l.Facts[until]
		if a == nil || b == nil {
			return missing
		}
		return seconds(end(b.Span).Sub(begin(a.Span)))
	}
	began := missing
	if e := l.Facts[history.StageInjected]; e != nil {
		began = "+" + seconds(e.Span.NotBefore.Sub(s.start))
	}
	return row{cells: []string{
		fmt.Sprint(l.Step), l.Name, cmp.Or(l.Node, "-"), cmp.Or(l.Victim, "-"), began,
		took(first, history.StageInjected, last, history.StageInjected),
		took(last, history.StageInjected, last, history.StageConfirmed),
		took(last, history.StageConfirmed, first, history.StageHealed),
		took(first, history.StageHealed, last, history.StageHealed),
		took(last, history.StageHealed, last, history.StageConfirmedHealed),
	}}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

// volumes puts a line for every volume with the nodes that mounted it.
func (s *story) volumes(p *page) {
	if s.plan.Workload.External != nil {
		return // Which mount is of which volume is not known.
	}
	var rows []row
	for _, v := range s.world.Volumes().All {
		count := map[string]int{}
		for _, m := range v.Mounts {
			if m.Holder == "" {
				count[m.Node]++
			}
		}
		var nodes []string
		for _, node := range slices.Sorted(maps.Keys(count)) {
			nodes = append(nodes, fmt.Sprintf("%s %d", node, count[node]))
		}
		if len(nodes) > 0 {
			rows = append(rows, row{cells: []string{v.Name, strings.Join(nodes, ", "), strings.Join(v.Keys, ", ")}})
		}
	}
	if len(rows) == 0 {
		return
	}
	p.heading("VOLUMES")
	p.table([]column{{"volume", 48, false}, {"mounts by node", 30, false}, {"identity", 0, false}}, rows)
}

// tally is what was taken of one table of one instance.
type tally struct {
	errors, diffs, taken int
	first                *history.Checksum
	last                 *history.Checksum
	at                   history.Time
}

// checksums puts a line for every table of every instance, in the manner of pt-table-checksum.
func (s *story) checksums(p *page) {
	all := s.world.Tables()
	if len(all) == 0 {
		return
	}
	p.heading("CHECKSUMS")
	var rows []row
	for _, of := range all {
		t := tally{}
		for _, e := range of.Taken {
			t.add(e.Checksum, e.Span.NotAfter)
		}
		if !s.all && t.errors == 0 && t.diffs == 0 {
			continue
		}
		sum, hash, count := "-", "-", "-"
		if t.last != nil {
			sum, hash, count = fmt.Sprint(t.last.Table64), fmt.Sprintf("%.12s", t.last.RowHash), fmt.Sprint(t.last.Rows)
		}
		kind := "written"
		if of.Quiet {
			kind = "quiet"
		}
		rows = append(rows, row{cells: []string{s.clock(t.at), fmt.Sprint(t.errors), fmt.Sprint(t.diffs), count,
			fmt.Sprint(t.taken), sum, hash, kind, of.Instance + "." + of.Name}})
	}
	if same := len(all) - len(rows); same > 0 {
		p.text("  ", explain.Count(same, "table")+" of instances: no error and no difference between checksums; "+
			"--all lists them")
	}
	if len(rows) == 0 {
		return
	}
	p.table([]column{
		{"TS", 0, true}, {"ERRORS", 0, true}, {"DIFFS", 0, true}, {"ROWS", 0, true}, {"TAKEN", 0, true},
		{"CHECKSUM", 0, true}, {"ROW_HASH", 0, false}, {"KIND", 0, false}, {"TABLE", 0, false},
	}, rows)
}

func (t *tally) add(c *history.Checksum, at history.Time) {
	t.taken++
	t.at = at
	if c.Error != "" {
		t.errors++
		return
	}
	if t.first == nil {
		t.first = c
	}
	t.last = c
	if c.Table64 != t.first.Table64 || c.RowHash != t.first.RowHash || c.Rows != t.first.Rows {
		t.diffs++
	}
}

// counts returns how many checks failed and how many could not be shown.
func counts(r check.Report) (failures, unknowns int) {
	for _, res := range r.Results {
		switch res.Verdict {
		case check.Pass:
		case check.Fail:
			failures++
		default:
			unknowns++
		}
	}
	return failures, unknowns
}
