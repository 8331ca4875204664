package plan

import (
	"fmt"
	"math/bits"
)

// order is what in a plan comes before what, as far as the plan itself says: steps of a sequence come one after
// another, what is within a fault between its effect and its heal, and a step that waits for another fault after it.
type order struct {
	steps []placed
	after [][]int    // For each moment, those that come right after it.
	reach [][]uint64 // For each moment, all that come after it; nil when the plan is a circle.
	knots []int      // The steps that wait for what cannot come before they end.
}

// placed is a step with its place in a plan.
type placed struct {
	Step
	at     string
	fault  int // The fault around it that is nearest, as an index of steps; -1 without one.
	parent int // The step around it, -1 without one.
}

// The moments of a step; that of step i is 4*i and one of them.
const (
	began  = iota
	shown  // Of a fault: its effect is shown.
	healed // Of a fault: it is healed.
	over
)

// orderOf reads the order of a plan.
func orderOf(p Plan) *order {
	o := &order{}
	o.lay("steps", p.Steps, -1, -1)
	o.after = make([][]int, 4*len(o.steps))
	for i := range o.steps {
		o.then(4*i+began, 4*i+shown)
		o.then(4*i+shown, 4*i+healed)
		o.then(4*i+healed, 4*i+over)
	}
	next := 0
	o.sequence(p.Steps, -1, -1, &next)
	o.waits()
	o.close()
	return o
}

// lay puts steps down in the order of their numbers.
func (o *order) lay(at string, steps []Step, fault, parent int) {
	for i, s := range steps {
		field := fmt.Sprintf("%s[%d]", at, i)
		me, around := len(o.steps), fault
		o.steps = append(o.steps, placed{s, field, fault, parent})
		if s.Fault != nil {
			around = me
		}
		for j, within := range s.inner() {
			o.lay(field+"."+s.innerName(j), within, around, me)
		}
	}
}

// innerName is the field that the j-th of the sequences within a step is in.
func (s Step) innerName(j int) string {
	switch {
	case s.Fault != nil:
		return []string{"fault.provoke", "fault.during"}[j]
	case len(s.Branches) > 0:
		return fmt.Sprintf("branches[%d]", j)
	}
	return "during"
}

func (o *order) then(before, after int) { o.after[before] = append(o.after[before], after) }

// sequence orders steps between two moments, of which -1 is none. Next is the index of the first.
func (o *order) sequence(steps []Step, from, to int, next *int) {
	last := from
	for _, s := range steps {
		me := 4 * *next
		*next++
		if last >= 0 {
			o.then(last, me+began)
		}
		last = me + over
		for j, within := range s.inner() {
			begin, end := me+began, me+over
			switch {
			case s.Fault != nil && j == 0: // What provokes it.
				end = me + shown
			case s.Fault != nil:
				begin, end = me+shown, me+healed
			}
			o.sequence(within, begin, end, next)
		}
	}
	if last >= 0 && to >= 0 {
		o.then(last, to)
	}
}

// waits orders the steps that wait for another fault.
func (o *order) waits() {
	for i, s := range o.steps {
		if j, ok := o.awaited(s.Step); ok {
			o.then(o.comes(j, s.Await.Stage), 4*i+over)
		}
	}
}

// awaited returns the fault that a step waits for, if it waits for one that there is.
func (o *order) awaited(s Step) (int, bool) {
	if s.Await == nil || s.Await.For != AwaitFault || s.Await.Step < 1 {
		return 0, false
	}
	for j, t := range o.steps {
		if t.N == s.Await.Step && t.Fault != nil {
			return j, true
		}
	}
	return 0, false
}

// comes returns the moment that a stage of the fault of step j does not come before.
func (o *order) comes(j int, stage string) int {
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

// close finds all that comes after each moment, from the last to the first (Kahn's algorithm on the reversed graph).
func (o *order) close() {
	n := len(o.after)
	left, before := make([]int, n), make([][]int, n)
	for m, after := range o.after {
		left[m] = len(after)
		for _, a := range after {
			before[a] = append(before[a], m)
		}
	}
	reach := make([][]uint64, n)
	var ready []int
	for m := range n {
		if left[m] == 0 {
			ready = append(ready, m)
		}
	}
	done := 0
	for ; len(ready) > 0; done++ {
		m := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		reach[m] = make([]uint64, (n+63)/64)
		for _, a := range o.after[m] {
			reach[m][a/64] |= 1 << (a % 64)
			for w, word := range reach[a] {
				reach[m][w] |= word
			}
		}
		for _, b := range before[m] {
			if left[b]--; left[b] == 0 {
				ready = append(ready, b)
			}
		}
	}
	if done == n {
		o.reach = reach
		return
	}
	for i, s := range o.steps {
		if j, ok := o.awaited(s.Step); ok && o.leads(4*i+over, o.comes(j, s.Await.Stage)) {
			o.knots = append(o.knots, i)
		}
	}
}

// leads looks from one moment for another, step by step.
func (o *order) leads(from, to int) bool {
	seen, todo := map[int]bool{from: true}, []int{from}
	for len(todo) > 0 {
		m := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if m == to {
			return true
		}
		for _, a := range o.after[m] {
			if !seen[a] {
				seen[a] = true
				todo = append(todo, a)
			}
		}
	}
	return false
}

// before reports that the plan has moment a before moment b.
func (o *order) before(a, b int) bool { return a == b || o.reach[a][b/64]>>(b%64)&1 == 1 }

// overlap reports that the plan does not keep two faults apart, so that both may be in force at once.
func (o *order) overlap(i, j int) bool {
	return !o.before(o.end(i), 4*j+began) && !o.before(o.end(j), 4*i+began)
}

// most counts the nodes that a set of ordinals can be on.
func (m mask) most() int { return bits.OnesCount64(uint64(m)) }

// mask is a set of ordinals, each less the first.
type mask uint64
