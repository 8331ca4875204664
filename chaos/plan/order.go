package plan

import (
	"fmt"
	"math/bits"
	"slices"
)

// order is the partial order of the moments of a plan: steps of a sequence come one after another, steps during a fault
// between its effect and its heal, and a step that waits for another fault after that one.
type order struct {
	steps []placed
	next  [][]int  // For each moment, those that come right after it.
	after [][]bool // For each moment that was asked for, which ones come after it, and itself.
}

type placed struct {
	Step
	at    string // Its field in the plan.
	fault int    // The nearest fault around it, as an index of steps; -1 without one.
}

// The moments of a step. Moment m of step i has the number 4*i + m.
const (
	began  = iota
	shown  // Of a fault: its effect is confirmed.
	healed // Of a fault: it is healed.
	over
)

func orderOf(p Plan) *order {
	o := &order{}
	o.add("steps", p.Steps, -1, -1, -1)
	for i, s := range o.steps { // Steps that wait for another fault.
		if j, ok := o.awaited(s.Step); ok {
			o.then(o.reaches(j, s.Await.Stage), 4*i+over)
		}
	}
	o.after = make([][]bool, len(o.next))
	return o
}

func (o *order) then(before, after int) { o.next[before] = append(o.next[before], after) }

// add adds a sequence of steps, and those within them, between two moments; -1 is none.
func (o *order) add(at string, steps []Step, from, to, fault int) {
	last := from
	for i, s := range steps {
		me, field := len(o.steps), fmt.Sprintf("%s[%d]", at, i)
		o.steps = append(o.steps, placed{s, field, fault})
		o.next = append(o.next, []int{4*me + shown}, []int{4*me + healed}, []int{4*me + over}, nil)
		if last >= 0 {
			o.then(last, 4*me+began)
		}
		last = 4*me + over
		for _, inner := range s.inner() {
			begin, end, around := 4*me+began, 4*me+over, fault
			switch {
			case inner.field == "fault.provoke":
				end, around = 4*me+shown, me
			case inner.field == "fault.during":
				begin, end, around = 4*me+shown, 4*me+healed, me
			}
			o.add(field+"."+inner.field, *inner.steps, begin, end, around)
		}
	}
	if last >= 0 && to >= 0 {
		o.then(last, to)
	}
}

// awaited returns the fault that a step waits for, as an index of steps.
func (o *order) awaited(s Step) (int, bool) {
	if s.Await == nil || s.Await.For != AwaitFault || s.Await.Step < 1 {
		return 0, false
	}
	j := slices.IndexFunc(o.steps, func(t placed) bool { return t.N == s.Await.Step && t.Fault != nil })
	return j, j >= 0
}

// reaches returns the earliest moment at which the fault of step j reaches a stage.
func (o *order) reaches(j int, stage string) int {
	switch stage {
	case StageHealed:
		if end := o.end(j); end != 4*j+over {
			return end
		}
		return 4*j + healed
	case StageGone:
		return o.end(j)
	case StageInjected:
		return 4*j + began
	}
	return 4*j + shown
}

// end returns the moment by which the fault of step j is over: the end of its step, or, of one that outlasts, that of
// the fault around it.
func (o *order) end(j int) int {
	for o.steps[j].Fault.Outlast && o.steps[j].fault >= 0 {
		j = o.steps[j].fault
	}
	return 4*j + over
}

// before reports that the plan has moment a before moment b, or that they are the same.
func (o *order) before(a, b int) bool {
	if o.after[a] == nil {
		o.after[a] = make([]bool, len(o.next))
		o.visit(a, o.after[a])
	}
	return o.after[a][b]
}

// visit marks a moment and all that come after it.
func (o *order) visit(m int, seen []bool) {
	if seen[m] {
		return
	}
	seen[m] = true
	for _, next := range o.next[m] {
		o.visit(next, seen)
	}
}

func (o *order) overlap(i, j int) bool {
	return !o.before(o.end(i), 4*j+began) && !o.before(o.end(j), 4*i+began)
}

// overlaps checks faults that may be active at the same time, and steps that wait for a fault.
func (v *validator) overlaps() {
	o := v.order
	if len(o.steps) > MaxSteps {
		return // Another error says so.
	}
	cycle := false
	for i, s := range o.steps {
		j, ok := o.awaited(s.Step)
		switch {
		case !ok:
		case o.before(4*i+over, o.reaches(j, s.Await.Stage)):
			cycle = true
			v.Add(s.at+".await.step", "wait for a fault of another branch that does not wait for this one",
				"step %d reaches this stage only after this step has ended", s.Await.Step)
		case o.before(o.reaches(j, s.Await.Stage), 4*i+began):
			v.Add(s.at+".await.step", "leave the step out, or put it into another branch",
				"step %d has reached this stage before this step begins", s.Await.Step)
		}
	}
	if cycle {
		return
	}
	for j, s := range o.steps {
		if s.Fault == nil {
			continue
		}
		v.withoutAPI(j)
		planes := 0 // How many control planes this fault and those before it may take at once.
		for i := range o.steps[:j+1] {
			if o.steps[i].Fault == nil || i != j && !o.overlap(i, j) {
				continue
			}
			if i != j {
				v.pair(i, j)
			}
			if slices.Contains(v.takes(i), PartControlPlane) {
				planes++
			}
		}
		if there := max(v.caps.ControlPlanes, 1); planes >= there && slices.Contains(v.takes(j), PartControlPlane) {
			v.Add(s.at+".fault.name", "choose another fault, or a cluster with more control planes",
				"fault %q takes a control plane away, and none of %d would be left", s.Fault.Name, there)
		}
	}
	v.budget()
}

// takes returns the parts that the fault of step i takes, none of one that is not known.
func (v *validator) takes(i int) []Part {
	if c := v.caps.fault(v.order.steps[i].Fault.Name); c != nil {
		return c.Takes
	}
	return nil
}

// pair checks that the faults of steps i and j, which may overlap, do not clash.
func (v *validator) pair(i, j int) {
	o := v.order
	a, b := o.steps[i], o.steps[j]
	same := a.Fault.Ordinal == b.Fault.Ordinal || v.work.together()
	why := Clash(v.takes(i), v.takes(j), same)
	if why == "" && !o.before(o.end(j), 4*i+healed) { // Either may begin first.
		why = Clash(v.takes(j), v.takes(i), same)
	}
	if why == "" {
		return
	}
	fix := "put it after that step"
	if hurtsNode(v.takes(j)) && !v.work.together() {
		fix += ", or choose another victim"
	}
	v.Add(b.at+".fault", fix, "fault %q may be in force together with %q of step %d: %s", b.Fault.Name, a.Fault.Name,
		a.N, why)
}

// withoutAPI checks that steps during a fault of the API do not need the API.
func (v *validator) withoutAPI(j int) {
	o := v.order
	takes := v.takes(j)
	away := slices.IndexFunc(takes, func(p Part) bool { return slices.Contains(apiParts(), p) })
	if away < 0 {
		return
	}
	for i, s := range o.steps {
		apart := o.before(4*i+over, 4*j+began) || o.before(o.end(j), 4*i+began)
		around := o.before(4*i+began, 4*j+began) && o.before(o.end(j), 4*i+over)
		if k, _ := kindOf(s.Do); (k.api || k.changes) && !apart && !around {
			v.Add(s.at+".do", "put it before or after that step",
				"it needs the API, and step %d may have taken the %s away then", o.steps[j].N, takes[away])
		}
	}
}

// nodes is a set of nodes. Each is the bit of the ordinal of its pod, counted from the first.
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

// hurt returns the sets of nodes that a sequence of steps may hurt at the same time, none a subset of another, and the
// nodes that are still hurt when it ends.
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
			inner, stay := v.hurt(*within.steps)
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

// product returns the union of each set of a with each set of b.
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

// union returns the sets of both lists without subsets of others. If they are too many, it assumes all nodes at once.
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
