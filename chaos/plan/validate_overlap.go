package plan

import (
	"fmt"
	"slices"
)

// overlaps holds the rules of faults that may be in force at the same time.
func (v *validator) overlaps(p Plan) {
	if len(p.AllSteps()) > MaxSteps {
		return // That has been told.
	}
	o := orderOf(p)
	for _, i := range o.knots {
		v.errs.add(o.steps[i].at+".await.step", "wait for a fault of another branch that does not wait for this one",
			"step %d does not come so far before this step has ended", o.steps[i].Await.Step)
	}
	if o.reach == nil {
		return
	}
	v.waited(o)
	for j, s := range o.steps {
		if s.Fault == nil {
			continue
		}
		v.standing(o, j)
		for i := range o.steps[:j] {
			if o.steps[i].Fault != nil && o.overlap(i, j) {
				v.pair(p, o, i, j)
			}
		}
	}
	v.controlPlanes(o)
	v.budget(p)
}

// waited holds that what a step waits for of another fault has not come before by the plan alone, and will come.
func (v *validator) waited(o *order) {
	for i, s := range o.steps {
		j, ok := o.awaited(s.Step)
		if ok && o.before(o.comes(j, s.Await.Stage), 4*i+began) {
			v.errs.add(s.at+".await.step", "leave the step out, or put it into another branch",
				"step %d has come so far by then in any case", s.Await.Step)
		}
	}
}

// pair holds that the faults of steps i and j, which may overlap, leave each other alone.
func (v *validator) pair(p Plan, o *order, i, j int) {
	a, b := o.steps[i], o.steps[j]
	same := a.Fault.Ordinal == b.Fault.Ordinal || p.Workload.Packed || p.Workload.Pinned
	why := Clash(v.takes(*a.Fault), v.takes(*b.Fault), same)
	if why == "" && !o.before(o.end(j), 4*i+healed) { // Either may come to the other.
		why = Clash(v.takes(*b.Fault), v.takes(*a.Fault), same)
	}
	if why == "" {
		return
	}
	fix := "put it after that step"
	if HurtsNode(v.takes(*b.Fault)) && !p.Workload.Packed && !p.Workload.Pinned {
		fix += ", or choose another victim"
	}
	v.errs.add(b.at+".fault", fix, "fault %q may be in force together with %q of step %d: %s", b.Fault.Name,
		a.Fault.Name, a.N, why)
}

// takes returns what a fault has in its hands; nothing is known of one that nobody knows.
func (v *validator) takes(f Fault) []Part {
	i := slices.IndexFunc(v.caps.Faults, func(c FaultCaps) bool { return c.Name == f.Name })
	if i < 0 {
		return nil
	}
	return v.caps.Faults[i].Takes
}

// standing holds that what is done within a fault that takes the API away does not need it.
func (v *validator) standing(o *order, j int) {
	takes := v.takes(*o.steps[j].Fault)
	away := slices.IndexFunc(takes, func(p Part) bool {
		return p == PartAPIServer || p == PartEtcd || p == PartControlPlane
	})
	if away < 0 {
		return
	}
	for i, s := range o.steps {
		asks := s.Do.ChangesSet() || s.Do == ActionDeletePod || s.Do == ActionDeleteClaim
		apart := o.before(4*i+over, 4*j+began) || o.before(o.end(j), 4*i+began)
		around := o.before(4*i+began, 4*j+began) && o.before(o.end(j), 4*i+over)
		if !asks || apart || around {
			continue
		}
		v.errs.add(s.at+".do", "put it before or after that step", "the %s may be taken away then, by step %d",
			takes[away], o.steps[j].N)
	}
}

// controlPlanes holds that one control plane at least is left alone at any time.
func (v *validator) controlPlanes(o *order) {
	there := max(v.caps.ControlPlanes, 1)
	hurts := func(i int) bool {
		return o.steps[i].Fault != nil && slices.Contains(v.takes(*o.steps[i].Fault), PartControlPlane)
	}
	for j, s := range o.steps {
		if !hurts(j) {
			continue
		}
		taken := 1
		for i := range o.steps[:j] {
			if hurts(i) && o.overlap(i, j) {
				taken++
			}
		}
		if taken >= there {
			v.errs.add(s.at+".fault.name", "choose another fault, or a cluster with more control planes",
				"fault %q takes a control plane away, and none of %d would be left", s.Fault.Name, there)
		}
	}
}

// Nodes returns how many of so many workers may be hurt at the same time.
func (b Bounds) Nodes(workers int) int {
	if b.MaxNodes > 0 {
		return b.MaxNodes
	}
	return max((workers+1)/2-1, 1)
}

// budget holds that no more nodes are hurt at the same time than the plan allows.
func (v *validator) budget(p Plan) {
	if p.Bounds.MaxNodes < 0 || p.Bounds.MaxNodes > p.Workers {
		v.errs.add("bounds.maxNodes", fmt.Sprintf("use 0 to %d, the number of workers", p.Workers),
			"%d is out of range", p.Bounds.MaxNodes)
		return
	}
	allowed := p.Bounds.Nodes(p.Workers)
	for i, s := range p.Steps {
		sets, _ := v.hurt(p.Workload, []Step{s})
		most := 0
		for _, m := range sets {
			most = max(most, m.most())
		}
		if most = min(most, p.Workers); most > allowed {
			v.errs.add("bounds.maxNodes", fmt.Sprintf("use %d, or put the faults one after another", most),
				"%s may hurt %d nodes at the same time, and %d of %d workers may be hurt", fmt.Sprintf("steps[%d]", i),
				most, allowed, p.Workers)
			return
		}
	}
}

// maxSets bounds how many sets of nodes hurt looks at; beyond it takes them all for hurt at once.
const maxSets = 256

// hurt returns which nodes a sequence of steps may have hurt at the same time, as sets of ordinals of which none is
// part of another, and those that are still hurt when it ends.
func (v *validator) hurt(w Workload, steps []Step) (sets []mask, left mask) {
	sets = []mask{0}
	for _, s := range steps {
		own := mask(0)
		if s.Fault != nil && HurtsNode(v.takes(*s.Fault)) {
			own = 1
			if i := s.Fault.Ordinal - w.Start; !w.Packed && !w.Pinned && i > 0 && i < MaxReplicas {
				own = 1 << i
			}
		}
		during := []mask{own}
		after, held := left, own
		for _, within := range s.inner() {
			inner, stay := v.hurt(w, within)
			if s.Do == ActionTogether {
				during = product(during, inner)
				after |= stay
				continue
			}
			during = union(during, product(inner, []mask{held}))
			held |= stay
			if s.Fault == nil {
				after |= stay
			}
		}
		if s.Fault != nil && s.Fault.Outlast {
			after |= own
		}
		sets = union(sets, product(during, []mask{left}))
		left = after
	}
	return sets, left
}

// product returns what each set of one list makes with each of another.
func product(a, b []mask) []mask {
	var sets []mask
	for _, x := range a {
		for _, y := range b {
			sets = append(sets, x|y)
		}
		sets = union(sets, nil)
	}
	return union(sets, nil)
}

// union returns the sets of two lists that are part of no other.
func union(a, b []mask) []mask {
	var sets []mask
	for _, m := range slices.Concat(a, b) {
		part := slices.ContainsFunc(sets, func(have mask) bool { return have&m == m })
		if part {
			continue
		}
		sets = append(slices.DeleteFunc(sets, func(have mask) bool { return have&m == have }), m)
	}
	if len(sets) <= maxSets {
		return sets
	}
	all := mask(0)
	for _, m := range sets {
		all |= m
	}
	return []mask{all}
}
