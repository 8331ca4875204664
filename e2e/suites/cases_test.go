package suites_test

import (
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/scenarios"
	"github.com/seatrial/seatrial/e2e/check"
)

// Every reported bug is a spec; a finding of its own decides, as in `make cases`. Without a filter only quickCases run.
var _ = Describe("a reported bug", Serial, Label("cases"), func() {
	for _, c := range scenarios.Cases() {
		if !asked("cases") && !slices.Contains(quickCases(), c.Name) {
			continue
		}
		It(c.Name+": "+c.Summary, needsVersion(plan.Make(c, 1)), SpecTimeout(25*time.Minute), func(ctx SpecContext) {
			out := carryOut(ctx, c, "reproduce")
			if c.Control {
				Expect(out.Report.Broken(c)).To(BeEmpty())
				return
			}
			Expect(out.Report.Shows(c.Finding)).NotTo(BeEmpty(), "%s finds %q", c.Finding.Check, c.Finding.Says)
			if c.Expect == string(check.Fail) {
				expectVerdict(out, check.Fail)
			}
		})
	}
})

// quickCases are a volume mounted on two nodes, whose rows are lost, and a broken revision that stays after a rollback.
func quickCases() []string { return []string{"k8s-121937", "k8s-67250"} }
