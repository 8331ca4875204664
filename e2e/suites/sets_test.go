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
)

// All StatefulSet scenarios take hours and run only if the label filter asks for them: "set" is all, "set && plain"
// those without a fault, "set && light" those without databases, "set && kubelet-kill" those with that fault, "set &&
// violations" those that break a promise on purpose. Without a filter only quickSets run.
var _ = Describe("the rules of StatefulSets", Serial, Label("set", "statefulset"), func() {
	for _, s := range sets() {
		if !asked("set") && !slices.Contains(quickSets(), s.Name) {
			continue
		}
		It(s.Name+": "+s.Summary, setLabels(s), needsVersion(plan.Make(s, 1)), SpecTimeout(20*time.Minute),
			func(ctx SpecContext) {
				out := carryOut(ctx, s, "run")
				expectVerdict(out, check.Pass)
				Expect(result(out, "coverage").Evidence).To(BeNumerically(">", 0), "evidence of coverage")
				Expect(out.Clean).To(BeTrue(), "nothing is left on the cluster")
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
