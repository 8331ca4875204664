package check

import (
	"cmp"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// leastReads is how many reads of an instance's registers, or of all its accounts, must count: fewer hardly ever meet a
// write. Of a group, leastShared of each instance do.
const (
	leastReads  = 20
	leastShared = 5
)

// txn is one transaction. It lies in its span.
type txn struct {
	*history.Txn
	instance string
	event    *history.Event // Its answer, or its request if it has none.
	outcome  history.Stage  // StageUnknown if it has no answer.
	span     history.Span   // From its request to its answer, else for ever.
}

// by returns who answered, which of a group is one of its instances.
func (t txn) by() string { return cmp.Or(t.event.Op.By, t.instance) }

// txns returns the transactions that worked on something. Of a group's final readers those are left out whose instance
// lacked what another one had: it was only late.
func (r *ruling) txns(on string) (all []txn) {
	late := r.late()
	for _, op := range r.world.Operations() {
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
		if why := late[e.Op.By]; why != "" && e.Op.Client == history.Auditor {
			r.unknown("what %s found does not count: %s", txnName(e), why)
			continue
		}
		all = append(all, t)
	}
	return all
}

// late says of each instance of a group why it is not known to have had, in the end, all that any of them had.
func (r *ruling) late() map[string]string {
	if !r.trial.Plan.Workload.Grouped() {
		return nil
	}
	has, all := map[string]history.GTIDs{}, history.GTIDs{}
	for _, e := range r.world.Of(history.KindMember) {
		set, err := history.ParseGTIDs(e.Member.Executed)
		if e.Member.Label != history.FinalRead || e.Member.Error != "" || err != nil {
			continue
		}
		has[e.Member.Instance], all = set, all.With(set)
	}
	late := map[string]string{}
	for _, name := range r.trial.Instances(r.trial.Finally()) {
		switch set, known := has[name]; {
		case !known:
			late[name] = "it never said which transactions it has"
		case !set.Has(all):
			late[name] = "it lacked transactions " + all.Without(set).String()
		}
	}
	return late
}

// enough adds a reason for each instance with fewer reads than least by clients, and for each whose end was not read.
// Counts are by who answered.
func (r *ruling) enough(what string, least int, counts map[string]int, txns []txn, read string) {
	for _, instance := range r.trial.Instances(r.trial.Finally()) {
		if counts[instance] < least {
			r.unknown("%d %s of %s, want %d", counts[instance], what, instance, least)
		}
		if !slices.ContainsFunc(txns, func(t txn) bool { return t.by() == instance && readWhole(t.event) }) {
			r.unknown("the %s of %s were not read in the end: what was lost after the last read does not show", read,
				instance)
		}
	}
	for _, instance := range keys(counts) {
		r.evidence += counts[instance]
		r.subjects[instance] = true
	}
}

// fellBack reports whether a primary was seen to wait for no replica, or to have committed without one. One that was
// replaced does so when it is made read-only, after its clients were disconnected.
func (r *ruling) fellBack() bool {
	primary := ""
	return slices.ContainsFunc(r.world.Of(history.KindMember, history.KindPromotion), func(e *history.Event) bool {
		if p := e.Promotion; p != nil {
			if p.Act == history.ActPromote && p.Error == "" {
				primary = p.Instance
			}
			return false
		}
		m := e.Member
		now := m.Writable && cmp.Or(primary, m.Instance) == m.Instance
		return m.Label == "" && m.Error == "" &&
			(now && (!m.SemiSync || m.Unacked > 0) || m.Unacked > 0 && r.configured())
	})
}

// unwatched reports whether a step may have changed how long a commit waits for a replica, and a primary that was
// replaced did not say later, without having begun again, how many of its commits had not waited.
func (r *ruling) unwatched() bool {
	primary, before := "", (*history.Event)(nil) // Who it is, and what it said last.
	return r.configured() && slices.ContainsFunc(r.world.Of(history.KindMember, history.KindPromotion),
		func(e *history.Event) bool {
			if m := e.Member; m != nil {
				if m.Instance == primary && m.Error == "" {
					before = e
				}
				return false
			}
			if e.Promotion.Act != history.ActPromote || e.Promotion.Error != "" {
				return false
			}
			was, last := primary, before
			primary, before = e.Promotion.Instance, nil
			return was != "" && was != primary && (last == nil || !r.saidAfter(was, last.Span, e.Span))
		})
}

// saidAfter reports whether an instance was asked after a time and answered, by a process that was there before.
func (r *ruling) saidAfter(instance string, before, after history.Span) bool {
	return slices.ContainsFunc(r.world.Of(history.KindMember), func(e *history.Event) bool {
		return e.Member.Instance == instance && e.Member.Label == "" && e.Member.Error == "" &&
			after.CertainlyBefore(e.Span) && r.ranOn(instance, history.Between(before.NotBefore, e.Span.NotAfter))
	})
}

// reopened reports whether a primary began again and was replaced later: what was in its log came back without a
// replica, and others may have read it.
func (r *ruling) reopened() bool {
	opened, again := map[string]int{}, false
	return slices.ContainsFunc(r.world.Of(history.KindPromotion), func(e *history.Event) bool {
		p := e.Promotion
		switch p.Act {
		case history.ActOpen:
			opened[p.Instance]++
			again = again || opened[p.Instance] > 1
		case history.ActPromote:
			opened = map[string]int{}
			return again
		}
		return false
	})
}
