package report

import "github.com/seatrial/seatrial/e2e/check"

// Summary is a judged run in a few words: what the last lines of the text report say.
type Summary struct {
	Scenario string
	Seed     uint64
	Verdict  check.Verdict
	Why      string         // The first violation, or the first reason for UNKNOWN, in one sentence.
	Command  string         // What carries the same plan out again.
	First    *check.Finding // The first violation, nil without one.
}

// Summarize returns the summary of a run.
func Summarize(j Judged) Summary {
	s := newStory(j)
	scenario, seed := s.name()
	sum := Summary{Scenario: scenario, Seed: seed, Verdict: j.Report.Verdict, Why: s.why(), Command: s.reproduce()}
	if f, ok := s.firstFinding(); ok {
		sum.First = &f
	}
	return sum
}
