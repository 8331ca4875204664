package suites_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/reporters"
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/trial"
)

// setUpBound covers a cold build of every image; with the images present the cluster takes about a minute.
const setUpBound = 60 * time.Minute

// at is the cluster of the specs: Ginkgo's closures can reach it only through a variable of the package.
var at struct{ place *trial.Place }

func TestSuites(t *testing.T) {
	if os.Getenv("SEATRIAL_E2E") == "" {
		t.Skip("NOT RUN: the specs on a real cluster; `make e2e` runs them (it sets SEATRIAL_E2E=1)")
	}
	RegisterFailHandler(Fail)
	suite, reporter := GinkgoConfiguration()
	suite.SemVerFilter = cmp.Or(suite.SemVerFilter, "kubernetes="+kubernetesVersion())
	RunSpecs(t, "Seatrial", suite, reporter)
}

// kubernetesVersion is that of the suite's cluster; SEATRIAL_KUBERNETES names another one than the default.
func kubernetesVersion() string {
	return strings.TrimPrefix(cmp.Or(os.Getenv("SEATRIAL_KUBERNETES"), offline.DefaultKubernetesVersion), "v")
}

// needsVersion says which versions of Kubernetes a plan is for: specs for others are skipped. A plan that names a
// version runs on no other one (trial.ValidateOn).
func needsVersion(p plan.Plan) ComponentSemVerConstraints {
	switch {
	case p.Kubernetes != "":
		return ComponentSemVerConstraint("kubernetes", "= "+strings.TrimPrefix(p.Kubernetes, "v"))
	case p.Workload.MaxUnavailable > 1: // Feature gate MaxUnavailableStatefulSet (KEP-961) is on by default from there.
		return ComponentSemVerConstraint("kubernetes", ">= 1.37.0")
	}
	return ComponentSemVerConstraint("kubernetes", ">= 1.34.0") // The oldest one with a node image.
}

// TestSpecsAreGatedByVersion reads the constraints as Ginkgo does.
func TestSpecsAreGatedByVersion(t *testing.T) {
	for _, tt := range []struct {
		scenario, version string
		runs              bool
	}{
		{"smoke", "1.37.0", true},
		{"smoke", "1.33.9", false},
		{"set-max-unavailable", "1.37.2", true},
		{"set-max-unavailable", "1.36.3", false},
		{"k8s-65580", "1.36.3", true},
		{"k8s-65580", "1.37.0", false},
	} {
		c, ok := trial.AllParts().Named(tt.scenario)
		filter, err := types.ParseSemVerFilter("kubernetes=" + tt.version)
		if !ok || err != nil {
			t.Fatalf("%s is known: %t, %v", tt.scenario, ok, err)
		}
		constraints := needsVersion(plan.Make(c, 1))["kubernetes"]
		if got := filter("kubernetes", constraints); got != tt.runs {
			t.Errorf("%s (%q) runs on %s: %t", tt.scenario, constraints, tt.version, got)
		}
	}
}

var _ = BeforeSuite(func(ctx SpecContext) {
	place, err := trial.Prepare(ctx, clusterOptions())
	Expect(err).NotTo(HaveOccurred())
	at.place = place
	DeferCleanup(func(ctx SpecContext) {
		if !kept() {
			Expect(place.Leave(ctx)).To(Succeed())
		}
	}, NodeTimeout(5*time.Minute))
}, NodeTimeout(setUpBound))

// kept reports whether an existing cluster is used, and kept.
func kept() bool { return os.Getenv("KEEP") != "" || os.Getenv("SEATRIAL_CLUSTER") != "" }

// clusterOptions are the options of the suite's cluster.
func clusterOptions() trial.ClusterOptions {
	return trial.ClusterOptions{
		Engine:      cmp.Or(os.Getenv("SEATRIAL_ENGINE"), "docker"),
		ClusterName: cmp.Or(os.Getenv("SEATRIAL_CLUSTER"), "seatrial-suites"),
		Reuse:       kept(),

		KubernetesVersion: "v" + kubernetesVersion(),

		Workers:  2,
		Storages: plan.Storages(),
		Progress: GinkgoWriter,
		Log:      slog.New(slog.NewTextHandler(GinkgoWriter, nil)),
	}
}

// runsDir is $ARTIFACTS/runs if that is set, otherwise runs/ at the top of the tree.
func runsDir() string {
	if dir := os.Getenv("ARTIFACTS"); dir != "" {
		return filepath.Join(dir, "runs")
	}
	return filepath.Join("..", "..", "runs")
}

// runScenario runs one scenario with the spec's seed.
func runScenario(ctx context.Context, scenario string) trial.Outcome {
	GinkgoHelper()
	s, ok := trial.AllParts().Named(scenario)
	Expect(ok).To(BeTrue(), "scenario %q", scenario)
	return carryOut(ctx, s, "run")
}

// carryOut runs a scenario with the seed of the specs and reports where the run is. Command is the command of the
// program that repeats it.
func carryOut(ctx context.Context, s plan.Scenario, command string) trial.Outcome {
	GinkgoHelper()
	seed := uint64(GinkgoRandomSeed())
	defer AttachProgressReporter(at.place.Status)()
	listening := listenUp()
	out, err := at.place.Run(ctx, trial.RunOptions{
		Plan: plan.Make(s, seed), RunsDir: runsDir(), Progress: GinkgoWriter,
		Header: report.Run{CommandLine: []string{"seatrial", command, s.Name, "--seed", fmt.Sprint(seed)}},
	})
	listening.expectNone()
	Expect(err).NotTo(HaveOccurred())
	AddReportEntry("seed", seed)
	AddReportEntry("run directory", out.Dir.Path())
	AddReportEntry("verdict", string(out.Report.Verdict))
	return out
}

// expectNone fails the spec if a program of Seatrial listened on a socket.
func (e *ears) expectNone() {
	GinkgoHelper()
	agents, found := e.end()
	Expect(found).To(BeEmpty(), "no program of Seatrial listens on a socket")
	Expect(agents).To(BeNumerically(">=", 3), "the agents on three nodes were checked")
}

var _ = ReportAfterSuite("junit", func(r Report) {
	dir := os.Getenv("ARTIFACTS")
	if dir == "" {
		return
	}
	// Names must not depend on labels: dashboards follow them.
	path := filepath.Join(dir, "junit_seatrial.xml")
	Expect(reporters.GenerateJUnitReportWithConfig(r, path, reporters.JunitReportConfig{
		OmitTimelinesForSpecState:          types.SpecStatePassed | types.SpecStateSkipped,
		OmitSpecLabels:                     true,
		OmitSpecSemVerConstraints:          true,
		OmitSpecComponentSemVerConstraints: true,
		OmitLeafNodeType:                   true,
		OmitSuiteSetupNodes:                true,
	})).To(Succeed())
})
