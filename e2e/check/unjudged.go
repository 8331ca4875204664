package check

import (
	"slices"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// Unjudged is a promise that was not judged, because an external workload gives no evidence of it.
type Unjudged struct {
	Check   string `json:"check"`
	Promise string `json:"promise"`
	Why     string `json:"why"`
}

// Reasons why an external workload gives no evidence.
const (
	noCalls    = "the CSI calls of a driver that is not Seatrial's are not recorded"
	noIdentity = "which device stands behind a volume that Seatrial did not make is not known"
	noFiles    = "volumes and data files that are not Seatrial's are not looked over"
	noProcess  = "which process serves the data is known of Seatrial's own databases alone"
	noWitness  = "no writer of Seatrial's is beside the data"
	noLocal    = "the rule is one of Seatrial's own local volumes"
)

// ofOwn returns the Check.Lacks of a check that has evidence only for Seatrial's own workloads and storage.
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

// neverMounted is the Check.Lacks of a check of the kubelet's mounts: it mounts nothing for hostPath volumes.
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

// ownVolumes returns the PersistentVolumes bound to claims in the namespace of the trial's StatefulSet, sorted by name.
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

// trialNamespace returns the namespace of the trial's StatefulSet, "" if it is not known.
func trialNamespace(w *world.World, p plan.Plan) string {
	if x := p.Workload.External; x != nil && x.Namespace != "" {
		return x.Namespace
	}
	return w.Sets().Named(p.Workload.StatefulSet).Namespace
}
