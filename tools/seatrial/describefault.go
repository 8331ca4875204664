package main

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/scenarios"
)

// faultDetails describes a fault and gives an example step.
func faultDetails(d fault.Definition) [][2]string {
	needs := "nothing"
	if len(d.Needs) > 0 {
		needs = strings.Join(d.Needs, ", ")
	}
	takes := "nothing"
	if len(d.Takes) > 0 {
		var parts []string
		for _, p := range d.Takes {
			parts = append(parts, string(p))
		}
		takes = strings.Join(parts, ", ")
	}
	details := [][2]string{
		{"shown", d.Shown}, {"healed", d.Healed}, {"needs", needs}, {"takes", takes}, {"upstream", d.Upstream},
	}
	if fields := faultFields(d); fields != "" {
		details = append(details, [2]string{"fields", fields})
	}
	example, err := json.MarshalIndent(exampleStep(d), "", "  ")
	if err != nil {
		return details // Cannot happen: a step can always be encoded.
	}
	return append(details, [2]string{"example", string(example)})
}

// faultFields names the optional fields that the fault takes.
func faultFields(d fault.Definition) string {
	names := slices.Clone(d.Params)
	if d.Triggers {
		names = append(names, "when", "provoke")
	}
	if d.Outlasts {
		names = append(names, "outlast")
	}
	for i := range names {
		names[i] = "fault." + names[i]
	}
	return strings.Join(names, ", ")
}

// exampleStep is a legal step with the fault.
func exampleStep(d fault.Definition) plan.Step {
	return examplePlan(d).Steps[0]
}

// examplePlan is a legal plan with the fault.
func examplePlan(d fault.Definition) plan.Plan {
	return scenarios.Example(fault.Caps([]fault.Definition{d}, nil).Faults[0], d.Example)
}
