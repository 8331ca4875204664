package suites_test

import (
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/scenarios"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/trial"
)

// All StatefulSet scenarios take hours and run only if the label filter asks for them: "set" is all, "set && plain"
// those without a fault, "set && light" those without databases, "set && kubelet-kill" those with that fault, "set &&
// violations" those that break a promise on purpose. Without a filter only quickSets run.
var _ = Describe("the rules of StatefulSets", Serial, Label("set", "statefulset"), func() {
	for _, s := range sets() {
		if !asked("set") && !slices.Contains(quickSets(), s.Name) {
			continue
		}
		It(s.Name+": "+s.Summary, setLabels(s), SpecTimeout(20*time.Minute), func(ctx SpecContext) {
			out := carryOut(ctx, s, "run")
			expectVerdict(out, check.Pass)
			Expect(result(out, "coverage").Evidence).To(BeNumerically(">", 0), "evidence of coverage")
		})
	}
})

// asked reports whether the label filter names one of these labels.
func asked(labels ...string) bool {
	return regexp.MustCompile(`\b(` + strings.Join(labels, "|") + `)\b`).MatchString(GinkgoLabelFilter())
}

// quickSets take half a minute each: scaling with a kubelet killed, a canary and its rollback, and OnDelete.
func quickSets() []string {
	return []string{"set-canary-light", "set-on-delete-light", "set-scale-light-kubelet-kill"}
}

// sets returns the scenarios of StatefulSets.
func sets() []plan.Scenario {
	return slices.DeleteFunc(scenarios.All(), func(s plan.Scenario) bool { return !strings.HasPrefix(s.Name, "set-") })
}

// setLabels derives labels from a scenario.
func setLabels(s plan.Scenario) Labels {
	p := plan.Make(s, 1)
	kind := Label("mysql", "slow")
	if p.Workload.Light {
		kind = Label("light")
	}
	for _, fault := range []string{"kubelet-kill", "manager-kill", "node-partition", "node-reboot"} {
		if strings.HasSuffix(s.Name, "-"+fault) {
			return append(kind, "disruptive", fault)
		}
	}
	return append(kind, "plain")
}

// The cases of StatefulSets, without databases. They are in a container because the label filter is known only there.
var _ = Describe("reported bugs", Serial, Label("cases", "set", "light", "statefulset"), func() {
	DescribeTable("of StatefulSets", func(ctx SpecContext, name string) {
		c, ok := trial.AllParts().Case(name)
		Expect(ok).To(BeTrue(), "case %q", name)
		out := carryOut(ctx, c.Scenario, "reproduce")
		if c.Control {
			Expect(out.Report.Broken(c)).To(BeEmpty())
			return
		}
		Expect(out.Report.Shows(c.Finding)).NotTo(BeEmpty(), "%s finds %q", c.Finding.Check, c.Finding.Says)
	},
		Entry("an update is complete before its last pod is available", "k8s-136831", SpecTimeout(6*time.Minute)),
		Entry("a pod that cannot be made keeps others from being deleted", "k8s-140858", SpecTimeout(8*time.Minute)),
		Entry("a broken revision stays although it is rolled back", "k8s-67250", SpecTimeout(6*time.Minute)),
		fixedCases(),
	)
})

// fixedCases are bugs that are fixed in the Kubernetes of the node image: controls, run only on request.
func fixedCases() []TableEntry {
	if !asked("set", "cases") {
		return nil
	}
	return []TableEntry{
		Entry("a pod below the partition comes back at the revision that it had", "k8s-119685",
			SpecTimeout(8*time.Minute)),
		Entry("a pod that is not yet available is scaled away", "k8s-123918", SpecTimeout(6*time.Minute)),
	}
}
