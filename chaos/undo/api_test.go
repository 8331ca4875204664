package undo_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters/fake"
)

// marked is a list in which faults of two runs, and others, have left something.
const marked = `{"kind":"List","items":[
{"kind":"Node","metadata":{"name":"a","uid":"u2","resourceVersion":"7","labels":{"zone":"one"},
 "annotations":{"seatrial/cordon":"seatrial-r1-3","seatrial/out-of-service":"seatrial-r2-4","note":"mine"}},
 "spec":{"unschedulable":true,"taints":[{"key":"node.kubernetes.io/out-of-service","effect":"NoExecute"},
 {"key":"dedicated","value":"db","effect":"NoSchedule"}]}},
{"kind":"Node","metadata":{"name":"b","resourceVersion":"8","annotations":{"seatrial/cordon":"by hand"}},
 "spec":{"unschedulable":true}},
{"kind":"PersistentVolumeClaim","metadata":{"name":"data-0","namespace":"t","resourceVersion":"9",
 "finalizers":["kubernetes.io/pvc-protection","seatrial/seatrial-r1-5"],
 "annotations":{"seatrial/cordon":"seatrial-r1-3"}}},
{"kind":"ResourceQuota","metadata":{"name":"seatrial-r1-6","namespace":"t"}},
{"kind":"ResourceQuota","metadata":{"name":"seatrial-mine","namespace":"t"}}]}`

// patched is what is said to kubectl beside how it is called.
func patched(c *fake.Cluster) []string {
	var all []string
	for _, a := range c.Transcript.Acts() {
		if a.Argv[0] == "kubectl" && a.Argv[4] != "get" {
			all = append(all, strings.Join(a.Argv[4:], " "))
		}
		if a.Argv[0] == "rm" {
			all = append(all, strings.Join(a.Argv, " "))
		}
	}
	return all
}

// lists has an API server without Chaos Mesh answer lists so.
func lists(n *fake.Node, replies ...fake.Reply) {
	n.On([]string{"kubectl", "*", "*", "*", "get", "..."}, replies...)
	n.On([]string{"kubectl", "*", "*", "*", "get", "--raw=/apis"}, fake.Reply{Stdout: `{"groups":[{"name":"apps"}]}`})
}

func withAPI(kept string) *fake.Cluster {
	c := fake.NewCluster("c", 1)
	n := c.Node("control-plane")
	n.On([]string{"find", "/etc", "..."}, fake.Reply{Stdout: undo.AdminConf + "\n"})
	n.On([]string{"find", "/var/lib", "..."}, fake.Reply{Stdout: kept})
	n.On([]string{"kubectl", "..."})
	lists(n, fake.Reply{Stdout: marked}, fake.Reply{Stdout: `{"items":[]}`})
	n.On([]string{"rm", "..."})
	return c
}

func TestAPIUndoesWhatIsOursAndNothingElse(t *testing.T) {
	const held = "/var/lib/seatrial/held/seatrial-r1-8"
	c := withAPI(held + "\n" + held + "/node.json\n")
	c.Node("control-plane").On([]string{"cat", held + "/node.json"}, fake.Reply{Stdout: `{"name":"a","uid":"u1",
		"labels":{"zone":"two","disk":"fast"},"taints":[{"key":"dedicated","effect":"NoSchedule"},
		{"key":"node.kubernetes.io/not-ready","effect":"NoExecute"},{"key":"spot","effect":"NoSchedule"}]}`})
	var report undo.Report
	err := undo.API(t.Context(), undo.On(c.Node("control-plane")), undo.Of("r1", 0), time.Minute, &report)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`patch node a --type=merge --patch={"metadata":{"annotations":{"seatrial/cordon":null},` +
			`"resourceVersion":"7"},"spec":{"unschedulable":null}}`,
		`patch persistentvolumeclaim data-0 --type=merge --patch={"metadata":{"finalizers":` +
			`["kubernetes.io/pvc-protection"],"resourceVersion":"9"}} --namespace=t`,
		`delete resourcequota seatrial-r1-6 --namespace=t --ignore-not-found --wait=false`,
		`patch node a --type=merge --patch={"metadata":{"labels":{"disk":"fast"},"resourceVersion":"7"},` +
			`"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","effect":"NoExecute"},` +
			`{"key":"dedicated","value":"db","effect":"NoSchedule"},{"key":"spot","effect":"NoSchedule"}]}}`,
		`rm -rf ` + held,
	}
	if d := cmp.Diff(want, patched(c)); d != "" {
		t.Errorf("commands (-want +got):\n%s", d)
	}
	wantSaid := []string{
		"node a uncordoned (seatrial-r1-3)", "persistentvolumeclaim t/data-0 finalizer removed",
		"resourcequota t/seatrial-r1-6 deleted (seatrial-r1-6)",
		"node a was registered anew, and has what it had (seatrial-r1-8)",
	}
	if d := cmp.Diff(wantSaid, report.API); d != "" || report.Nothing() {
		t.Errorf("report (-want +got):\n%s", d)
	}
}

func TestAPIReleasesWhatWasNeverDeleted(t *testing.T) {
	const held = "/var/lib/seatrial/held/seatrial-r1-8"
	for name, was := range map[string]string{"torn": `{"name":"a","ui`, "never deleted": `{"name":"a","uid":"u2"}`} {
		t.Run(name, func(t *testing.T) {
			c := withAPI(held + "\n" + held + "/node.json\n")
			c.Node("control-plane").On([]string{"cat", held + "/node.json"}, fake.Reply{Stdout: was})
			only := undo.Of("r1", 8)
			err := undo.API(t.Context(), undo.On(c.Node("control-plane")), only, time.Minute, &undo.Report{})
			if d := cmp.Diff([]string{"rm -rf " + held}, patched(c)); d != "" || err != nil {
				t.Errorf("commands (-want +got):\n%s, %v", d, err)
			}
		})
	}
}

func TestAPIWaitsForTheServerAndForTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const held = "/var/lib/seatrial/held/seatrial-r1-8"
		c := withAPI(held + "\n" + held + "/node.json\n")
		n := c.Node("control-plane")
		n.On([]string{"cat", held + "/node.json"}, fake.Reply{Stdout: `{"name":"z","uid":"u1"}`})
		refused := fake.Reply{ExitCode: 1, Stderr: "connection refused"}
		lists(n, refused, refused, fake.Reply{Stdout: `{"items":[]}`},
			fake.Reply{Stdout: `{"items":[{"kind":"Node","metadata":{"name":"z","uid":"u9"}}]}`})
		begin := time.Now()
		var report undo.Report
		err := undo.API(t.Context(), undo.On(n), nil, time.Minute, &report)
		if err != nil || len(report.API) != 1 || time.Since(begin) != 3*time.Second {
			t.Errorf("got %s, %v after %s", report, err, time.Since(begin))
		}
		lists(n, refused)
		err = undo.API(t.Context(), undo.On(n), nil, time.Minute, &report)
		if !errors.Is(err, await.ErrTimeout) || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("got %v", err)
		}
		lists(n, fake.Reply{Stdout: "no JSON"})
		if err = undo.API(t.Context(), undo.On(n), nil, time.Minute, &report); !errors.Is(err, await.ErrTimeout) {
			t.Errorf("got %v", err)
		}
	})
}

// TestAPIKeepsAtWhatCannotBeRead has the file that says what a deleted Node had be unreadable: it is not forgotten.
func TestAPIKeepsAtWhatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const held = "/var/lib/seatrial/held/seatrial-r1-8"
		c := withAPI(held + "\n" + held + "/node.json\n")
		n := c.Node("control-plane")
		n.On([]string{"cat", held + "/node.json"}, fake.Reply{ExitCode: 1, Stderr: "input/output error"})
		err := undo.API(t.Context(), undo.On(n), nil, time.Minute, &undo.Report{})
		if !errors.Is(err, await.ErrTimeout) || !strings.Contains(err.Error(), "input/output error") {
			t.Errorf("got %v", err)
		}
	})
}
