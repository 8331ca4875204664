package undo_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/chaos/undo"
)

// The objects on which faults of two runs, and others, have left something.
const (
	markedNodes = `{"items":[
{"kind":"Node","metadata":{"name":"a","uid":"u2","resourceVersion":"7","labels":{"zone":"one"},
 "annotations":{"seatrial/cordon":"seatrial-r1-3","seatrial/out-of-service":"seatrial-r2-4","note":"mine"}},
 "spec":{"unschedulable":true,"taints":[{"key":"node.kubernetes.io/out-of-service","effect":"NoExecute"},
 {"key":"dedicated","value":"db","effect":"NoSchedule"}]}},
{"kind":"Node","metadata":{"name":"b","resourceVersion":"8","annotations":{"seatrial/cordon":"by hand"}},
 "spec":{"unschedulable":true}},
{"kind":"Node","metadata":{"name":"c","uid":"u3","resourceVersion":"9"}}]}`
	markedQuotas = `{"items":[{"kind":"ResourceQuota","metadata":{"name":"seatrial-r1-6","namespace":"t",
 "labels":{"app.kubernetes.io/managed-by":"seatrial"}}},
{"kind":"ResourceQuota","metadata":{"name":"seatrial-mine","namespace":"t",
 "labels":{"app.kubernetes.io/managed-by":"seatrial"}}},
{"kind":"ResourceQuota","metadata":{"name":"seatrial-r1-7","namespace":"t"}}]}`
	markedMesh = `{"items":[{"kind":"StressChaos","metadata":{"name":"x","namespace":"t",
 "labels":{"seatrial/owner":"seatrial-r1-9"}}},{"kind":"StressChaos","metadata":{"name":"y","namespace":"t",
 "finalizers":["f"],"deletionTimestamp":"then","labels":{"seatrial/owner":"seatrial-r1-8"}}}]}`
)

// kubectl answers lists so, and keeps what else it is asked for.
type kubectl struct {
	lists map[string]string // By resource.
	fails error             // Of what changes something.
	asked []string
}

func (k *kubectl) run(_ context.Context, argv []string, _ string) (string, error) {
	if argv[4] != "get" {
		k.asked = append(k.asked, strings.Join(argv[4:], " "))
		return "", k.fails
	}
	list, ok := k.lists[argv[5]]
	if !ok {
		return "", errors.New(`error: the server doesn't have a resource type "` + argv[5] + `"`)
	}
	return list, nil
}

func TestUnmarkUndoesTheOwnersMarksAndNothingElse(t *testing.T) {
	patch := `patch node a --type=merge --patch={"metadata":{"annotations":{"seatrial/`
	for _, tc := range []struct {
		resource string
		step     int
		asked    string // What changes something; empty for nothing.
		did      string
		err      string
	}{
		{"nodes", 3, patch + `cordon":null},"resourceVersion":"7"},"spec":{"unschedulable":null}}`,
			"node a uncordoned (seatrial-r1-3)", ""},
		{"nodes", 4, "", "", ""}, // That of another run.
		{"nodes", 1, "", "", ""},
		{"resourcequotas", 6, "delete resourcequotas seatrial-r1-6 --namespace=t --ignore-not-found --wait=false",
			"resourcequota t/seatrial-r1-6 deleted (seatrial-r1-6)", ""},
		{"resourcequotas", 7, "", "", ""}, // Somebody's own, of such a name.
		{"stresschaos.chaos-mesh.org", 9,
			"delete stresschaos.chaos-mesh.org x --namespace=t --ignore-not-found --wait=false",
			"stresschaos t/x deleted (seatrial-r1-9)", "whether it goes is not known"},
		{"stresschaos.chaos-mesh.org", 8, "", "", `held by finalizers ["f"]`},
		{"iochaos.chaos-mesh.org", 9, "", "", ""}, // Not served.
		{"pods", 9, "", "", "doesn't have a resource type"},
	} {
		k := &kubectl{lists: map[string]string{
			"nodes": markedNodes, "resourcequotas": markedQuotas, "stresschaos.chaos-mesh.org": markedMesh,
		}}
		did, err := undo.Unmark(t.Context(), undo.Kubectl(k.run), &undo.Owner{Run: "r1", Step: tc.step}, tc.resource)
		if got := strings.Join(did, "; "); got != tc.did || (err != nil) != (tc.err != "") {
			t.Errorf("%s of step %d: %q, %v", tc.resource, tc.step, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s of step %d: got %v, want %q", tc.resource, tc.step, err, tc.err)
		}
		if d := cmp.Diff(tc.asked, strings.Join(k.asked, "\n")); d != "" {
			t.Errorf("%s of step %d (-want +got):\n%s", tc.resource, tc.step, d)
		}
	}
	k := &kubectl{lists: map[string]string{"nodes": markedNodes}}
	did, err := undo.Unmark(t.Context(), undo.Kubectl(k.run), undo.Of("r2", 4), "nodes")
	want := patch + `out-of-service":null},"resourceVersion":"7"},"spec":{"taints":` +
		`[{"key":"dedicated","value":"db","effect":"NoSchedule"}]}}`
	if d := cmp.Diff([]string{want}, k.asked); d != "" || err != nil || len(did) != 1 {
		t.Errorf("%q, %v (-want +got):\n%s", did, err, d)
	}
}

func TestUnmarkSaysWhatItCouldNotDo(t *testing.T) {
	busy := errors.New("the object has been modified")
	k := &kubectl{lists: map[string]string{"nodes": markedNodes, "resourcequotas": "no JSON"}, fails: busy}
	owner := undo.Of("r1", 3)
	did, err := undo.Unmark(t.Context(), undo.Kubectl(k.run), owner, "nodes")
	if !errors.Is(err, busy) || len(did) > 0 {
		t.Errorf("did %q, %v", did, err)
	}
	if _, err := undo.Unmark(t.Context(), undo.Kubectl(k.run), owner, "resourcequotas"); err == nil {
		t.Error("an answer that is no JSON passes")
	}
}

func TestADeletedNodeIsGivenBackWhatItHad(t *testing.T) {
	was := undo.NodeWas{
		Name: "a", UID: "u1", Labels: map[string]string{"zone": "two", "disk": "fast"},
		Annotations: map[string]string{"seatrial/cordon": "seatrial-r0-1", "csi.volume.kubernetes.io/nodeid": "{}"},
		Taints: []undo.Taint{
			{Key: "dedicated", Effect: "NoSchedule"}, {Key: "node.kubernetes.io/not-ready", Effect: "NoExecute"},
			{Key: "spot", Effect: "NoSchedule"}, {Key: "spot", Effect: "NoExecute"},
		},
		Cordoned: true,
	}
	k := &kubectl{lists: map[string]string{"nodes": markedNodes}}
	did, err := was.Restore(t.Context(), undo.Kubectl(k.run))
	if err != nil || did != "node a was registered again and has what it had" {
		t.Errorf("did %q, %v", did, err)
	}
	want := `patch node a --type=merge --patch={"metadata":{"labels":{"disk":"fast"},"resourceVersion":"7"},` +
		`"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","effect":"NoExecute"},` +
		`{"key":"dedicated","value":"db","effect":"NoSchedule"},{"key":"spot","effect":"NoSchedule"},` +
		`{"key":"spot","effect":"NoExecute"}]}}`
	if d := cmp.Diff([]string{want}, k.asked); d != "" {
		t.Errorf("commands (-want +got):\n%s", d)
	}
	k.asked = nil
	was.Name = "c"
	if _, err := was.Restore(t.Context(), undo.Kubectl(k.run)); err != nil || len(k.asked) != 1 ||
		!strings.Contains(k.asked[0], `"unschedulable":true`) {
		t.Errorf("%q, %v: want a cordon", k.asked, err)
	}
	k.asked = nil
	was.Name, was.UID = "a", "u2" // It was never deleted.
	if did, err := was.Restore(t.Context(), undo.Kubectl(k.run)); did != "" || err != nil || len(k.asked) > 0 {
		t.Errorf("did %q, %v: %q", did, err, k.asked)
	}
	was.Name = "z"
	_, err = was.Restore(t.Context(), undo.Kubectl(k.run))
	if err == nil || !strings.Contains(err.Error(), "not registered") {
		t.Errorf("got %v", err)
	}
}
