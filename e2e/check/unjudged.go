package check

import (
	"slices"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// Unjudged is a promise that was not judged, since the workload, which is not Seatrial's, gives no evidence of it.
type Unjudged struct {
	Check   string `json:"check"`
	Promise string `json:"promise"`
	Why     string `json:"why"`
}

// What only workloads and storages of Seatrial's own give evidence of.
const (
	noCalls    = "the CSI calls of a driver that is not Seatrial's are not recorded"
	noIdentity = "which device stands behind a volume that Seatrial did not make is not known"
	noFiles    = "volumes and data files that are not Seatrial's are not looked over"
	noProcess  = "which process serves the data is known of Seatrial's own databases alone"
	noWitness  = "no writer of Seatrial's is beside the data"
	noLocal    = "the rule is one of Seatrial's own local volumes"
)

// ofOwn is Check.Lacks of a check whose evidence Seatrial's own workloads and storages alone give.
func ofOwn(why string) func(*world.World) string {
	return func(w *world.World) string {
		if external(w) {
			return why
		}
		return ""
	}
}

func external(w *world.World) bool {
	t, err := w.Trial()
	return err == nil && t.Plan.Workload.External != nil
}

// neverMounted is Check.Lacks of a check of the kubelet's mounts: it makes none for volumes that are directories of
// nodes.
func neverMounted(w *world.World) string {
	if !external(w) {
		return ""
	}
	ours := ownVolumes(w)
	if len(ours) > 0 && !slices.ContainsFunc(ours, func(pv *world.PV) bool { return !pv.Directory }) {
		return "the volumes are of type hostPath: the kubelet mounts nothing for them"
	}
	return ""
}

// ownVolumes are the PersistentVolumes that claims of the trial's StatefulSet are bound to.
func ownVolumes(w *world.World) []*world.PV {
	t, err := w.Trial()
	if err != nil {
		return nil
	}
	var ours []*world.PV
	for _, name := range keys(w.Storage().PVs) {
		if pv := w.Storage().PVs[name]; pv.Namespace == trialNamespace(w, t.Plan) {
			ours = append(ours, pv)
		}
	}
	return ours
}

// trialNamespace is where the trial's StatefulSet is, empty when it was never seen.
func trialNamespace(w *world.World, p plan.Plan) string {
	if x := p.Workload.External; x != nil && x.Namespace != "" {
		return x.Namespace
	}
	return w.Sets().Named(p.Workload.StatefulSet).Namespace
}
