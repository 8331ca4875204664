package check

import (
	"fmt"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// waitedEnough is how many seconds a replica that lacks transactions must have been waited for to be blamed: on a busy
// machine it may be late for a while.
const waitedEnough = 55

// InSync judges whether the instances of a group are the same once the clients have stopped and each was waited for:
// by their transactions, and by the rows of their tables, since a replica can skip a transaction and count it.
func InSync() Check {
	return Check{
		Name: "in-sync",
		When: End,
		Promise: "In the end every instance of the group has every transaction of the writer, and tables with the " +
			"same rows.",
		Source:  "MySQL Reference Manual, Replication; WAIT_FOR_EXECUTED_GTID_SET, and a hash of the rows",
		Unit:    "tables compared with the writer's",
		Applies: grouped,
		judge:   judgeInSync,
	}
}

func judgeInSync(r *ruling) {
	g := r.finalGroup()
	if g.writer == "" {
		return
	}
	sums := map[string]map[string]*history.Event{} // By instance and table.
	for _, t := range r.world.Tables() {
		if e := settled(t); e != nil {
			if sums[t.Instance] == nil {
				sums[t.Instance] = map[string]*history.Event{}
			}
			sums[t.Instance][t.Name] = e
		}
	}
	own, tables := sums[g.writer], []string{}
	for _, name := range keys(g.has) {
		tables = append(tables, keys(sums[name])...)
	}
	slices.Sort(tables)
	tables = slices.Compact(tables)
	written := func(name string) bool { return !own[name].Checksum.Quiet }
	switch {
	case len(own) == 0:
		r.unknown("no checksum of the tables of %s, the writer, was taken in the end", g.writer)
	case !slices.ContainsFunc(keys(own), written):
		r.unknown("no checksum of a table that clients write to was taken of %s, the writer, in the end", g.writer)
	}
	for _, name := range keys(g.has) {
		if name == g.writer {
			continue
		}
		fact := g.facts[name]
		missing := g.has[g.writer].Without(g.has[name])
		if len(missing) > 0 && fact.Member.Waited < waitedEnough {
			r.unknown("%s lacked %s when it was waited for no longer than %.0f s", name, missing, fact.Member.Waited)
			continue
		}
		if len(missing) > 0 && r.leftSet(name) {
			r.unknown("%s lacked %s, and may be slow: the steps broke off between two programs that were to run "+
				"there", name, missing)
			continue
		}
		if len(missing) > 0 {
			r.violation(Finding{Subject: name, Span: fact.Span, Events: []int64{fact.ID, g.facts[g.writer].ID}},
				"%s lacks transactions of %s, the writer, %.0f s after the clients had stopped: %s.", name, g.writer,
				fact.Member.Waited, missing)
			continue
		}
		for _, table := range tables {
			theirs := sums[name][table]
			if theirs == nil || own[table] == nil {
				r.unknown("%s table %s: no checksum was taken in the end, there or on %s", name, table, g.writer)
				continue
			}
			why := differs(own[table].Checksum, theirs.Checksum)
			if why != "" && fact.Member.Executed == "" && fact.Member.Waited < waitedEnough {
				r.unknown("%s had other rows in table %s when it was waited for no longer than %.0f s", name, table,
					fact.Member.Waited)
				continue
			}
			// A commit whose client has given up may wait for a replica until now.
			late := r.executedAfter(g.writer, g.facts[g.writer].Span).Without(g.has[g.writer])
			if why != "" && len(late) > 0 {
				r.unknown("%s has other rows in table %s than %s, the writer, and there were transactions while they "+
					"were summed up: %s", name, table, g.writer, late)
				continue
			}
			r.evidence++
			if why != "" {
				has := ", though it has all its transactions"
				if fact.Member.Executed == "" {
					has = fmt.Sprintf(", %.0f s after the clients had stopped", fact.Member.Waited)
				}
				r.violation(Finding{Subject: name + " table " + table,
					Span: hull(own[table].Span, theirs.Span), Events: []int64{own[table].ID, theirs.ID}},
					"%s has other rows in table %s than %s, the writer%s: %s.", name, table, g.writer, has, why)
			}
		}
	}
}

// settled returns the last checksum of a table that was taken after the clients had stopped, nil if there is none.
func settled(t *world.Table) (last *history.Event) {
	for _, e := range t.Taken {
		if e.Checksum.Error == "" && isOwn(e.Checksum, labelSettled) {
			last = e
		}
	}
	return last
}

// leftSet reports whether a program was run in an instance, and one that was to be run there later, which may have been
// to set back what the first one had set, was not, since the steps of the plan broke off.
func (r *ruling) leftSet(instance string) bool {
	set := false
	return slices.ContainsFunc(r.trial.Plan.AllSteps(), func(s plan.Step) bool {
		if s.Exec == nil || fmt.Sprintf("%s-%d", r.trial.Plan.Workload.StatefulSet, s.Exec.Ordinal) != instance {
			return false
		}
		ran := r.world.StepPhase(s.N).Begin != nil
		set = set || ran
		return set && !ran
	})
}
