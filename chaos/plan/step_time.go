package plan

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Mesh is a Chaos Mesh manifest as a step of a plan, and what the workload is called in it: the names of the trial's
// own namespace and nodes are not known beforehand.
type Mesh struct {
	// Manifest is one object of chaos-mesh.org/v1alpha1 as JSON. Its namespace stands for the trial's own.
	Manifest json.RawMessage `json:"manifest"`
	// Labels are those that the manifest knows the workload's pods by, beside those that they have.
	Labels map[string]string `json:"labels,omitempty"`
	// Machines are the pods, by ordinal, on whose nodes the physical machines of the manifest are. A machine with the
	// name of a pod is that pod's node.
	Machines map[string]int `json:"machines,omitempty"`
	// Times is how often what a Schedule asks for is done; 0 is three times.
	Times int `json:"times,omitempty"`
}

// timeKinds are the steps that let time pass, and the one that is none yet.
func timeKinds() []kind {
	return []kind{
		{do: ActionPause, field: "lasting",
			check: func(v *validator, at string, s Step, _ depth) {
				v.lasting(at+".lasting", s.Lasting)
				if s.Lasting >= s.Bound {
					v.Add(at+".lasting", "pause for less, or raise the bound",
						"%s does not fit into the step's bound of %s", s.Lasting, s.Bound)
				}
			},
			says: func(_ Plan, s Step) string { return fmt.Sprintf("%s, under load", s.Lasting) }},
		{do: ActionMesh, field: "mesh",
			check: func(v *validator, at string, _ Step, _ depth) {
				v.Add(at+".do", "give the plan to `seatrial run --plan` or `seatrial plan import`, which do it",
					"the manifest has not been turned into steps")
			},
			says: func(Plan, Step) string { return "a manifest that has not been turned into steps" }},
	}
}

// together checks sequences beside each other: one of them at most changes the StatefulSet, and the others keep to the
// pods that are there whatever becomes of it.
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
			return st.Do == ActionDeleteSet ||
				st.Do == ActionCreateSet
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
