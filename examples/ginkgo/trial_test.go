// Package ginkgo_test is an example of a Ginkgo suite that runs trials.
//
//	go test ./examples/ginkgo                         # judges saved runs, needs no cluster
//	SEATRIAL_LONG=1 go test -timeout 1h ./examples/ginkgo
package ginkgo_test

import (
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seatrial/seatrial/e2e/trialtest"
	"github.com/seatrial/seatrial/e2e/trialtest/ginkgotest"
)

func TestTrials(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "trials of a database")
}

// cluster is the cluster of the suite.
var cluster *trialtest.Cluster

var _ = BeforeSuite(func(ctx SpecContext) {
	if os.Getenv("SEATRIAL_LONG") == "" {
		return
	}
	cluster = ginkgotest.Open(ctx, trialtest.Options{
		Scenarios: []string{"smoke"}, Cluster: os.Getenv("SEATRIAL_CLUSTER"), Runs: "../../runs",
	})
}, NodeTimeout(time.Hour))

var _ = Describe("the database", func() {
	It("keeps every acknowledged row while nodes fail", Serial, Label("disruptive", "slow"),
		SpecTimeout(12*time.Minute), func(ctx SpecContext) {
			if cluster == nil {
				Skip("NOT RUN: needs a cluster: make long")
			}
			Expect(ginkgotest.Run(ctx, cluster, "smoke")).To(ginkgotest.Pass())
		})

	It("passed in a saved run, and failed in another", func() {
		passed, err := trialtest.Judge("../../fixtures/recorded/smoke-861908-pass")
		Expect(err).NotTo(HaveOccurred())
		Expect(passed).To(ginkgotest.Pass())
		failed, err := trialtest.Judge("../../fixtures/recorded/selftest-deleted-row-42-fail")
		Expect(err).NotTo(HaveOccurred())
		Expect(failed).NotTo(ginkgotest.Pass())
	})
})
