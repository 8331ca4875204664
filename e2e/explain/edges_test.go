package explain_test

import (
	"strings"
	"testing"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/explain"
	"github.com/seatrial/seatrial/e2e/world"
)

// explained is the diagnosis at +60 s, and all of its words on one line.
func explained(t *testing.T, w *maker) (explain.Diagnosis, string) {
	t.Helper()
	d := explain.At(world.New(w.history()), at(60), explain.DefaultBound)[0]
	return d, strings.Join(strings.Fields(text(t, d)), " ")
}

const overQuota = `create Pod web-2 in StatefulSet web failed error: pods "web-2" is forbidden: exceeded quota: ` +
	`small, requested: pods=1, used: pods=2, limited: pods=2`

// web-2 was refused, and then made; that it was made the controller did not tell, since it may tell only so much. Now
// the pod was deleted a moment ago.
func TestRefusedLongAgo(t *testing.T) {
	w := newMaker(3)
	w.up(2, 0, 1)
	w.notice(10, "StatefulSet", "web", "FailedCreate", overQuota)
	w.up(20, 2)
	w.drop(59.9, "pods", "trial", "web-2")
	d, says := explained(t, w)
	if d.Outlook != explain.Transient || strings.Contains(says, "was refused") {
		t.Errorf("outlook %s: %s", d.Outlook, says)
	}
}

// The quota is that of a fault, which will be healed.
func TestRefusedByAFault(t *testing.T) {
	w := newMaker(3)
	w.up(2, 0, 1)
	w.add(5, history.Event{Kind: history.KindFault, Source: "guard", Fault: &history.Fault{Step: 5, Name: "pod-quota",
		Stage: history.StageInjected, Takes: []string{"quota"}}})
	w.notice(10, "StatefulSet", "web", "FailedCreate", overQuota)
	d, says := explained(t, w)
	if d.Outlook != explain.Transient || !strings.Contains(says, "step 5, pod-quota, was carried out") {
		t.Errorf("outlook %s: %s", d.Outlook, says)
	}
}

// The readiness probe of web-1 fails; then the API server is stopped, and no kubelet can renew its lease.
func TestNoLeaseWithoutAnAPIServer(t *testing.T) {
	w := newMaker(3)
	w.up(2, 0, 1, 2)
	w.pod(20, 1, podOf{phase: "Running", node: "worker2", made: 2, turned: 20, containers: runs()})
	w.fault(6, "apiserver-stop", "control-plane", 25, 0)
	w.silent["worker"], w.silent["worker2"] = 25, 25
	if _, says := explained(t, w); strings.Contains(says, "renewed its lease") ||
		!strings.Contains(says, "its readiness probe has not passed") {
		t.Error(says)
	}
}

// The trial was given a part of the cluster, --nodes: worker9 is not of it, and there all the same.
func TestNodesThatAreNotOfTheTrial(t *testing.T) {
	w := newMaker(3)
	w.up(2, 0, 1, 2)
	w.pod(20, 1, podOf{phase: "Running", node: "worker9", made: 2, turned: 20, containers: runs()})
	if _, says := explained(t, w); strings.Contains(says, "does not exist") {
		t.Error(says)
	}
	w = newMaker(3)
	w.up(2, 0, 1, 2)
	w.volume(18, "pv-1", "worker9")
	w.drop(19, "pods", "trial", "web-1")
	w.pod(20, 1, podOf{phase: "Pending", made: 20, turned: 20,
		condition: unscheduled("0/9 nodes are available: 1 Insufficient cpu, 8 node(s) didn't match " +
			"PersistentVolume's node affinity.")})
	if d, says := explained(t, w); d.Outlook == explain.Permanent || strings.Contains(says, "none of the") {
		t.Errorf("outlook %s: %s", d.Outlook, says)
	}
}
