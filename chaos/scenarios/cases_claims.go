package scenarios

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

// claimCases are about what is left of the data when pods are gone: it lives as long as their claims.
func claimCases() []plan.Case {
	const report = "Kubernetes documentation, StatefulSet, Persistent Volume retention; Delete a StatefulSet, " +
		"Persistent Volumes"
	emptied := func(r *rand.Rand, during []plan.Step, after ...plan.Step) plan.Plan {
		steps := []plan.Step{Load(100 + r.IntN(100)), Checksum("before"), Scale(0, during...), Scale(forced)}
		return diskTrial(onOneNode("single"), append(steps, after...)...)
	}
	return []plan.Case{
		{
			// The reclaim policy is Delete, as that of most StorageClasses: the volume goes with its claim, and the
			// StatefulSet makes a new claim for the ordinal.
			Name:    "claim-deleted",
			Finding: plan.Sign{Check: "rows", Says: "lost a row"},
			Summary: "A StatefulSet is scaled to 0, its claims are deleted, and it is scaled up again: each database " +
				"begins empty, and every row is gone.",
			Build: func(r *rand.Rand) plan.Plan {
				during := each(forced, func(i int) plan.Step { return Await(plan.AwaitGone, i, 2*time.Minute) })
				for i := range forced {
					during = append(during, plan.Step{Do: plan.ActionDeleteClaim, Ordinal: &i,
						Bound: plan.Duration(time.Minute)})
				}
				gone := each(forced, func(i int) plan.Step { return Await(plan.AwaitClaimGone, i, time.Minute) })
				p := emptied(r, slices.Concat(during, gone), readBack())
				p.Bounds.Settle = plan.Duration(20 * time.Second) // No write can succeed: the tables are gone.
				return p
			},
			Report:   report,
			Affected: allVersions + ": it is documented",
			Fixed:    "none: whoever deletes a claim gives up its data",
		},
		{
			Name:    "claim-kept",
			Finding: plan.Sign{Check: "settle", Says: "mysql"},
			Summary: "As claim-deleted, with the claims left alone: each database finds all its rows again.",
			Build: func(r *rand.Rand) plan.Plan {
				return emptied(r, nil, Load(50), readBack(), Checksum("after"))
			},
			Report: report, Affected: "none: a claim outlives its pod",
			Control: true,
			Holds:   []string{"checksums", "coverage", "rows", "set-claims", "set-identity"},
		},
	}
}
