package explain

import (
	"slices"
)

// behind are the pods that stand behind the blockers of a step in the way of the same thing: when those are out of the
// way, the controller comes to these, in this order. They do not count as long as they only wait themselves.
func (v *view) behind(s step) []blocker {
	if len(s.blockers) == 0 {
		return nil
	}
	var more []blocker
	switch s.rule {
	case ruleOrder:
		more = v.unavailableFrom(s.blockers[0].ordinal-v.set.Start+1, s)
		if s.action == ActionDelete {
			more = append(more, v.endingAbove(s.ordinal)...)
		}
	case ruleGone:
		more = v.endingAbove(s.ordinal)
	case ruleCondemned:
		for _, p := range slices.Backward(v.condemned) {
			if b := v.blockOf(p); b.state != "" && p.ordinal != s.ordinal {
				more = append(more, b)
			}
		}
	case ruleHighest:
		for i := len(v.replicas) - 1; i > s.ordinal-v.set.Start; i-- {
			if b := v.block(i); b.state != "" {
				more = append(more, b)
			}
		}
	case ruleBatch:
		for i, p := range v.replicas {
			if p == nil && v.o.refusal(v.set, v.set.Start+i) != nil {
				more = append(more, v.block(i))
			}
		}
	}
	return slices.DeleteFunc(more, func(b blocker) bool {
		return slices.ContainsFunc(s.blockers, func(now blocker) bool { return now.ordinal == b.ordinal })
	})
}

// unavailableFrom are the pods that are to stay and are not available, from a place on and, for a creation, up to the
// pod that is to be created.
func (v *view) unavailableFrom(i int, s step) []blocker {
	var more []blocker
	for ; i >= 0 && i < len(v.replicas); i++ {
		b := v.block(i)
		if s.action == ActionCreate && b.ordinal >= s.ordinal {
			break
		}
		if b.state != "" && b.state != stateMissing {
			more = append(more, b)
		}
	}
	return more
}

// endingAbove are the pods above an ordinal that are to go and have not gone, the highest first.
func (v *view) endingAbove(ordinal int) []blocker {
	var more []blocker
	for _, p := range v.condemned {
		if p.terminating() && p.ordinal > ordinal {
			more = append(more, v.blockOf(p))
		}
	}
	return more
}

// explainBlockers explains every pod that blocks a step, and tells how it looks for the whole: as bad as for
// the worst of them, the first of those.
func (d *Diagnosis) explainBlockers(o *Objects, v *view, s step) {
	behind := v.behind(s)
	after := ""
	for i, b := range slices.Concat(s.blockers, behind) {
		r := &reasoner{o: o, set: v.set, view: v, step: s}
		r.blocked(b)
		told := v.tell(b)
		told.Causes, told.Outlook, told.Reason = r.causes, r.outlook, r.reason
		if i >= len(s.blockers) {
			told.After = after
		}
		after = told.Pod
		d.Blockers = append(d.Blockers, told)
		if i == 0 {
			d.add(r.causes)
			d.Outlook, d.Reason = r.outlook, r.reason
		} else if worse(r.outlook, d.Outlook) {
			d.Outlook, d.Reason = r.outlook, "as far as "+told.Pod+" blocks it: "+r.reason
		}
	}
}

// worse reports that one outlook leaves less hope than another.
func worse(a, b Outlook) bool {
	order := []Outlook{Transient, NotKnown, Permanent}
	return slices.Index(order, a) > slices.Index(order, b)
}
