// Package report renders a judged run for people and for machines: text, JUnit XML, and the verdict as JSON.
//
// Its promise: the same run, history and report give the same bytes, and nothing that came from a database, a pod or a
// kernel can move the cursor or colour the terminal. It is pure, and writes to the io.Writer that it is given.
package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/world"
)

// Options say how a text report looks.
type Options struct {
	Color bool // Colour the verdicts, by ANSI escapes.
	All   bool // Tell every check, reason and finding at full length, each finding with a timeline, and every checksum.
}

// Judged is a run as loaded from disk, with its judgement.
type Judged struct {
	Run    Run
	World  *world.World
	Report check.Report
	// Warnings say where the files of the run contradict each other (the history is what was judged), and what is left
	// out of its page.
	Warnings []string
	// Logs are lines of the nodes' logs from around the first finding, each after the moment in the trial.
	Logs []string
	// Kubelets are lines of the kubelets' logs that name a volume of the run.
	Kubelets []LogLine
}

// LogLine is a line of a node's log about a volume.
type LogLine struct {
	Node, Volume, Text string
	At                 time.Duration // Since the trial began, by the node's clock.
}

// story is all that a report is made from.
type story struct {
	Judged
	all     bool
	plan    plan.Plan
	planned bool
	start   history.Time
	faults  []world.Fault // In the order of the plan's steps.
}

func newStory(j Judged) *story {
	s := &story{Judged: j, start: j.World.Begin()}
	if plans := s.World.Of(history.KindPlan); len(plans) > 0 {
		p, err := plan.Decode(plans[0].Plan) // Though it be not legal, as for a judge it must be.
		if s.planned = err == nil; s.planned {
			s.plan, s.faults = p, world.FaultLives(p, s.World.Of(history.KindFault))
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
	p.blank()
	for _, item := range About(j) {
		p.text(fmt.Sprintf("  %-10s ", item.Name), item.Value)
	}
	s.checks(p)
	s.findings(p)
	s.reasons(p)
	p.heading("NOT JUDGED")
	for _, u := range s.Report.NotJudged {
		p.text("  "+short(u.Check)+": ", u.Promise+" Not judged: "+u.Why+".")
	}
	s.stalls(p)
	s.stuck(p)
	s.planSection(p)
	s.faultTable(p)
	s.awaits(p)
	s.volumes(p)
	s.checksums(p)
	s.notes(p)
	s.verdict(p)
	s.because(p)
	return p.write(w)
}

// WorstFirst returns results in the order FAIL, UNKNOWN, PASS, and else as they are.
func WorstFirst(results []check.Result) []check.Result {
	order := map[check.Verdict]int{check.Fail: -1, check.Pass: 1}
	return slices.SortedStableFunc(slices.Values(results), func(a, b check.Result) int {
		return cmp.Compare(order[a.Verdict], order[b.Verdict])
	})
}

// checks puts the checks, those that did not pass first. Where some did not, of those that passed a line is enough.
func (s *story) checks(p *page) {
	p.heading("CHECKS")
	var rows []row
	var passed []string
	for _, r := range WorstFirst(s.Report.Results) {
		evidence := fmt.Sprintf("(%d %s)", r.Evidence, r.Unit)
		if r.Verdict == check.Pass && s.Report.Verdict != check.Pass && !s.all {
			passed = append(passed, r.Check+" "+evidence)
			continue
		}
		rows = append(rows, row{[]string{r.Check, string(r.Verdict), r.Promise + " " + evidence}, r.Verdict})
	}
	p.table([]column{{"check", 16, false}, {"verdict", 0, false}, {"promise, and the evidence for it", 0, false}},
		rows)
	if len(passed) > 0 {
		p.text("  passed: ", strings.Join(passed, ", "))
	}
}

// reasonMost bounds the characters of a reason where something worse is shown.
const reasonMost = 240

// Reasons returns why checks could not be shown, a reason of several checks once: its name is theirs.
func Reasons(results []check.Result) []Item {
	var all []Item
	for _, r := range results {
		for _, reason := range r.Reasons {
			if i := slices.IndexFunc(all, func(item Item) bool { return item.Value == reason }); i >= 0 {
				all[i].Name += ", " + r.Check
				continue
			}
			all = append(all, Item{Name: r.Check, Value: reason})
		}
	}
	return all
}

// reasons says why checks are UNKNOWN. Of reasons that differ only in names and numbers the first one is told.
func (s *story) reasons(p *page) {
	p.heading("NOT SHOWN, AND WHY")
	all := Reasons(s.Report.Results)
	for i, of := range all {
		reason, more := of.Value, 0
		alike := func(other Item) bool { return other.Name == of.Name && pattern(other.Value) == pattern(of.Value) }
		if !s.all {
			if slices.IndexFunc(all, alike) < i {
				continue
			}
			for _, other := range all[i+1:] {
				if alike(other) {
					more++
				}
			}
			if s.Report.Verdict == check.Fail {
				reason = clip(reason, reasonMost)
			}
		}
		if more > 0 {
			reason += fmt.Sprintf(" (and %d more like it, see --all)", more)
		}
		if strings.Contains(of.Name, ", ") {
			p.text("  ", of.Name+": "+reason)
			continue
		}
		p.text("  "+short(of.Name)+": ", reason)
	}
}

// pattern is a sentence without the names and numbers in it: words with digits, and what is in quotes.
func pattern(sentence string) string {
	words := strings.Fields(sentence)
	for i, word := range words {
		if strings.ContainsAny(word, `0123456789"`) {
			words[i] = "#"
		}
	}
	return strings.Join(words, " ")
}

func (s *story) notes(p *page) {
	p.heading("NOTES")
	none := true
	for _, r := range s.Report.Results {
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
	for line := range strings.Lines(s.plan.RenderAt(s.failingStep())) {
		p.raw("  " + strings.TrimSuffix(line, "\n"))
	}
}

// failingStep is the first step that did not end, or ended badly; when there is none, the step of the first fault that
// was active in the first violation, or the step that was running then. It is 0 when nothing went wrong.
func (s *story) failingStep() int {
	first, broken := s.firstFinding()
	running := 0
	for _, st := range s.plan.AllSteps() {
		switch step := s.World.StepPhase(st.N); {
		case step.Begin == nil:
		case step.End == nil || step.End.Phase.Error != "":
			return st.N
		case broken && step.Begin.Span.NotBefore <= first.Span.NotBefore:
			running = st.N
		}
	}
	for _, name := range first.Faults {
		for _, f := range s.faults {
			if f.String() == name {
				return f.Step
			}
		}
	}
	return running
}

// faultTable puts a line for every planned fault: when it began, and how long each part of its life took.
func (s *story) faultTable(p *page) {
	var rows []row
	for _, f := range s.faults {
		rows = append(rows, s.faultRow(f))
	}
	p.section("FAULTS", []column{
		{"step", 0, true}, {"fault", 18, false}, {"node", 24, false}, {"victim", 14, false}, {"began", 0, true},
		{"injected", 0, true}, {"shown", 0, true}, {"held", 0, true}, {"healed", 0, true}, {"gone", 0, true},
	}, rows, "injected, healed: time the act took; shown, gone: time until it was seen; held: from shown to heal")
}

func (s *story) faultRow(f world.Fault) row {
	missing := "-"
	if len(f.Failed) > 0 {
		missing = "FAILED"
	}
	began, healed := missing, missing
	took := map[history.FaultStage]string{}
	var before *history.Event
	for _, stage := range []history.FaultStage{history.StageInjected, history.StageConfirmed, history.StageHealed,
		history.StageConfirmedHealed} {
		e := f.Facts[stage]
		took[stage] = missing
		switch {
		case e != nil && stage == history.StageInjected:
			began = "+" + seconds(e.Span.NotBefore.Sub(s.start))
			took[stage] = seconds(e.Span.Length())
		case e != nil && stage == history.StageHealed:
			healed = seconds(e.Span.Length())
			if before != nil {
				took[stage] = seconds(e.Span.NotBefore.Sub(before.Span.NotAfter))
			}
		case e != nil && before != nil:
			took[stage] = seconds(e.Span.NotAfter.Sub(before.Span.NotAfter))
		}
		before = e
	}
	return row{cells: []string{
		fmt.Sprint(f.Step), f.Name, cmp.Or(f.Node, "-"), cmp.Or(f.Victim, "-"), began, took[history.StageInjected],
		took[history.StageConfirmed], took[history.StageHealed], healed, took[history.StageConfirmedHealed],
	}}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

// awaits puts a line for everything that a step waited for and that has come: when it happened, how much later the
// harness knew of it, and how much later it went on.
func (s *story) awaits(p *page) {
	late := func(d time.Duration) string {
		if d < 10*time.Second {
			return fmt.Sprintf("%.1fms", float64(d.Microseconds())/1000)
		}
		return seconds(d)
	}
	var rows []row
	for _, e := range s.World.Of(history.KindAwait) {
		a := e.Await
		happened := a.Happened.NotAfter
		rows = append(rows, row{cells: []string{
			fmt.Sprint(a.Step), a.For, "+" + seconds(happened.Sub(s.start)), late(a.Known.Sub(happened)),
			late(a.Acted.Sub(happened)), a.What,
		}})
	}
	p.section("AWAITED", []column{
		{"step", 0, true}, {"for", 0, false}, {"happened", 0, true}, {"known", 0, true}, {"acted", 0, true},
		{"what", 50, false},
	}, rows, "known, acted: how long after it happened the harness knew of it, and went on")
}

// volumes puts a line for every volume that was mounted: whose it is, and how many mounts each node had.
func (s *story) volumes(p *page) {
	if s.plan.Workload.External != nil {
		return // Which mount is of which volume is not known.
	}
	var rows []row
	for _, v := range s.World.Volumes().All {
		count := map[string]int{}
		for _, m := range v.Mounts {
			if m.Holder == "" {
				count[m.Node]++
			}
		}
		var nodes []string
		for _, node := range slices.Sorted(maps.Keys(count)) {
			nodes = append(nodes, fmt.Sprintf("%s %d", node, count[node]))
		}
		if len(nodes) > 0 {
			rows = append(rows, row{cells: []string{v.Name, cmp.Or(s.World.Owner(v), "-"), strings.Join(nodes, ", ")}})
		}
	}
	p.section("VOLUMES", []column{{"volume", 48, false}, {"pod", 20, false}, {"mounts by node", 0, false}}, rows, "")
}

// checksums puts a line for every table of every instance, in the manner of pt-table-checksum. Without --all it leaves
// out those without an error or a difference.
func (s *story) checksums(p *page) {
	all := s.World.Tables()
	var rows []row
	for _, t := range all {
		var errors, diffs int
		var first, last *history.Checksum
		for _, e := range t.Taken {
			c := e.Checksum
			if c.Error != "" {
				errors++
				continue
			}
			first, last = cmp.Or(first, c), c
			if c.Table64 != first.Table64 || c.RowHash != first.RowHash || c.Rows != first.Rows {
				diffs++
			}
		}
		if !s.all && errors == 0 && diffs == 0 || len(t.Taken) == 0 {
			continue
		}
		sum, hash, count, kind := "-", "-", "-", "written"
		if last != nil {
			sum, hash, count = fmt.Sprint(last.Table64), fmt.Sprintf("%.12s", last.RowHash), fmt.Sprint(last.Rows)
		}
		if t.Quiet {
			kind = "quiet"
		}
		at := t.Taken[len(t.Taken)-1].Span.NotAfter
		rows = append(rows, row{cells: []string{s.World.Clock(at), fmt.Sprint(errors), fmt.Sprint(diffs), count,
			fmt.Sprint(len(t.Taken)), sum, hash, kind, t.Instance + "." + t.Name}})
	}
	same := ""
	if n := len(all) - len(rows); n > 0 {
		same = plan.Count(n, "table") + " without an error or a difference; --all lists them"
	}
	if len(rows) == 0 && same != "" {
		p.heading("CHECKSUMS")
		p.text("  ", same)
	}
	p.section("CHECKSUMS", []column{
		{"TS", 0, true}, {"ERRORS", 0, true}, {"DIFFS", 0, true}, {"ROWS", 0, true}, {"TAKEN", 0, true},
		{"CHECKSUM", 0, true}, {"ROW_HASH", 0, false}, {"KIND", 0, false}, {"TABLE", 0, false},
	}, rows, same)
}
