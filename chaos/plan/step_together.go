package plan

import (
	"fmt"
	"slices"
)

// together checks parallel sequences: at most one of them changes the StatefulSet, and the others use only the pods that
// exist during all of its changes.
func (v *validator) together(at string, s Step, in depth) {
	if n := len(s.Branches); n < 2 || n > MaxBranches {
		v.Add(at+".branches", fmt.Sprintf("use 2 to %d", MaxBranches), "%d branches", n)
	}
	if v.tooDeep(at+".branches", in, s.Branches...) {
		return
	}
	before, changing := v.set, -1
	after, low := before, before.reach
	for _, st := range s.Within() {
		if st.Do == ActionScale && st.Replicas != nil {
			low = min(low, max(*st.Replicas, 0))
		}
	}
	for i, branch := range s.Branches {
		field := fmt.Sprintf("%s.branches[%d]", at, i)
		if len(branch) == 0 {
			v.Add(field, "add steps, or leave it out", "is empty")
		}
		v.set = before
		all := flatten(nil, branch)
		switch {
		case !slices.ContainsFunc(all, func(st Step) bool { return st.Do.ChangesSet() }):
			v.set.reach = low
		case changing >= 0:
			v.Add(field, "put all changes into one branch", "the StatefulSet is changed in branches[%d] as well",
				changing)
		default:
			changing = i
		}
		if slices.ContainsFunc(all, func(st Step) bool {
			return st.Do == ActionDeleteSet || st.Do == ActionCreateSet
		}) {
			v.Add(field, "do it before or after", "the StatefulSet is deleted or made beside other steps")
		}
		v.steps(field, branch, in.step())
		if changing == i {
			after = v.set
		}
	}
	v.set = after
}
