package plan

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// MaxBranches is how many sequences of steps can be beside each other.
const MaxBranches = 8

// MaxDepth is how many steps can be within each other.
const MaxDepth = 4

// tooDeep holds that steps are not within too many others.
func (v *validator) tooDeep(at string, in within, steps ...[]Step) bool {
	deep := in.steps >= MaxDepth && slices.ContainsFunc(steps, func(s []Step) bool { return len(s) > 0 })
	if deep {
		v.errs.add(at, "leave it out", "is within %d steps already", in.steps)
	}
	return deep
}

// together holds the rules of sequences beside each other: one of them at most changes the StatefulSet, and the others
// keep to the pods that are there whatever becomes of it.
func (v *validator) together(at string, s Step, in within) {
	if n := len(s.Branches); s.Branches != nil && (n < 2 || n > MaxBranches) {
		v.errs.add(at+".branches", fmt.Sprintf("use 2 to %d", MaxBranches), "%d branches", n)
	}
	if v.tooDeep(at+".branches", in, s.Branches...) {
		return
	}
	before, changing := v.set, -1
	after, low := before, before.reach
	for _, scale := range inside(s.Branches, ActionScale) {
		if scale.Replicas != nil {
			low = min(low, max(*scale.Replicas, 0))
		}
	}
	for i, branch := range s.Branches {
		field := fmt.Sprintf("%s.branches[%d]", at, i)
		if len(branch) == 0 {
			v.errs.add(field, "add steps, or leave it out", "is empty")
		}
		v.set = before
		changes := slices.ContainsFunc(inside([][]Step{branch}), func(st Step) bool { return st.Do.ChangesSet() })
		switch {
		case !changes:
			v.set.reach = low
		case changing >= 0:
			v.errs.add(field, "put all changes into one branch",
				"the StatefulSet is changed in branches[%d] as well", changing)
		default:
			changing = i
		}
		if len(inside([][]Step{branch}, ActionDeleteSet, ActionCreateSet)) > 0 {
			v.errs.add(field, "do it before or after", "the StatefulSet is deleted or made beside other steps")
		}
		v.steps(field, branch, in.step())
		if changing == i {
			after = v.set
		}
	}
	v.set = after
}

// inside returns the steps of sequences and those within them that do one of actions; all of them without any.
func inside(sequences [][]Step, actions ...Action) []Step {
	var found []Step
	for _, steps := range sequences {
		for _, s := range flatten(nil, steps) {
			if len(actions) == 0 || slices.Contains(actions, s.Do) {
				found = append(found, s)
			}
		}
	}
	return found
}

// fits holds that what is within a step, and what it waits for, does not take longer than its bound allows.
func (v *validator) fits(at string, s Step) {
	least := s.least()
	if least < s.Bound.D() || s.Bound <= 0 || s.Lasting >= s.Bound || s.Fault != nil && s.Fault.Hold >= s.Bound {
		return // That has been told.
	}
	v.errs.add(at+".bound", "raise it, or shorten what is within", "what is planned takes %s at least, which does not "+
		"fit into %s", least, s.Bound)
}

// least returns the shortest time that a step can take, as far as the plan says.
func (s Step) least() time.Duration {
	least := max(s.Lasting.D(), 0)
	for _, steps := range s.inner() {
		sequence := time.Duration(0)
		for _, within := range steps {
			sequence = sum(sequence, within.least())
		}
		if s.Do == ActionTogether {
			least = max(least, sequence)
		} else {
			least = sum(least, sequence)
		}
	}
	if s.Fault != nil {
		least = sum(least, s.Fault.Hold.D())
	}
	if s.Await != nil {
		least = sum(least, s.Await.least())
	}
	return least
}

// sum adds what is not negative of two durations, and stays at the longest there is.
func sum(a, b time.Duration) time.Duration {
	a, b = max(a, 0), max(b, 0)
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
