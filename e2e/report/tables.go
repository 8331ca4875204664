package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
)

// faults puts a line for every planned fault: when it began, and how long each part of its life took.
func (s *story) faults(p *page) {
	var rows []row
	for _, st := range s.plan.AllSteps() {
		if st.Do != plan.ActionFault || st.Fault == nil {
			continue
		}
		rows = append(rows, s.faultRow(st))
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

func (s *story) faultRow(st plan.Step) row {
	at := map[history.FaultStage]history.Span{}
	node, victim := "-", "-"
	failed := false
	for i := range s.history.Events {
		e := &s.history.Events[i]
		if e.Kind != history.KindFault || e.Fault == nil || e.Fault.Step != st.N {
			continue
		}
		at[e.Fault.Stage] = e.Span
		node, victim = cmp.Or(e.Fault.Node, node), cmp.Or(e.Fault.Victim, victim)
		failed = failed || e.Fault.Stage == history.StageFaultFailed
	}
	missing := "-"
	if failed {
		missing = "FAILED"
	}
	took := func(stage history.FaultStage, from func(history.Span) history.Time, since history.FaultStage) string {
		end, ok := at[stage]
		begin, also := at[since]
		if !ok || !also {
			return missing
		}
		return seconds(end.NotAfter.Sub(from(begin)))
	}
	first := func(sp history.Span) history.Time { return sp.NotBefore }
	last := func(sp history.Span) history.Time { return sp.NotAfter }
	began, held := missing, missing
	if sp, ok := at[history.StageInjected]; ok {
		began = "+" + seconds(sp.NotBefore.Sub(s.start))
	}
	shown, heals := at[history.StageConfirmed], at[history.StageHealed]
	if shown.NotAfter != 0 && heals.NotAfter != 0 {
		held = seconds(heals.NotBefore.Sub(shown.NotAfter))
	}
	return row{cells: []string{
		fmt.Sprint(st.N), st.Fault.Name, node, victim, began,
		took(history.StageInjected, first, history.StageInjected),
		took(history.StageConfirmed, last, history.StageInjected),
		held,
		took(history.StageHealed, first, history.StageHealed),
		took(history.StageConfirmedHealed, last, history.StageHealed),
	}}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

// volumes puts a line for every volume with the nodes that mounted it.
func (s *story) volumes(p *page) {
	names := map[string]string{}
	mounts := map[string]map[string]int{} // By identity and node.
	for i := range s.history.Events {
		e := &s.history.Events[i]
		switch {
		case e.Volume != nil && e.Volume.Identity.Key() != "":
			names[e.Volume.Identity.Key()] = e.Volume.PV
		case e.Mount != nil && e.Mount.Action != history.MountDetach:
			key := e.Mount.Identity.Key()
			if kv, ok := history.ParseKubeletPath(e.Mount.Path); ok && names[key] == "" &&
				strings.Contains(kv.Plugin, "csi") {
				names[key] = kv.Name
			}
			if mounts[key] == nil {
				mounts[key] = map[string]int{}
			}
			mounts[key][e.Mount.Node]++
		}
	}
	var rows []row
	for _, key := range slices.SortedFunc(maps.Keys(mounts), func(a, b string) int {
		return cmp.Or(cmp.Compare(names[a], names[b]), cmp.Compare(a, b))
	}) {
		if names[key] == "" {
			continue
		}
		var nodes []string
		for _, node := range slices.Sorted(maps.Keys(mounts[key])) {
			nodes = append(nodes, fmt.Sprintf("%s %d", node, mounts[key][node]))
		}
		rows = append(rows, row{cells: []string{names[key], strings.Join(nodes, ", "), key}})
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
	type table struct {
		instance, name string
		quiet          bool
	}
	all := map[table]*tally{}
	for i := range s.history.Events {
		e := &s.history.Events[i]
		if e.Kind != history.KindChecksum || e.Checksum == nil {
			continue
		}
		c := e.Checksum
		key := table{c.Instance, c.Table, c.Quiet}
		if all[key] == nil {
			all[key] = &tally{}
		}
		all[key].add(c, e.Span.NotAfter)
	}
	if len(all) == 0 {
		return
	}
	p.heading("CHECKSUMS")
	var rows []row
	for _, key := range slices.SortedFunc(maps.Keys(all), func(a, b table) int {
		return cmp.Or(cmp.Compare(a.instance, b.instance), cmp.Compare(a.name, b.name), boolOrder(a.quiet, b.quiet))
	}) {
		t := all[key]
		if !s.all && t.errors == 0 && t.diffs == 0 {
			continue
		}
		sum, hash, count := "-", "-", "-"
		if t.last != nil {
			sum, hash, count = fmt.Sprint(t.last.Table64), fmt.Sprintf("%.12s",
				t.last.RowHash), fmt.Sprint(t.last.Rows)
		}
		kind := "written"
		if key.quiet {
			kind = "quiet"
		}
		r := row{cells: []string{s.clock(t.at), fmt.Sprint(t.errors), fmt.Sprint(t.diffs), count,
			fmt.Sprint(t.taken), sum, hash,
			kind, key.instance + "." + key.name}}
		rows = append(rows, r)
	}
	if same := len(all) - len(rows); same > 0 {
		p.text(
			"  ",
			number(same, "table")+" of instances: no error and no difference between checksums; --all lists them",
		)
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

func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
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
