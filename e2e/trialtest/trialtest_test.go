package trialtest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/e2e-framework/pkg/env"
	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/trialtest"
	"github.com/seatrial/seatrial/e2e/trialtest/ginkgotest"
)

const recorded = "../../fixtures/recorded/"

// TestBadOptionsAreRefused holds that Open refuses bad options before it touches anything, and names field and fix.
func TestBadOptionsAreRefused(t *testing.T) {
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	text := `{apiVersion: v1, kind: Config, current-context: prod,
contexts: [{name: prod, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: u, user: {}}]}`
	workload := filepath.Join(dir, "workload.yaml")
	for name, content := range map[string]string{kubeconfig: text, workload: "statefulSet: db\nreplicas: -3\n"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	smoke := []string{"smoke"}
	for _, c := range []struct {
		name string
		o    trialtest.Options
		want []string
	}{
		{"nothing", trialtest.Options{}, []string{"Options.Scenarios is empty"}},
		{"unknown", trialtest.Options{Scenarios: []string{"smok"}},
			[]string{"Options.Scenarios", `did you mean "smoke"`}},
		{"no file", trialtest.Options{Scenarios: smoke, Workload: "none.yaml"},
			[]string{"Options.Workload", "none.yaml"}},
		{"bad file", trialtest.Options{Scenarios: smoke, Workload: workload}, []string{"Options.Workload", "replicas"}},
		{"no context", trialtest.Options{Scenarios: smoke, Kubeconfig: "none"}, []string{"Options.Kubeconfig", "none"}},
		{"not confirmed", trialtest.Options{Scenarios: smoke, Kubeconfig: kubeconfig},
			[]string{"nothing was touched", `YesContext is ""`, `"prod"`}},
		{"another", trialtest.Options{Scenarios: smoke, Kubeconfig: kubeconfig, YesContext: "test"},
			[]string{"nothing was touched", `YesContext is "test"`, `"prod"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := trialtest.Open(t.Context(), c.o)
			if err == nil {
				t.Fatal("Open took them")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v; want %q in it", err, want)
				}
			}
		})
	}
}

// TestASeedGivesItsPlans holds that equal options give equal plans.
func TestASeedGivesItsPlans(t *testing.T) {
	o := trialtest.Options{Scenarios: []string{"smoke", "k8s-121937"}, Seed: 7}
	first, err := o.Plans()
	if err != nil {
		t.Fatal(err)
	}
	second, err := o.Plans()
	if err != nil || len(first) != 2 || first[1].Seed != 7 {
		t.Fatalf("%v: %v", first, err)
	}
	if d := cmp.Diff(first, second); d != "" {
		t.Error(d)
	}
}

// TestOnlyPassIsNoError judges saved runs: the error of any other verdict is the report.
func TestOnlyPassIsNoError(t *testing.T) {
	for dir, want := range map[string]string{
		"smoke-861908-pass":              "",
		"selftest-deleted-row-42-fail":   "reproduce: seatrial run selftest-deleted-row --seed 42",
		"selftest-ipv6-open-42-unknown":  "verdict:   UNKNOWN",
		"k8s-61832-node-408149-fail":     "verdict:   FAIL",
		"a-run-that-is-not-there-1-fail": "open run",
	} {
		r, err := trialtest.Judge(recorded + dir)
		if err == nil {
			err = r.Err()
			matched, matchErr := ginkgotest.Pass().Match(r)
			if matchErr != nil || matched != (want == "") {
				t.Errorf("%s: Pass matches: %t, %v", dir, matched, matchErr)
			}
			if !matched && ginkgotest.Pass().FailureMessage(r) != err.Error() {
				t.Errorf("%s: the matcher says %s", dir, ginkgotest.Pass().FailureMessage(r))
			}
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v; want %q", dir, err, want)
		}
	}
	if err := (trialtest.Result{}).Err(); err == nil || !strings.Contains(err.Error(), string(check.Unknown)) {
		t.Errorf("no result: %v", err)
	}
	if _, err := ginkgotest.Pass().Match("PASS"); err == nil {
		t.Error("Pass matches a string")
	}
}

// TestFeatures runs this test again with features that must fail, and one that must pass.
func TestFeatures(t *testing.T) {
	feature := os.Getenv("SEATRIAL_TEST_FEATURE")
	if feature != "" {
		in := env.NewWithConfig(envconf.New())
		if dir, ok := strings.CutPrefix(feature, "judged "); ok {
			in.Test(t, trialtest.Judged(recorded+dir))
			return
		}
		in.Test(t, trialtest.Passes(feature))
		return
	}
	for feature, want := range map[string]string{
		"judged smoke-861908-pass":            "PASS: TestFeatures",
		"judged selftest-deleted-row-42-fail": "mysql-0 lost a row that it had acknowledged",
		"judged none":                         "open run",
		"smoke":                               "give trialtest.Setup to Environment.Setup",
	} {
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFeatures$", "-test.v")
		again.Env = append(os.Environ(), "SEATRIAL_TEST_FEATURE="+feature)
		out, err := again.CombinedOutput()
		if !strings.Contains(string(out), want) || (err == nil) != strings.HasPrefix(want, "PASS") {
			t.Errorf("%s: %v; want %q in\n%s", feature, err, want, out)
		}
	}
}

func TestFeatureLabels(t *testing.T) {
	labels := trialtest.Passes("smoke").Labels()
	if got := labels["fault"]; !slices.Contains(got, "kubelet-kill") || !slices.Contains(got, "node-partition") {
		t.Errorf("faults %v", got)
	}
	if !labels.Contains("scenario", "smoke") || labels.Contains("scenario", "other") {
		t.Errorf("labels %v", labels)
	}
}
