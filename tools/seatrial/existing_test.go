package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/clusters/lock"
	"github.com/seatrial/seatrial/e2e/certify/apitest"
)

// readyNode is a node on which a trial can begin.
func readyNode(name string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	n.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse},
	}
	return n
}

// existingCluster serves a cluster of a control plane and three workers; its server fails the test when it is asked for
// more than it can read.
func existingCluster(t *testing.T, change func(*apitest.Server, []corev1.Node)) (s *apitest.Server, kubeconfig string) {
	t.Helper()
	s = apitest.Serve(t)
	s.Objects = map[string]any{}
	nodes := []corev1.Node{readyNode("control"), readyNode("worker-1"), readyNode("worker-2"), readyNode("worker-3")}
	nodes[0].Labels["node-role.kubernetes.io/control-plane"] = ""
	change(s, nodes)
	for _, n := range nodes {
		s.Lists["/api/v1/nodes"] = append(s.Lists["/api/v1/nodes"], n)
	}
	for _, at := range [][2]string{{"control", "etcd-control"}, {"worker-1", "db-0"}, {"worker-2", "db-1"}} {
		s.Lists["/api/v1/pods"] = append(s.Lists["/api/v1/pods"], corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: at[1]}, Spec: corev1.PodSpec{NodeName: at[0]},
		})
	}
	return s, s.Kubeconfig(t)
}

// heldBy is the Lease of a harness on another host.
func heldBy(t *testing.T) any {
	t.Helper()
	holder, seconds, now := "elsewhere/b/1", int32(60), metav1.NewMicroTime(time.Now())
	return coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{Kind: "Lease", APIVersion: "coordination.k8s.io/v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: lock.LeaseNamespace, Name: lock.LeaseName},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now, AcquireTime: &now,
		},
	}
}

// TestAnExistingClusterIsRefusedUntouched runs the program itself: every refusal says why and ends with 254, nothing
// but GET is sent, and nothing is left on this machine.
func TestAnExistingClusterIsRefusedUntouched(t *testing.T) {
	none := func(*apitest.Server, []corev1.Node) {}
	namespace := func(labels map[string]string) func(*apitest.Server, []corev1.Node) {
		return func(s *apitest.Server, _ []corev1.Node) {
			s.Objects["/api/v1/namespaces/shop"] = corev1.Namespace{
				TypeMeta:   metav1.TypeMeta{Kind: "Namespace", APIVersion: "v1"},
				ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: labels},
			}
		}
	}
	for _, tc := range []struct {
		name     string
		change   func(*apitest.Server, []corev1.Node)
		yes      string
		workload bool
		want     string
		flags    []string
	}{
		{"no confirmation", none, "", false, `nothing was touched: to carry this plan out`, nil},
		{"another context", none, "prod", false,
			`--yes-context is "prod", and the context is "test": nothing was touched`, nil},
		{"a budget that is too small", none, "test", false, "nothing was touched: --fault-budget is 1m0s",
			[]string{"--fault-budget", "1m"}},
		{"a negative budget", none, "test", false, "nothing was touched: --fault-budget is -1h0m0s",
			[]string{"--fault-budget", "-1h"}},
		{"a node that is not there", none, "test", false, `--fault-nodes: "worker-9" is no node`,
			[]string{"--fault-nodes", "worker-1,worker-2,worker-9"}},
		{"too few nodes for faults", none, "test", false, `workers: 2 are needed, and cluster "test" has 1`,
			[]string{"--fault-nodes", "worker-1,control"}},
		{"a pod on another node", func(s *apitest.Server, _ []corev1.Node) {
			s.Objects["/api/v1/namespaces/shop/pods/db-0"] = corev1.Pod{
				TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, Spec: corev1.PodSpec{NodeName: "worker-3"},
			}
		}, "test", true, `strikes node "worker-3", which runs db-0 and is not on the list`,
			[]string{"--fault-nodes", "worker-1,worker-2"}},
		{"a second harness", func(s *apitest.Server, _ []corev1.Node) {
			s.Objects["/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/seatrial"] = heldBy(t)
		}, "test", false, "nothing was touched: cluster", nil},
		{"a node that is not Ready", func(_ *apitest.Server, nodes []corev1.Node) {
			nodes[2].Status.Conditions[0].Status = corev1.ConditionUnknown
		}, "test", false, "is not steady: node worker-2 is not Ready", nil},
		{"a cordoned node", func(_ *apitest.Server, nodes []corev1.Node) { nodes[1].Spec.Unschedulable = true },
			"test", false, "is not steady: node worker-1 is cordoned", nil},
		{"a full disk", func(_ *apitest.Server, nodes []corev1.Node) {
			nodes[3].Status.Conditions[1].Status = corev1.ConditionTrue
		}, "test", false, "is not steady: node worker-3 has DiskPressure", nil},
		{"too few workers", func(_ *apitest.Server, nodes []corev1.Node) {
			for i := range nodes {
				nodes[i].Labels["node-role.kubernetes.io/control-plane"] = ""
			}
		}, "test", false, `workers: 2 are needed, and cluster "test" has 0`, nil},
		{"a namespace that does not allow it", namespace(nil), "test", true,
			"has no label seatrial.dev/allow-trials=true", nil},
		{"a namespace that allows something else", namespace(map[string]string{"seatrial.dev/allow-trials": "yes"}),
			"test", true, "has no label seatrial.dev/allow-trials=true", nil},
		{"no namespace", none, "test", true, `there is no namespace "shop"`, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, kubeconfig := existingCluster(t, tc.change)
			u := newUntouched(t)
			args := []string{"run", "smoke", "--seed", "7", "--runs", u.runs, "--kubeconfig", kubeconfig}
			if tc.yes != "" {
				args = append(args, "--yes-context", tc.yes)
			}
			args = append(args, tc.flags...)
			if tc.workload {
				file := filepath.Join(u.root, "plan.json") // That alone may be there.
				text := workloadText(workloadFields())
				text = strings.Replace(text, `["true", "--fast"]`, `["docker"]`, 1) // It is on the PATH.
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				args = append(args, "--workload", file)
			}
			got := u.program(t, args...)
			if got.code != exitArguments || !strings.Contains(got.stderr, tc.want) || got.stdout != "" {
				t.Errorf("exit code %d, want %d and %q in:\n%s", got.code, exitArguments, tc.want, got.stderr)
			}
			for _, shown := range []string{
				"will be touched", "control, worker-1, worker-2, worker-3", "shop/db-0, shop/db-1",
			} {
				if !strings.Contains(got.stderr, shown) && !tc.workload && tc.name != "too few workers" {
					t.Errorf("%q is not shown in:\n%s", shown, got.stderr)
				}
			}
			if made := u.traces(t); len(made) > 0 {
				t.Errorf("it touched %q", made)
			}
			if len(s.Asked()) == 0 {
				t.Error("the cluster was not read")
			}
		})
	}
}

// TestANodeSelector: only the nodes that it selects are touched, must be steady, and count.
func TestANodeSelector(t *testing.T) {
	_, kubeconfig := existingCluster(t, func(_ *apitest.Server, nodes []corev1.Node) {
		nodes[3].Labels["spot"] = ""
		nodes[3].Spec.Unschedulable = true
	})
	at := []string{"--seed", "7", "--kubeconfig", kubeconfig}
	got := ask(t, append(at, "plan", "smoke", "--node-selector", "!spot,!node-role.kubernetes.io/control-plane")...)
	if want := "2 get a privileged pod and a service, until the end: worker-1, worker-2\n"; got.code != exitPass ||
		!strings.Contains(got.stdout, want) {
		t.Errorf("exit code %d, want %q in:\n%s", got.code, want, got.stdout)
	}
	for selector, want := range map[string]string{
		"!a b":       "--node-selector: found 'b', expected: ',' or 'end of string'; write for example pool=data",
		"pool=other": `--node-selector: "pool=other" selects no node of cluster "test"`,
		"spot":       "node worker-3 is cordoned",
		"!spot,node-role.kubernetes.io/control-plane": `workers: 2 are needed, and cluster "test" has 0`,
		"!spot": "nothing was touched: --fault-budget is 1s",
	} {
		u := newUntouched(t)
		args := append(at, "run", "smoke", "--runs", u.runs, "--yes-context", "test", "--node-selector", selector)
		if strings.HasPrefix(want, "nothing") {
			args = append(args, "--fault-budget", "1s")
		}
		got := u.program(t, args...)
		if got.code != exitArguments || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: exit code %d, want %d and %q in:\n%s", selector, got.code, exitArguments, want, got.stderr)
		}
		if made := u.traces(t); len(made) > 0 {
			t.Errorf("%s: it touched %q", selector, made)
		}
	}
	if got := ask(t, "run", "smoke", "--node-selector", "a"); got.code != exitArguments {
		t.Errorf("without --kubeconfig: exit code %d", got.code)
	}
}

// TestPlanShowsWhatItTouches: without a cluster, pods, times and undo; with one, its nodes, by GET alone.
func TestPlanShowsWhatItTouches(t *testing.T) {
	got := ask(t, "plan", "smoke", "--seed", "7")
	for _, want := range []string{"will be touched", "undone by", "kubelet-kill", "mysql-", "1m"} {
		if got.code != exitPass || !strings.Contains(got.stdout, want) {
			t.Errorf("exit code %d, want %q in:\n%s", got.code, want, got.stdout)
		}
	}
	_, kubeconfig := existingCluster(t, func(*apitest.Server, []corev1.Node) {})
	got = ask(t, "plan", "smoke", "--seed", "7", "--kubeconfig", kubeconfig)
	if want := "4 get a privileged pod and a service"; got.code != exitPass || !strings.Contains(got.stdout, want) {
		t.Errorf("exit code %d, want %q in:\n%s", got.code, want, got.stdout)
	}
}

// TestHostileFiles: of files with one value or name changed, each is refused with 254 and the field, or shown. The
// plans of illegalPlans are refused all; of cases and workload files, some changes are legal.
func TestHostileFiles(t *testing.T) {
	c, err := readCase(filepath.Join("..", "..", "examples", "case", "lost-row.yaml"), "")
	if err != nil {
		t.Fatal(err)
	}
	dir, refused, shown := t.TempDir(), 0, 0
	try := func(command []string, name, field string, text []byte) {
		file := filepath.Join(dir, "file.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		got := ask(t, append(command, file)...)
		switch {
		case got.code == exitPass:
			shown++
		case got.code != exitArguments || !strings.Contains(got.stderr, field) || got.stdout != "":
			t.Errorf("%s: exit code %d, want %d and %q in: %.400s", name, got.code, exitArguments, field, got.stderr)
		default:
			refused++
		}
		if strings.ContainsAny(got.stderr+got.stdout, "\x1b\x00\u202e") {
			t.Errorf("%s: shows what a terminal would obey", name)
		}
	}
	for _, f := range mutateValues("case", c).cases {
		field := lastField(f.Field)
		if !json.Valid(f.Text) {
			field = "cannot be read" // The line and the column are named.
		}
		try([]string{"plan", "--case"}, f.Name, field, f.Text)
	}
	values := append(hostile(), "null", "[]", "{}", `""`, "-1", "1e99", "3.5", "99999999999999999999", "2147483648")
	for i, v := range values {
		for j := range 4 {
			fields := workloadFields()
			at := (i*4 + j) % len(fields)
			fields[at][1] = v
			try([]string{"plan", "smoke", "--workload"}, fields[at][0]+" "+v, lastField(fields[at][0]),
				[]byte(workloadText(fields)))
		}
	}
	if refused < 200 {
		t.Errorf("%d files refused, want 200 at least", refused)
	}
	t.Logf("%d files refused, %d shown", refused, shown)
}

// lastField is the last name of a path, without an index: what contains it may be what is wrong.
func lastField(path string) string {
	path = path[strings.LastIndex(path, ".")+1:]
	name, _, _ := strings.Cut(path, "[")
	if strings.HasPrefix(name, `"`) { // An unknown name, which is quoted and cut.
		return ""
	}
	return name
}
