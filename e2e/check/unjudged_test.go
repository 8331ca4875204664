package check_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// externalTrial is the smoke trial of an external StatefulSet: nothing is known about its volumes, files and processes.
func externalTrial() func([]history.Event) []history.Event {
	own := func(e *history.Event) bool {
		return slices.Contains([]history.Kind{history.KindVolume, history.KindInspection, history.KindWitness,
			history.KindProcess}, e.Kind)
	}
	return then(drop(own), edit(kind(history.KindPlan), func(e *history.Event) {
		p := historytest.SmokePlan()
		w := p.Workload
		p.Workload = plan.Workload{Name: plan.ExternalName, StatefulSet: w.StatefulSet, Replicas: w.Replicas,
			Clients: w.Clients, Interval: w.Interval, QuietRows: w.QuietRows, Storage: plan.StorageCluster,
			External: &plan.External{Manifests: "x", Port: 1, Command: []string{"true"}}}
		e.Plan, _ = json.Marshal(p)
	}))
}

// TestWhatIsNotJudgedIsNamed holds that each promise is either judged or, if the workload gives no evidence of it,
// named as not judged.
func TestWhatIsNotJudgedIsNamed(t *testing.T) {
	r := check.Run(trialOf(externalTrial()), check.All())
	var not []string
	for _, u := range r.NotJudged {
		not = append(not, u.Check)
		if u.Why == "" || u.Promise == "" {
			t.Errorf("%+v says not what, or why", u)
		}
		if slices.ContainsFunc(r.Results, func(res check.Result) bool { return res.Check == u.Check }) {
			t.Errorf("%s is judged and not judged", u.Check)
		}
	}
	want := []string{"attach-order", "detach-in-use", "detach-order", "integrity", "mounts", "pod-identity",
		"right-volume", "set-binding", "stage-order", "unpublish-in-use", "witness"}
	if !slices.Equal(not, want) {
		t.Errorf("not judged: %q, want %q", not, want)
	}
	for _, res := range r.Results {
		if res.Verdict != check.Pass {
			t.Errorf("%s: %s %q", res.Check, res.Verdict, res.Reasons)
		}
	}
	lost := check.Run(trialOf(then(externalTrial(), edit(kind(history.KindRows), func(e *history.Event) {
		if n := len(e.Rows.Rows); n > 0 {
			e.Rows.Rows = e.Rows.Rows[1:]
		}
	}))), check.All())
	if lost.Verdict != check.Fail {
		t.Errorf("rows are lost: %s", lost.Verdict)
	}
	if own := check.Run(trialOf(nil), check.All()); len(own.NotJudged) > 0 {
		t.Errorf("of a workload of Seatrial's own is not judged: %+v", own.NotJudged)
	}
}

// TestDirectoriesOfNodesAreNeverMounted holds that mount-residue does not judge hostPath volumes, which the kubelet
// does not mount, and says so.
func TestDirectoriesOfNodesAreNeverMounted(t *testing.T) {
	directories := editAll(kind(history.KindObject), func(e *history.Event) {
		if e.Object.Resource != "persistentvolumes" || e.Object.Raw == nil {
			return
		}
		var o map[string]any
		if err := json.Unmarshal(e.Object.Raw, &o); err != nil {
			t.Fatal(err)
		}
		spec, _ := o["spec"].(map[string]any)
		spec["hostPath"] = map[string]any{"path": "/data"}
		e.Object.Raw, _ = json.Marshal(o)
	})
	residue := []check.Check{check.MountResidue()}
	if r := check.Run(trialOf(then(externalTrial(), directories)), residue); len(r.NotJudged) != 1 {
		t.Errorf("%+v, want it not judged", r)
	}
	if r := check.Run(trialOf(directories), residue); len(r.NotJudged) != 0 {
		t.Errorf("%+v, want it judged: the volumes are Seatrial's", r)
	}
}
