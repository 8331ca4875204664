package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check/isolation"
	"github.com/seatrial/seatrial/e2e/world"
)

// leastTxns is how many transactions of an instance must have committed: fewer hardly ever meet.
const leastTxns = 50

// Isolation judges what transactions on lists saw of each other, instance by instance. A transaction of unknown outcome
// counts as committed only if another one saw what it wrote.
//
// In a group a writer that was frozen may answer reads from before it was replaced. There only the final readers are
// held to have begun after others had ended.
func Isolation() Check {
	return Check{
		Name: "isolation",
		When: Continuous,
		Promise: "Transactions see of each other what their isolation level allows, and every later one sees what " +
			"was committed.",
		Source: "Adya, Weak Consistency (1999); Kingsbury and Alvaro, Elle (VLDB 2021); MySQL Reference Manual, " +
			"Transaction Isolation Levels and Consistent Nonlocking Reads; with both logs synced at each commit, a " +
			"crash loses no commit",
		Unit:    "transactions that committed",
		Applies: func(p plan.Plan) bool { return p.Workload.Transactions > 0 },
		judge:   judgeIsolation,
	}
}

func judgeIsolation(r *ruling) {
	txns, events, odd := map[string][]isolation.Txn{}, map[string][]*history.Event{}, map[string]bool{}
	grouped, all, audit := r.trial.Plan.Workload.Grouped(), r.txns(history.OnLists), world.Forever
	for _, t := range all {
		if readWhole(t.event) {
			audit = min(audit, t.span.NotBefore)
		}
	}
	if grouped {
		r.Promise = "Transactions see of each other what their isolation level allows, and the final readers see " +
			"what was committed."
	}
	for _, t := range all {
		level, known := isolation.ParseLevel(t.Level)
		if !known {
			r.unknown("%s has the isolation level %q, which is not known", txnName(t.event), t.Level)
			odd[t.instance] = true
		}
		begin := t.span.NotBefore
		switch {
		case !grouped:
		case readWhole(t.event):
			begin = audit // Final readers are not held to what another one found.
		default:
			begin = 0
		}
		txns[t.instance] = append(txns[t.instance], isolation.Txn{Level: level, Outcome: t.outcome, Begin: begin,
			End: t.span.NotAfter, Ops: t.Ops})
		events[t.instance] = append(events[t.instance], t.event)
	}
	if r.trial.Plan.Workload.TopologyName() == plan.TopologySemiSync {
		if r.fellBack() {
			r.unknown("semi-synchronous replication had fallen back: nothing is promised of what was committed then")
			return
		}
		if r.reopened() {
			r.unknown("a primary began again and was replaced later: what it had not acknowledged may have been read")
			return
		}
	}
	excuse := ""
	switch semiSync := r.trial.Plan.Workload.TopologyName() == plan.TopologySemiSync; {
	case r.seenEarly():
		excuse = "with AFTER_COMMIT others see what a failover loses"
	case semiSync && r.unwatched():
		excuse = "whether each commit of a primary that was replaced had waited for replicas was not seen"
	}
	for _, instance := range r.trial.Written(r.trial.Finally()) {
		if txns[instance] == nil {
			r.unknown("no transaction of %s was recorded", instance)
		}
	}
	for _, name := range r.trial.Instances(r.trial.Finally()) { // Of a late one r.txns says so.
		if !slices.ContainsFunc(r.world.Operations(), func(op world.Operation) bool {
			e := op.Answer
			return e != nil && e.Op.Txn != nil && e.Op.Txn.On == history.OnLists && readWhole(e) &&
				cmp.Or(e.Op.By, e.Op.Instance) == name
		}) {
			r.unknown("the lists of %s were not read in the end: what was lost after the last read does not show", name)
		}
	}
	for _, instance := range keys(txns) {
		if odd[instance] {
			continue
		}
		r.isolated(instance, txns[instance], events[instance], excuse)
	}
}

// seenEarly reports whether a semi-synchronous primary was seen to show others what no replica had yet, and was
// replaced later: what they have read and is lost is documented.
func (r *ruling) seenEarly() bool {
	early := false
	return slices.ContainsFunc(r.world.Of(history.KindMember, history.KindPromotion), func(e *history.Event) bool {
		if p := e.Promotion; p != nil {
			return early && p.Act == history.ActPromote && p.Error == ""
		}
		early = early || e.Member.Writable && e.Member.WaitPoint == "AFTER_COMMIT"
		return false
	})
}

// isolated judges the transactions of one instance. With an excuse, what they did may be lost.
func (r *ruling) isolated(instance string, txns []isolation.Txn, events []*history.Event, excuse string) {
	found, err := isolation.Judge(txns)
	if err != nil {
		r.unknown("the transactions of %s cannot be judged: %v", instance, err)
		return
	}
	r.evidence += found.Judged
	r.subjects[instance] = true
	if found.Judged < leastTxns {
		r.unknown("%d transactions of %s committed, want %d", found.Judged, instance, leastTxns)
	}
	r.unlisted += found.Left
	name := func(i int) string { return txnName(events[i]) }
	for _, a := range found.Anomalies {
		if excuse != "" {
			r.unknown("%s: %s broke %s, %s", excuse, instance, a.Level, a.Words(name))
			continue
		}
		first := events[a.Cycle[0].Txn]
		f := Finding{Subject: instance + " " + a.Kind, Span: first.Span}
		for _, step := range a.Cycle {
			f.Span, f.Events = hull(f.Span, events[step.Txn].Span), append(f.Events, events[step.Txn].ID)
		}
		r.violation(f, "%s broke %s, %s", instance, a.Level, a.Words(name))
	}
	r.note("%s: %s committed, %s", instance, plan.Count(found.Judged, "transaction"), plan.Count(found.Reads, "read"))
}

// readWhole reports whether a transaction is the read of all lists in the end.
func readWhole(e *history.Event) bool {
	return e.Op.Client == history.Auditor && e.Op.Stage == history.StageOK
}

// txnName names a transaction by its client.
func txnName(e *history.Event) string {
	if e.Op.Client == history.Auditor {
		return "the final reader" + plan.Given(" of %s", e.Op.By)
	}
	return fmt.Sprintf("transaction %d of client %d", e.Op.Seq, e.Op.Client)
}
