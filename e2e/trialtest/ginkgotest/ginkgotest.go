// Package ginkgotest runs trials as Ginkgo specs. Like every assertion, its functions fail the spec that calls them.
package ginkgotest

import (
	"context"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"github.com/onsi/gomega/gcustom"
	"github.com/onsi/gomega/types"

	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/trialtest"
)

// Open opens the cluster of a suite, for BeforeSuite, and closes it at the end of the suite. Without Options.Seed the
// plans have Ginkgo's seed. Progress goes to GinkgoWriter.
func Open(ctx context.Context, o trialtest.Options) *trialtest.Cluster {
	ginkgo.GinkgoHelper()
	c, err := trialtest.Open(ctx, WithDefaults(o))
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	ginkgo.DeferCleanup(func(ctx ginkgo.SpecContext) { gomega.Expect(c.Close(ctx)).To(gomega.Succeed()) })
	return c
}

// WithDefaults fills in seed and progress with Ginkgo's.
func WithDefaults(o trialtest.Options) trialtest.Options {
	if o.Seed == 0 {
		o.Seed = uint64(ginkgo.GinkgoRandomSeed())
	}
	if o.Progress == nil {
		o.Progress = ginkgo.GinkgoWriter
	}
	return o
}

// Run runs a scenario. A progress report of Ginkgo (SIGUSR1, PollProgressAfter) says where the trial stands. The report
// of the spec gets scenario, run directory and verdict, and the report of the trial if the spec fails.
func Run(ctx context.Context, c *trialtest.Cluster, scenario string) trialtest.Result {
	ginkgo.GinkgoHelper()
	ginkgo.By("trial " + scenario)
	detach := ginkgo.AttachProgressReporter(c.Status)
	defer detach()
	r, err := c.Run(ctx, scenario)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	ginkgo.AddReportEntry("run directory", r.Dir)
	ginkgo.AddReportEntry("verdict", string(r.Verdict))
	ginkgo.AddReportEntry("report of the trial", r.Text, ginkgo.ReportEntryVisibilityFailureOrVerbose)
	return r
}

// Pass matches a trialtest.Result with the verdict PASS. Its message on failure is the report of the trial.
func Pass() types.GomegaMatcher {
	return gcustom.MakeMatcher(func(r trialtest.Result) (bool, error) { return r.Verdict == check.Pass, nil }).
		WithTemplate("{{if .Failure}}{{.Actual.Err}}{{else}}the verdict is PASS:\n{{.Actual.Text}}{{end}}")
}
