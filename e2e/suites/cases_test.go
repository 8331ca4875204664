package suites_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/trial"
)

// The cases that take a minute or two; `make cases` runs all cases several times.
var _ = DescribeTable("reported bugs of volumes that can move", Serial, Label("cases", "storage", "mysql"),
	func(ctx SpecContext, name string) {
		c, ok := trial.AllParts().Case(name)
		Expect(ok).To(BeTrue(), "case %q", name)
		out := carryOut(ctx, c.Scenario, "reproduce")
		found := out.Report.Shows(c.Finding)
		if c.Control {
			Expect(out.Report.Broken(c)).To(BeEmpty())
			return
		}
		Expect(found).NotTo(BeEmpty(), "%s finds %q", c.Finding.Check, c.Finding.Says)
		expectVerdict(out, check.Fail)
	},
	Entry("the kubelet forgets a staged volume, which is mounted on two nodes", "k8s-121937",
		SpecTimeout(8*time.Minute)),
	Entry("a volume stays under a pod that terminates slowly while the kubelet dies", "k8s-113979",
		SpecTimeout(8*time.Minute)),
	Entry("nothing stays mounted of a pod that was force-deleted without its kubelet", "residue",
		SpecTimeout(8*time.Minute)),
)
