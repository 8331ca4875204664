package suites_test

import (
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/e2e/trial"
	"github.com/seatrial/seatrial/e2e/trialtest"
	"github.com/seatrial/seatrial/e2e/trialtest/ginkgotest"
)

var _ = Describe("a trial of MySQL on local volumes", Serial,
	Label("storage", "statefulset", "mysql", "disruptive"), func() {
		It("passes the smoke scenario: kubelet killed, node cut off, node rebooted, scaled to one and back",
			Label("smoke", "slow"), SpecTimeout(12*time.Minute), func(ctx SpecContext) {
				cluster, err := trialtest.On(at.place, ginkgotest.WithDefaults(
					trialtest.Options{Scenarios: []string{"smoke"}, Runs: runsDir()}))
				Expect(err).NotTo(HaveOccurred())
				listening := listenUp()
				out := ginkgotest.Run(ctx, cluster, "smoke")
				listening.expectNone()
				Expect(out).To(ginkgotest.Pass())
				for _, r := range out.Results {
					Expect(r.Evidence).To(BeNumerically(">", 0), "evidence of check %q", r.Check)
				}
				expectSameAgain(out.Dir)
			})
	})

var _ = Describe("a trial that proves nothing, or proves a loss, is never green", Serial,
	Label("selftest", "mysql"), func() {
		It("is UNKNOWN when the partition left IPv6 open", Label("network"), SpecTimeout(8*time.Minute),
			func(ctx SpecContext) {
				out := runScenario(ctx, "selftest-ipv6-open")
				expectVerdict(out, check.Unknown)
				Expect(allReasons(out, "coverage")).To(And(
					ContainSubstring("node-partition"), MatchRegexp(`-> \[[0-9a-f:]+\]:6443 connects`)))
			})

		It("FAILs, naming the row, when a row is deleted behind the workload's back",
			SpecTimeout(8*time.Minute),
			func(ctx SpecContext) {
				out := runScenario(ctx, "selftest-deleted-row")
				expectVerdict(out, check.Fail)
				rows := result(out, "rows")
				Expect(rows.Verdict).To(Equal(check.Fail))
				Expect(rows.Findings).To(HaveLen(1))
				Expect(rows.Findings[0].Subject).To(MatchRegexp(`mysql-\d+.*client \d+.*seq \d+`))
				Expect(rows.Findings[0].Events).NotTo(BeEmpty())
			})

		// It takes some minutes more than the others: only a label filter that names selftest runs it.
		if asked("selftest") {
			It("FAILs, naming file and page, when bytes are flipped on disk below what the servers have in memory",
				SpecTimeout(12*time.Minute), func(ctx SpecContext) {
					out := runScenario(ctx, "selftest-cached-page")
					expectVerdict(out, check.Fail)
					Expect(result(out, "checksums").Verdict).NotTo(Equal(check.Fail), "the servers saw nothing")
					s, _ := trial.AllParts().Named("selftest-cached-page")
					flips := 0
					for _, st := range plan.Make(s, uint64(GinkgoRandomSeed())).Steps {
						if t := st.Tamper; t != nil {
							flips++
							expectFinding(out, "integrity", fmt.Sprintf("quiet.ibd of mysql-%d:", t.Ordinal),
								fmt.Sprintf("page %d has a wrong checksum", t.Page))
						}
					}
					Expect(flips).To(Equal(20))
				})
		}

		It("is UNKNOWN when the clients never connect", SpecTimeout(8*time.Minute), func(ctx SpecContext) {
			out := runScenario(ctx, "selftest-silent-clients")
			expectVerdict(out, check.Unknown)
			Expect(result(out, "rows").Verdict).To(Equal(check.Unknown))
		})
	})

func expectVerdict(out trial.Outcome, want check.Verdict) {
	GinkgoHelper()
	text, err := out.Dir.ReadFile("report.txt")
	Expect(err).NotTo(HaveOccurred())
	Expect(out.Report.Verdict).To(Equal(want), "%s", text)
}

// expectSameAgain judges the saved run again: the verdict must be the same, byte for byte.
func expectSameAgain(path string) {
	GinkgoHelper()
	dir, err := rundir.Open(path)
	Expect(err).NotTo(HaveOccurred())
	before, err := dir.ReadFile(rundir.VerdictFile)
	Expect(err).NotTo(HaveOccurred())
	_, err = trial.JudgeAndWrite(dir, trial.AllParts().Checks)
	Expect(err).NotTo(HaveOccurred())
	after, err := dir.ReadFile(rundir.VerdictFile)
	Expect(err).NotTo(HaveOccurred())
	Expect(string(after)).To(Equal(string(before)))
}

func result(out trial.Outcome, name string) check.Result {
	GinkgoHelper()
	for _, r := range out.Report.Results {
		if r.Check == name {
			return r
		}
	}
	Fail("no check is called " + name)
	return check.Result{}
}

func allReasons(out trial.Outcome, name string) string {
	GinkgoHelper()
	return strings.Join(result(out, name).Reasons, "\n")
}
