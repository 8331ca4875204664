package check

import (
	"cmp"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// leastReads is how many reads of an instance's registers, or of all its accounts, must count: fewer hardly ever meet a
// write.
const leastReads = 20

// txn is one transaction. It lies between Begin and End.
type txn struct {
	*history.Txn
	instance string
	event    *history.Event // Its answer, or its request if it has none.
	outcome  history.Stage  // StageUnknown if it has no answer.
	span     history.Span   // From its request to its answer, else for ever.
}

// by returns who answered, which of a group is one of its instances.
func (t txn) by() string { return cmp.Or(t.event.Op.By, t.instance) }

// txns returns the transactions that worked on something.
func (r *ruling) txns(on string) (all []txn) {
	for _, op := range r.world.Operations().All {
		e := cmp.Or(op.Answer, op.Sent)
		if e.Op.F != history.OpTxn || e.Op.Txn == nil || e.Op.Txn.On != on {
			continue
		}
		if op.Sent == nil {
			r.unknown("the history is not whole: that %s was sent is missing", txnName(e))
		}
		t := txn{Txn: e.Op.Txn, instance: e.Op.Instance, event: e, outcome: history.StageUnknown,
			span: history.Span{NotBefore: e.Span.NotBefore, NotAfter: world.Forever}}
		if op.Answer != nil {
			t.outcome, t.span = e.Op.Stage, e.Span
		}
		all = append(all, t)
	}
	return all
}

// enough adds a reason for each instance with fewer than least of something, and for each whose end was not read.
func (r *ruling) enough(what string, least int, counts map[string]int, txns []txn, read string) {
	for _, instance := range r.trial.Written(r.trial.Finally()) {
		if counts[instance] < least {
			r.unknown("%d %s of %s, want %d", counts[instance], what, instance, least)
		}
		if !slices.ContainsFunc(txns, func(t txn) bool { return t.instance == instance && readWhole(t.event) }) {
			r.unknown("the %s of %s were not read in the end: what was lost after the last read does not show", read,
				instance)
		}
	}
	for _, instance := range keys(counts) {
		r.evidence += counts[instance]
		r.subjects[instance] = true
	}
}
