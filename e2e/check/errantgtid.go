package check

import "github.com/seatrial/seatrial/chaos/history"

// ErrantGTID judges the transactions of each instance against those of the writer, once the clients have stopped.
func ErrantGTID() Check {
	return Check{
		Name:    "errant-gtid",
		When:    End,
		Promise: "In the end no instance of the group has a transaction that the writer does not have.",
		Source: "MySQL Reference Manual, GTID_SUBSET: a replica with transactions of its own cannot take the " +
			"writer's place without passing them on",
		Unit:    "instances compared with the writer",
		Applies: grouped,
		Lacks:   uncounted,
		judge: func(r *ruling) {
			g := r.finalGroup()
			if g.writer == "" {
				return
			}
			for _, name := range keys(g.has) {
				if name == g.writer {
					continue
				}
				r.evidence++
				e := g.facts[name]
				extra := g.has[name].Without(g.has[g.writer]).Without(r.executedAfter(g.writer, e.Span))
				if len(extra) == 0 {
					continue
				}
				r.violation(Finding{Subject: name, Span: history.At(e.Span.NotAfter),
					Events: []int64{e.ID, g.facts[g.writer].ID}, Faults: r.trial.FaultsUntil(e.Span.NotAfter)},
					"%s has transactions that %s, the writer, does not have: %s.", name, g.writer, extra)
			}
		},
	}
}

// executedAfter returns what an instance was seen to have after a time: somebody else may write to the database too.
func (r *ruling) executedAfter(instance string, span history.Span) history.GTIDs {
	all := history.GTIDs{}
	for _, e := range r.world.Of(history.KindMember) {
		if e.Member.Instance != instance || e.Member.Error != "" || !span.CertainlyBefore(e.Span) {
			continue
		}
		if set, err := history.ParseGTIDs(e.Member.Executed); err == nil {
			all = all.With(set)
		}
	}
	return all
}
