package scenarios

import (
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// Cases returns every case, in alphabetical order. A new one is one new file and one line here.
func Cases() []plan.Case {
	return []plan.Case{
		k8s113979(),
		k8s113979Force(),
		k8s119685(),
		k8s120328(),
		k8s121937(),
		k8s123918(),
		k8s124334(),
		k8s136831(),
		k8s140858(),
		k8s61832(),
		k8s61832Evict(),
		k8s61832Flag(),
		k8s61832Local(),
		k8s61832Node(),
		k8s67250(),
		outOfService(),
		podRemount(),
		residue(),
	}
}

// bounds are those of most trials, with time for a database that recovers on a machine that was hurt, and for five of
// them that start at once beside those of other clusters.
func bounds() plan.Bounds {
	b := draft.Bounds()
	b.Ready = plan.Duration(8 * time.Minute)
	b.MinOps, b.MinAround = 20, 1
	return b
}
