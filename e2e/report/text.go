package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/world"
)

// Options say how a text report looks.
type Options struct {
	Color bool // Colour the verdicts, by ANSI escapes.
	All   bool // Tell every finding with a timeline of its own, and list every checksum.
}

// Judged is a run as loaded from disk, with its judgement.
type Judged struct {
	Run    Run
	World  *world.World
	Report check.Report
	// Warnings say where the files of the run contradict each other; the history is what was judged.
	Warnings []string
}

// story is all that a report is made from.
type story struct {
	run      Run
	world    *world.World
	report   check.Report
	warnings []string
	all      bool
	plan     plan.Plan
	planned  bool
	start    history.Time
	faults   []world.Fault // In the order of the plan's steps.
}

func newStory(j Judged) *story {
	s := &story{run: j.Run, world: j.World, report: j.Report, warnings: j.Warnings}
	if plans := s.world.Of(history.KindPlan); len(plans) > 0 {
		s.start = s.world.Begin()
		p, err := plan.Decode(bytes.NewReader(plans[0].Plan)) // Though it be not legal, as for a judge it must be.
		if s.planned = err == nil; s.planned {
			s.plan, s.faults = p, world.FaultLives(p, s.world.Of(history.KindFault))
		}
	}
	return s
}

// WriteText writes the report for people, at most 100 characters wide: the verdict, what was judged, the findings by
// cause with their proof and what happened around them, why what is unknown is so, and what was done. Its last lines
// are always the verdict, the first violation (or the first reason) in plain words, and the command that reproduces
// the trial.
func WriteText(w io.Writer, j Judged, o Options) error {
	s := newStory(j)
	s.all = o.All
	p := &page{color: o.Color}
	s.title(p, "")
	s.about(p)
	s.checks(p)
	s.findings(p)
	s.reasons(p)
	s.notJudged(p)
	s.stuck(p)
	s.planSection(p)
	s.faultTable(p)
	s.awaits(p)
	s.volumes(p)
	s.checksums(p)
	s.notes(p)
	s.ending(p)
	if _, err := w.Write(p.b.Bytes()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// WriteSummary writes the report in three lines or so, for a chat message: verdict and trial, why, and the command that
// repeats it.
func WriteSummary(w io.Writer, j Judged) error {
	s, p := newStory(j), &page{}
	s.title(p, "")
	s.because(p)
	if _, err := w.Write(p.b.Bytes()); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}

// name is the trial's scenario and seed: those of the plan in the history, and those of run.json where there is none.
func (s *story) name() (string, uint64) {
	if s.planned {
		return s.plan.Scenario, s.plan.Seed
	}
	return s.run.Scenario, s.run.Seed
}

// title puts the verdict and the trial, and what more there is to say.
func (s *story) title(p *page, more string) {
	scenario, seed := s.name()
	what := fmt.Sprintf("  %s, seed %d", scenario, seed)
	if scenario == "" {
		what = "  a trial of which no plan is known"
	}
	p.verdict("", s.report.Verdict, what+more)
}

func (s *story) about(p *page) {
	r := s.run
	p.blank()
	item := func(key, value string) {
		if value != "" {
			p.text(fmt.Sprintf("  %-10s ", key), value)
		}
	}
	started := ""
	if !r.Started.IsZero() {
		started = ", started " + r.Started.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	item("run", r.RunID+started)
	item("command", strings.Join(r.CommandLine, " "))
	dirty := ""
	if r.Dirty {
		dirty = " with changes that are in no commit"
	}
	if r.Commit != "" && r.Commit != "unknown" {
		item("seatrial", "commit "+r.Commit+dirty)
	}
	var versions []string
	for _, k := range slices.Sorted(maps.Keys(r.Versions)) {
		versions = append(versions, k+" "+r.Versions[k])
	}
	if r.NodeImageSource != "" {
		versions = append(versions, "node image source "+r.NodeImageSource)
	}
	item("versions", strings.Join(versions, ", "))
	item("host", r.Host.String())
	item("history", s.extent())
	for _, warning := range s.warnings {
		item("WARNING", warning)
	}
}

// String sums a host up in one line.
func (h Host) String() string {
	var parts []string
	add := func(set bool, format string, args ...any) {
		if set {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(h.OS != "", "%s", h.OS)
	add(h.Kernel != "", "kernel %s", h.Kernel)
	add(h.Arch != "", "%s", h.Arch)
	add(h.CPUs > 0, "%d CPUs", h.CPUs)
	add(h.MemoryMiB > 0, "%d MiB of memory", h.MemoryMiB)
	add(h.Engine != "", "%s", h.Engine)
	return strings.Join(parts, ", ")
}

func (s *story) extent() string {
	n := len(s.world.Events)
	if n == 0 {
		return "empty"
	}
	torn := ""
	if s.world.Truncated {
		torn = "; it is torn: its end is missing"
	}
	if s.run.CutShort != "" {
		torn += ": " + s.run.CutShort
	}
	return fmt.Sprintf("%d facts over %.1f s%s", n, s.end().Sub(s.start).Seconds(), torn)
}

// end is the latest moment of the last fact.
func (s *story) end() history.Time {
	if n := len(s.world.Events); n > 0 {
		return s.world.Events[n-1].Span.NotAfter
	}
	return s.start
}

func (s *story) checks(p *page) {
	p.heading("CHECKS")
	var rows []row
	for _, r := range s.report.Results {
		rows = append(rows, row{
			[]string{r.Check, string(r.Verdict), fmt.Sprintf("%s (%d %s)", r.Promise, r.Evidence, r.Unit)}, r.Verdict,
		})
	}
	p.table([]column{{"check", 16, false}, {"verdict", 0, false}, {"promise, and the evidence for it", 0, false}},
		rows)
}

func (s *story) reasons(p *page) {
	const most, length = 3, 240 // Of a check, and in characters, where something worse is shown.
	whole := s.all || s.report.Verdict != check.Fail
	titled := false
	for _, r := range s.report.Results {
		for i, reason := range r.Reasons {
			if !titled {
				p.heading("NOT SHOWN, AND WHY")
				titled = true
			}
			if !whole && i == most {
				p.text("  "+short(r.Check)+": ", fmt.Sprintf("and %d more, see --all", len(r.Reasons)-most))
				break
			}
			if !whole {
				reason = clip(reason, length)
			}
			p.text("  "+short(r.Check)+": ", reason)
		}
	}
}

// notJudged lists the promises that the workload gives no evidence of.
func (s *story) notJudged(p *page) {
	if len(s.report.NotJudged) == 0 {
		return
	}
	p.heading("NOT JUDGED")
	for _, u := range s.report.NotJudged {
		p.text("  "+short(u.Check)+": ", u.Promise+" Not judged: "+u.Why+".")
	}
}

func (s *story) notes(p *page) {
	p.heading("NOTES")
	none := true
	for _, r := range s.report.Results {
		for _, note := range r.Notes {
			if r.Check == "mounts" && strings.HasPrefix(note, "volume ") {
				continue // The volumes have a table of their own.
			}
			p.text("  "+short(r.Check)+": ", note)
			none = false
		}
	}
	if none {
		p.text("  ", "none")
	}
}

// planSection puts the plan with an arrow at the step where it went wrong.
func (s *story) planSection(p *page) {
	p.heading("PLAN")
	if !s.planned {
		p.text("  ", "the history has none that can be read")
		return
	}
	var b bytes.Buffer
	if err := s.plan.RenderAt(&b, s.failingStep()); err != nil {
		p.text("  ", err.Error())
		return
	}
	for line := range strings.Lines(b.String()) {
		p.raw("  " + strings.TrimSuffix(line, "\n"))
	}
}

// failingStep is the first step that did not end, or ended badly; when there is none, the step of the first fault that
// was active in the first violation, or the step that was running then. It is 0 when nothing went wrong.
func (s *story) failingStep() int {
	first, broken := s.firstFinding()
	running := 0
	for _, st := range s.plan.AllSteps() {
		switch step := s.world.StepPhase(st.N); {
		case step.Begin == nil:
		case step.End == nil || step.End.Phase.Error != "":
			return st.N
		case broken && step.Begin.Span.NotBefore <= first.Span.NotBefore:
			running = st.N
		}
	}
	for _, name := range first.Faults {
		step := 0
		if _, err := fmt.Sscanf(name, "step %d ", &step); err == nil {
			return step
		}
	}
	return running
}

// firstFinding is the finding that was proven first.
func (s *story) firstFinding() (check.Finding, bool) {
	var all []check.Finding
	for _, r := range s.report.Results {
		all = append(all, r.Findings...)
	}
	if len(all) == 0 {
		return check.Finding{}, false
	}
	return slices.MinFunc(all, func(a, b check.Finding) int {
		return cmp.Or(cmp.Compare(a.Span.NotAfter, b.Span.NotAfter), cmp.Compare(a.Span.NotBefore, b.Span.NotBefore))
	}), true
}

// firstReason is the first reason of coverage, and of any check when that has none: what was not done explains what
// could not be shown.
func (s *story) firstReason() string {
	first := ""
	for _, r := range s.report.Results {
		if len(r.Reasons) > 0 && (first == "" || r.Check == "coverage") {
			first = r.Check + ": " + r.Reasons[0]
		}
	}
	return first
}

// why says in one sentence why the verdict is what it is.
func (s *story) why() string {
	switch s.report.Verdict {
	case check.Fail:
		if f, ok := s.firstFinding(); ok {
			return brief(f.Sentence)
		}
		return "A promise was broken, and the check that says so gives no finding."
	case check.Pass:
		not := ""
		if n := len(s.report.NotJudged); n > 0 {
			not = fmt.Sprintf(" %d promises were not judged.", n)
		}
		return fmt.Sprintf("Every promise held: %d checks, each with enough evidence.%s", len(s.report.Results), not)
	}
	if s.run.CutShort != "" {
		return "The record of the trial broke off: " + s.run.CutShort + "."
	}
	if r := s.firstReason(); r != "" {
		return "It could not be shown. " + r
	}
	return "It could not be shown, and no check says why."
}

func (s *story) ending(p *page) {
	s.verdict(p)
	s.because(p)
}

func (s *story) because(p *page) {
	p.text("because:   ", s.why())
	p.text("reproduce: ", s.reproduce())
}

// verdict puts the verdict and the checks that came to it.
func (s *story) verdict(p *page) {
	var names []string
	for _, r := range s.report.Results {
		if r.Verdict == s.report.Verdict && r.Verdict != check.Pass {
			names = append(names, r.Check)
		}
	}
	in := ""
	if len(names) > 0 {
		in = " in " + onOneLine(names)
	}
	p.blank()
	p.verdict("verdict:   ", s.report.Verdict, in)
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

// reproduce is the command that carries the same plan out again. A plan that was read from a file is not to be had from
// its scenario and seed, and neither is a workload.
func (s *story) reproduce() string {
	for _, arg := range s.run.CommandLine {
		flag, _, _ := strings.Cut(arg, "=")
		if flag == "--plan" || flag == "--workload" {
			return strings.Join(append([]string{"seatrial"}, quoteAll(s.run.CommandLine[1:])...), " ")
		}
	}
	scenario, seed := s.name()
	if scenario == "" {
		return "not known: neither the history nor run.json names a scenario"
	}
	verb := "run"
	if len(s.run.CommandLine) > 1 && s.run.CommandLine[1] == "reproduce" {
		verb = "reproduce"
	}
	return fmt.Sprintf("seatrial %s %s --seed %d", verb, quote(scenario), seed)
}

func quoteAll(args []string) []string {
	quoted := make([]string, len(args))
	for i, a := range args {
		quoted[i] = quote(a)
	}
	return quoted
}

// quote makes an argument safe to be pasted into a shell.
func quote(arg string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,@%+"
	if arg != "" && strings.Trim(arg, plain) == "" {
		return arg
	}
	return "'" + strings.ReplaceAll(clean(arg), "'", `'\''`) + "'"
}
