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
		retained("claim-policy-deleted", "deleted", func(w *plan.Workload) []plan.Step {
			w.WhenDeleted = plan.PolicyDelete
			return []plan.Step{deleteSet(plan.CascadeBackground), createSet()}
		}),
		retained("claim-policy-scaled", "scaled to 0", func(w *plan.Workload) []plan.Step {
			w.WhenScaled = plan.PolicyDelete
			return []plan.Step{Scale(0), Scale(forced)}
		}),
		{
			// The reclaim policy is Delete, as that of most StorageClasses: the volume goes with its claim, and the
			// StatefulSet makes a new claim for the ordinal.
			Name:    "claim-deleted",
			Finding: plan.Sign{Check: "rows", Says: "lost a row"},
			Summary: "A StatefulSet is scaled to 0, its claims are deleted, and it is scaled up again: each database " +
				"begins empty, and every row is gone.",
			Build: func(r *rand.Rand) plan.Plan {
				gone := each(forced, func(i int) plan.Step { return Await(plan.AwaitGone, i, 2*time.Minute) })
				freed := each(forced, func(i int) plan.Step { return Await(plan.AwaitClaimGone, i, time.Minute) })
				during := slices.Concat(gone, each(forced, deleteClaim), freed)
				return settling(noneBack, emptied(r, during, readBack()))
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
			Holds:   []string{"checksums", "rows", "set-claims", "set-identity"},
		},
		{
			// The controller makes a claim, and then writes the owner into it. Whoever deletes the StatefulSet in
			// between, here because the API server does not take the second, keeps the claim
			// (UpdatePodClaimForRetentionPolicy in pkg/controller/statefulset).
			Name:    "k8s-142130",
			Volumes: 1,
			Finding: plan.Sign{Check: "set-claims", Says: "although the policy is to delete it"},
			Summary: "A StatefulSet whose claims go when it is deleted is that before its controller could write the " +
				"owner into one: its pod goes, and its claim stays.",
			Build: func(*rand.Rand) plan.Plan {
				w := Light(2)
				w.Storage, w.Fencing = plan.StorageSharedDisk, "single"
				w.WhenDeleted = plan.PolicyDelete
				again := deleteSet(plan.CascadeBackground)
				unowned := rejected("statefulset-controller", 0, 8*time.Minute, []string{"persistentvolumeclaims"},
					[]string{"patch", "update"}, again,
					observed(createSet(Await(plan.AwaitCreated, 0, 2*time.Minute), observed(again))))
				return settling(time.Minute, Trial(w, unowned, still(75*time.Second), createSet()))
			},
			Report: "kubernetes/kubernetes pull request 142130",
		},
		{
			// Until then the volume is given to nobody, not even to a claim of the same name: it could be read.
			Name:    "volume-recycled",
			Volumes: 1,
			Finding: plan.Sign{Check: "rows", Says: "lost a row"},
			Summary: "The claim of a database on a local volume is deleted, and a new one of that name waits until " +
				"the volume is recycled: its next owner finds no row in it.",
			Build: func(r *rand.Rand) plan.Plan {
				w := MySQL(2)
				w.WhenScaled, w.LocalVolumes = plan.PolicyDelete, [][]int{{w.VolumeMiB}, {w.VolumeMiB}}
				return settling(noneBack, Trial(w, Load(100+r.IntN(100)), Checksum("before"), Scale(1),
					observed(Scale(2)), Await(plan.AwaitPending, 1, time.Minute), still(5*time.Second), recycle(),
					settled(), readBack()))
			},
			Report: "Kubernetes documentation, Persistent Volumes, Reclaiming", Affected: allVersions +
				": it is documented", Fixed: "none: whoever recycles a volume gives up its data",
		},
	}
}

// retained is claim-deleted by the policy of the StatefulSet (KEP-1847).
func retained(name, done string, steps func(*plan.Workload) []plan.Step) plan.Case {
	return plan.Case{
		Name:    name,
		Finding: plan.Sign{Check: "rows", Says: "lost a row"},
		Summary: "A StatefulSet whose claims go when it is " + done + " is that, and comes back: each database " +
			"begins empty, and every row is gone.",
		Build: func(r *rand.Rand) plan.Plan {
			w := onOneNode("single")
			change := steps(&w)
			return settling(noneBack, diskTrial(w, slices.Concat([]plan.Step{Load(100 + r.IntN(100)),
				Checksum("before")}, change, []plan.Step{readBack()})...))
		},
		Report:   "KEP-1847",
		Affected: allVersions + ": it is documented",
		Fixed:    "none: whoever sets the policy to Delete gives up the data",
	}
}
