package suites_test

import (
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/scenarios"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/trial"
)

// The scenarios of StatefulSets are all of one shape, so the table is made of their list. All of them take hours, and
// are there for a label filter that asks for them: "set" is all, "set && plain" those in a calm sea, "set && light"
// those without databases, "set && kubelet-kill" those with that fault. Without one, the quick ones are run.
var _ = Describe("the rules of StatefulSets", Serial, Label("set", "statefulset"), func() {
	asked := regexp.MustCompile(`\bset\b`).MatchString(GinkgoLabelFilter())
	for _, s := range sets() {
		if !asked && !slices.Contains(quickSets(), s.Name) {
			continue
		}
		It(s.Name+": "+s.Summary, setLabels(s), SpecTimeout(15*time.Minute), func(ctx SpecContext) {
			out := carryOut(ctx, s, "run")
			expectVerdict(out, check.Pass)
			Expect(result(out, "coverage").Evidence).To(BeNumerically(">", 0), "evidence of coverage")
		})
	}
})

// quickSets are scaling, a canary and its rollback, and OnDelete, which take half a minute each without databases.
func quickSets() []string {
	return []string{"set-canary-light", "set-on-delete-light", "set-scale-light"}
}

// sets returns the scenarios of StatefulSets.
func sets() []plan.Scenario {
	return slices.DeleteFunc(scenarios.All(), func(s plan.Scenario) bool { return !strings.HasPrefix(s.Name, "set-") })
}

// setLabels tells what a scenario is of.
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

// The cases of StatefulSets, which no database makes slower.
var _ = DescribeTable("reported bugs of StatefulSets", Serial, Label("cases", "set", "light", "statefulset"),
	func(ctx SpecContext, name string) {
		c, ok := trial.AllParts().Case(name)
		Expect(ok).To(BeTrue(), "case %q", name)
		out := carryOut(ctx, c.Scenario, "reproduce")
		if c.Control {
			Expect(result(out, c.Finding.Check).Verdict).To(Equal(check.Pass))
			return
		}
		Expect(out.Report.Shows(c.Finding)).NotTo(BeEmpty(), "%s finds %q", c.Finding.Check, c.Finding.Says)
	},
	Entry("an update is complete before its last pod is available", "k8s-136831", SpecTimeout(6*time.Minute)),
	Entry("a pod that cannot be made keeps others from being deleted", "k8s-140858", SpecTimeout(8*time.Minute)),
	Entry("a broken revision stays although it is rolled back", "k8s-67250", SpecTimeout(6*time.Minute)),
)
