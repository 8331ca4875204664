package check

import (
	"fmt"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check/isolation"
)

// mostUnsure is how many transfers of unknown outcome an instance may have: each doubles the ends there can be.
const mostUnsure = 20

// Balances judges transfers of money, instance by instance: no reader of all accounts may find more or less of it than
// there is, and the end must be made of whole transfers.
func Balances() Check {
	return Check{
		Name: "balances",
		When: Continuous,
		Promise: "Whoever reads all accounts finds all the money, and in the end every acknowledged transfer has " +
			"been made, each of unknown outcome wholly or not at all, and no other.",
		Source: "MySQL Reference Manual, InnoDB and the ACID Model, and Consistent Nonlocking Reads: a statement " +
			"reads one snapshot from READ COMMITTED on, a transaction from REPEATABLE READ on",
		Unit:    "readings of all accounts",
		Applies: func(p plan.Plan) bool { return p.Workload.Transfers > 0 },
		judge:   judgeBalances,
	}
}

// holdings is what each account of an instance holds.
type holdings [history.Accounts]int64

func (h *holdings) add(ops []history.Access) {
	for _, a := range ops {
		if a.Key >= 0 && a.Key < history.Accounts {
			h[a.Key] += a.Value
		}
	}
}

func judgeBalances(r *ruling) {
	if r.trial.Plan.Workload.TopologyName() == plan.TopologyAsync {
		r.Promise = "Whoever reads all accounts finds all the money; of what was acknowledged nothing is promised."
	}
	made, open := map[string]*holdings{}, map[string][]txn{}
	readings, txns := map[string]int{}, r.txns(history.OnAccounts)
	for _, t := range txns {
		if made[t.instance] == nil {
			made[t.instance] = &holdings{}
			for k := range made[t.instance] {
				made[t.instance][k] = history.Opening
			}
		}
		switch writes := slices.ContainsFunc(t.Ops, func(a history.Access) bool { return a.Write }); {
		case writes && t.outcome == history.StageOK:
			made[t.instance].add(t.Ops)
		case writes && t.outcome != history.StageFailed:
			open[t.instance] = append(open[t.instance], t)
		}
	}
	for _, t := range txns {
		level, known := isolation.ParseLevel(t.Level)
		least := isolation.RepeatableRead
		if t.Auto {
			least = isolation.ReadCommitted
		}
		reads := !slices.ContainsFunc(t.Ops, func(a history.Access) bool { return a.Write })
		if !reads || t.outcome != history.StageOK || !known || level < least {
			continue
		}
		auditor := t.event.Op.Client == history.Auditor
		none := !slices.ContainsFunc(t.Ops, func(a history.Access) bool { return len(a.Read) > 0 })
		if none && !auditor && r.trial.Plan.Workload.Grouped() {
			continue // The instance had not got any yet.
		}
		if !auditor {
			readings[t.by()]++
		}
		found, ok := r.found(t)
		if ok && auditor {
			r.ended(t, found, *made[t.instance], open[t.instance])
		}
	}
	least := leastReads
	if r.trial.Plan.Workload.Grouped() {
		least = leastShared
	}
	r.enough("readings of all accounts", least, readings, txns, "accounts")
}

// found returns what a reading found, and whether it is all that there is.
func (r *ruling) found(t txn) (h holdings, ok bool) {
	var sum int64
	wrong := ""
	for _, a := range t.Ops {
		switch {
		case a.Key < 0 || a.Key >= history.Accounts:
			wrong = fmt.Sprintf("found account %d, which nobody opened", a.Key)
		case len(a.Read) != 1:
			wrong = fmt.Sprintf("did not find account %d", a.Key)
		default:
			h[a.Key] = a.Read[0]
			sum += a.Read[0]
		}
	}
	const all = history.Accounts * history.Opening
	if wrong == "" && sum != all {
		wrong = fmt.Sprintf("found %d in all accounts together, and there are %d", sum, all)
	}
	if wrong == "" {
		return h, true
	}
	if !r.first("reading", t.by(), wrong) {
		r.unlisted++
		return h, false
	}
	r.violation(Finding{Subject: t.by() + " accounts", Span: t.span, Events: []int64{t.event.ID}},
		"%s, at %s, %s (%s).", txnName(t.event), t.Level, wrong, t.by())
	return h, false
}

// ended judges what the accounts hold in the end. Of a group that need not keep what it acknowledged, nothing is
// demanded.
func (r *ruling) ended(last txn, found, made holdings, open []txn) {
	topology := r.trial.Plan.Workload.TopologyName()
	if found == made || topology == plan.TopologyAsync {
		return
	}
	if len(open) > mostUnsure {
		r.unknown("%s has %d transfers of unknown outcome: with more than %d its end is not judged", last.instance,
			len(open), mostUnsure)
		return
	}
	var explained func(h holdings, open []txn) bool
	explained = func(h holdings, open []txn) bool {
		if len(open) == 0 {
			return h == found
		}
		with := h
		with.add(open[0].Ops)
		return explained(h, open[1:]) || explained(with, open[1:])
	}
	if explained(made, open) {
		return
	}
	switch semiSync := topology == plan.TopologySemiSync; {
	case semiSync && r.fellBack():
		r.unknown("the accounts of %s lack acknowledged transfers, and semi-synchronous replication had fallen back",
			last.by())
		return
	case semiSync && r.unwatched():
		r.unknown("the accounts of %s lack acknowledged transfers, and whether each commit of a primary that was "+
			"replaced had waited for replicas was not seen", last.by())
		return
	}
	unsure := ""
	if len(open) > 0 {
		unsure = fmt.Sprintf(", and no choice of the %s of unknown outcome explains the difference",
			plan.Count(len(open), "transfer"))
	}
	r.violation(Finding{Subject: last.by() + " accounts", Span: last.span, Events: []int64{last.event.ID}},
		"In the end the accounts of %s hold %v, and the acknowledged transfers make %v%s.", last.by(), found, made,
		unsure)
}
