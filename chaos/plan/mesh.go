package plan

import "encoding/json"

// Mesh is a Chaos Mesh manifest as a step of a plan. It says what the workload is called in it: the trial's own
// namespace and nodes have names that nobody can know beforehand.
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

// Number gives steps their numbers, from 1 on, each before the steps within it.
func Number(steps []Step) { number(steps, 1) }
