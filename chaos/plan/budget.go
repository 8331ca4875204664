package plan

import (
	"fmt"
	"math/bits"
	"slices"
)

// nodes is a set of ordinals, each less the first, that stand for the nodes that their pods are on.
type nodes uint64

// budget checks that no more nodes are hurt at the same time than the plan allows.
func (v *validator) budget() {
	p := v.plan
	if p.Bounds.MaxNodes < 0 || p.Bounds.MaxNodes > p.Workers {
		v.Add("bounds.maxNodes", fmt.Sprintf("use 0 to %d, the number of workers", p.Workers), "%d is out of range",
			p.Bounds.MaxNodes)
		return
	}
	allowed := p.Bounds.Nodes(p.Workers)
	for i, s := range p.Steps {
		sets, _ := v.hurt([]Step{s})
		most := 0
		for _, m := range sets {
			most = max(most, bits.OnesCount64(uint64(m)))
		}
		if most = min(most, p.Workers); most > allowed {
			v.Add("bounds.maxNodes", fmt.Sprintf("use %d, or put the faults one after another", most),
				"steps[%d] may hurt %d nodes at the same time, and %d of %d workers may be hurt", i, most, allowed,
				p.Workers)
			return
		}
	}
}

// hurt returns which nodes a sequence of steps may have hurt at the same time, as sets of which none is part of
// another, and those that are still hurt when it ends.
func (v *validator) hurt(steps []Step) (sets []nodes, left nodes) {
	sets = []nodes{0}
	for _, s := range steps {
		own := nodes(0)
		if s.Fault != nil {
			if c := v.caps.fault(s.Fault.Name); c != nil && hurtsNode(c.Takes) {
				own = 1
				if i := s.Fault.Ordinal - v.work.Start; !v.work.together() && i > 0 && i < MaxReplicas {
					own = 1 << i
				}
			}
		}
		during := []nodes{own}
		after, held := left, own
		for _, within := range s.inner() {
			inner, stay := v.hurt(within.steps)
			if s.Do == ActionTogether {
				during = product(during, inner)
				after |= stay
				continue
			}
			during = union(during, product(inner, []nodes{held}))
			held |= stay
			if s.Fault == nil {
				after |= stay
			}
		}
		if s.Fault != nil && s.Fault.Outlast {
			after |= own
		}
		sets = union(sets, product(during, []nodes{left}))
		left = after
	}
	return sets, left
}

// product returns what each set of one list makes with each of another.
func product(a, b []nodes) []nodes {
	var sets []nodes
	for _, x := range a {
		for _, y := range b {
			sets = append(sets, x|y)
		}
		sets = union(sets, nil)
	}
	return sets
}

// union returns the sets of two lists that are part of no other. When they are too many, it takes all for hurt at once.
func union(a, b []nodes) []nodes {
	const most = 256
	var sets []nodes
	all := nodes(0)
	for _, m := range slices.Concat(a, b) {
		all |= m
		if !slices.ContainsFunc(sets, func(have nodes) bool { return have&m == m }) {
			sets = append(slices.DeleteFunc(sets, func(have nodes) bool { return have&m == have }), m)
		}
	}
	if len(sets) > most {
		return []nodes{all}
	}
	return sets
}
