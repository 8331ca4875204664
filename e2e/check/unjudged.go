package check

import (
	"github.com/seatrial/seatrial/chaos/history"
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
	noGTIDs    = "the data client does not say which transactions an instance has (member.executed)"
)

// uncounted is the Check.Lacks of a check of GTIDs.
func uncounted(t *world.Trial) string {
	if t.Plan.Workload.External == nil || !t.Plan.Workload.Grouped() {
		return ""
	}
	for _, e := range t.Of(history.KindMember) {
		if e.Member.Executed != "" {
			return ""
		}
	}
	return noGTIDs
}

// ofOwn returns the Check.Lacks of a check that has evidence only for Seatrial's own workloads and storage.
func ofOwn(why string) func(*world.Trial) string {
	return func(t *world.Trial) string {
		if t.Plan.Workload.External != nil {
			return why
		}
		return ""
	}
}

// neverMounted is the Check.Lacks of a check of the kubelet's mounts: it mounts nothing for hostPath volumes.
func neverMounted(t *world.Trial) string {
	if t.Plan.Workload.External == nil {
		return ""
	}
	directories := false
	for _, pv := range t.Storage().PVs {
		switch {
		case pv.Namespace != trialNamespace(t):
		case !pv.Directory:
			return ""
		default:
			directories = true
		}
	}
	if directories {
		return "the volumes are of type hostPath: the kubelet mounts nothing for them"
	}
	return ""
}

// trialNamespace returns the namespace of the trial's StatefulSet, "" if it is not known.
func trialNamespace(t *world.Trial) string {
	if x := t.Plan.Workload.External; x != nil && x.Namespace != "" {
		return x.Namespace
	}
	return t.Sets().Named(t.Plan.Workload.StatefulSet).Namespace
}

// ofOthers reports whether the claim of a volume, nil if the API never showed it, is of another namespace.
func ofOthers(t *world.Trial, pv *world.PV) bool {
	return pv != nil && pv.Namespace != "" && pv.Namespace != trialNamespace(t)
}
