package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/e2e/check"
)

// WriteVerdict writes the report as indented JSON, the content of verdict.json. The same report gives the same bytes:
// it holds no map, no time of judgement, and nothing else that differs from one judgement to the next.
func WriteVerdict(w io.Writer, r check.Report) error { return writeJSON(w, "verdict", r) }

// Summary is a judged run in a few words: what the last lines of the text report say.
type Summary struct {
	Scenario string
	Seed     uint64
	Verdict  check.Verdict
	Why      string         // The first violation, or the first reason for UNKNOWN, in one sentence.
	Command  string         // Carries out the same plan again.
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

// WriteSummary writes the report in three lines or so, for a chat message: verdict and trial, why, and the command that
// repeats it.
func WriteSummary(w io.Writer, j Judged) error {
	s, p := newStory(j), &page{}
	s.title(p, "")
	s.because(p)
	return p.write(w)
}

// name is the trial's scenario and seed: those of the plan in the history, and those of run.json where there is none.
func (s *story) name() (string, uint64) {
	if s.planned {
		return s.plan.Scenario, s.plan.Seed
	}
	return s.Run.Scenario, s.Run.Seed
}

// title puts the verdict and the trial, and what more there is to say.
func (s *story) title(p *page, more string) {
	scenario, seed := s.name()
	what := fmt.Sprintf("  %s, seed %d", scenario, seed)
	if scenario == "" {
		what = "  a trial of which no plan is known"
	}
	p.verdict("", s.Report.Verdict, what+more)
}

// verdict puts the verdict and the checks that came to it.
func (s *story) verdict(p *page) {
	var names []string
	for _, r := range s.Report.Results {
		if r.Verdict == s.Report.Verdict && r.Verdict != check.Pass {
			names = append(names, r.Check)
		}
	}
	in := ""
	if len(names) > 0 {
		in = " in " + onOneLine(names)
	}
	p.blank()
	p.verdict("verdict:   ", s.Report.Verdict, in)
}

func (s *story) because(p *page) {
	p.text("because:   ", s.why())
	p.text("reproduce: ", s.reproduce())
}

// onOneLine lists as many names as fit beside a verdict, and counts the rest: the last lines are looked for by number.
func onOneLine(names []string) string {
	const room = 60
	list := names[0]
	for i, name := range names[1:] {
		if len(list)+len(name) > room {
			return fmt.Sprintf("%s and %d more", list, len(names)-1-i)
		}
		list += ", " + name
	}
	return list
}

// why says in one sentence why the verdict is what it is.
func (s *story) why() string {
	switch s.Report.Verdict {
	case check.Fail:
		if f, ok := s.firstFinding(); ok {
			return brief(f.Sentence)
		}
		return "A promise was broken, and the check that says so gives no finding."
	case check.Pass:
		not := ""
		if n := len(s.Report.NotJudged); n > 0 {
			not = fmt.Sprintf(" %d promises were not judged.", n)
		}
		return fmt.Sprintf("Every promise held: %d checks, each with enough evidence.%s", len(s.Report.Results), not)
	}
	if s.Run.CutShort != "" {
		return "The record of the trial broke off: " + s.Run.CutShort + "."
	}
	// What coverage says was not done explains what the others could not show.
	first := ""
	for _, r := range s.Report.Results {
		if len(r.Reasons) > 0 && (first == "" || r.Check == "coverage") {
			first = r.Check + ": " + r.Reasons[0]
		}
	}
	if first == "" {
		return "It could not be shown, and no check says why."
	}
	return "It could not be shown. " + first
}

// firstFinding is the finding that was proven first. What the workload came to in the end follows from the others.
func (s *story) firstFinding() (check.Finding, bool) {
	var all, aftermath []check.Finding
	for _, r := range s.Report.Results {
		switch r.Check {
		case "errant-gtid", "in-sync", "settle":
			aftermath = append(aftermath, r.Findings...)
		default:
			all = append(all, r.Findings...)
		}
	}
	if len(all) == 0 {
		all = aftermath
	}
	if len(all) == 0 {
		return check.Finding{}, false
	}
	return slices.MinFunc(all, func(a, b check.Finding) int {
		return cmp.Or(cmp.Compare(a.Span.NotAfter, b.Span.NotAfter), cmp.Compare(a.Span.NotBefore, b.Span.NotBefore))
	}), true
}

// reproduce is the command that carries out the same plan again. Scenario and seed do not give a plan that was read
// from a file or a run, or for a workload or a case; then it is the command line of the run.
func (s *story) reproduce() string {
	scenario, seed := s.name()
	args, verb := s.Run.CommandLine, "run"
	if len(args) > 1 {
		args = args[1:]
		verb = args[0]
	}
	line := "seatrial"
	var where string // The flags that name an existing cluster.
	var whole, seeded bool
	for i, arg := range args {
		line += " " + quote(arg)
		flag, _, one := strings.Cut(arg, "=")
		switch flag {
		case "--plan":
			whole, seeded = true, true
		case "--case", "--workload":
			whole = true
		case "--seed":
			seeded = true
		case "--kubeconfig", "--context", "--yes-context", "--node-selector", "--namespace", "-n", "--agent-image",
			"--node-hook", "--fault-nodes":
			where += " " + quote(arg)
			if !one && i+1 < len(args) {
				where += " " + quote(args[i+1])
			}
		}
	}
	switch {
	case verb == "replay" || whole && seeded:
		return line
	case whole:
		return fmt.Sprintf("%s --seed %d", line, seed)
	case scenario == "":
		return "not known: neither the history nor run.json names a scenario"
	case verb != "reproduce":
		verb = "run"
	}
	return fmt.Sprintf("seatrial %s %s --seed %d%s", verb, quote(scenario), seed, where)
}

// quote makes an argument safe to be pasted into a shell.
func quote(arg string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,@%+"
	if arg != "" && strings.Trim(arg, plain) == "" {
		return arg
	}
	return "'" + strings.ReplaceAll(clean(arg), "'", `'\''`) + "'"
}
