package report

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/nightly"
)

// WriteNightJUnit writes a night as JUnit XML: a case for each scenario and each reported bug, under names that stay,
// with all its seeds. A FAIL is a failure, an UNKNOWN is an error: no dashboard shows it as green.
func WriteNightJUnit(w io.Writer, s nightly.Summary) error {
	suite := newSuite("seatrial.nightly", s.Seconds, s.Started)
	suite.Properties = []junitProperty{{"verdict", string(s.Verdict)}, {"commit", clean(s.Commit)},
		{"kubernetes", clean(s.Kubernetes)}, {"list", s.List}}
	byName := map[string][]nightly.Outcome{}
	for _, o := range s.Results {
		byName[o.Name] = append(byName[o.Name], o)
	}
	for _, first := range s.Results {
		outcomes := byName[first.Name]
		delete(byName, first.Name)
		if len(outcomes) == 0 {
			continue // Told where its name came first.
		}
		var seconds float64
		var out, bad []string
		var verdicts []check.Verdict
		for _, o := range outcomes {
			verdicts = append(verdicts, o.Verdict)
			for _, a := range o.Attempts {
				seconds += a.Seconds
				out = append(out, fmt.Sprintf("%s: %s: %s (%s)", o.Title(), a.Verdict, a.Why, a.Run))
			}
			if o.Verdict != check.Pass {
				bad = append(bad, fmt.Sprintf("%s, %s, %s: %s", o.Title(), o.Kind, o.Tally(), o.Worst().Why))
			}
		}
		suite.add(first.Name, seconds, check.Worst(verdicts...), bad, out)
	}
	return suite.write(w)
}

// WriteNightProm writes a night in Prometheus' text format, for a textfile collector.
func WriteNightProm(w io.Writer, s nightly.Summary) error {
	m := &metrics{}
	m.metric("nightly_verdict", "gauge", "Which verdict the last night has.")
	m.sample(1, "", "verdict", string(s.Verdict), "commit", s.Commit, "kubernetes", s.Kubernetes)
	m.metric("nightly_units", "gauge",
		"Scenarios and cases of the last night, each with its seed, by what they came to.")
	for _, k := range nightly.Kinds() {
		m.sample(float64(s.Counts[k]), "", "kind", string(k))
	}
	m.metric("nightly_trials", "gauge", "Trials of the last night.")
	m.sample(float64(s.Trials), "")
	m.metric("nightly_trial_seconds", "gauge", "Time of all trials of the last night together.")
	m.sample(math.Round(s.Seconds*10)/10, "")
	if !s.Ended.IsZero() {
		m.metric("nightly_ended_timestamp_seconds", "gauge", "When the last trial ended.")
		m.sample(float64(s.Ended.Unix()), "")
	}
	return m.write(w)
}

// WriteNightMarkdown writes a night as Markdown: its verdict, and a row for each unit that is not as expected.
func WriteNightMarkdown(w io.Writer, s nightly.Summary) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s: nightly%s\n\n%d of %d as expected, commit `%s`.\n", s.Verdict,
		plan.Given(", Kubernetes %s", clean(s.Kubernetes)), s.Counts[nightly.Expected], s.Units+s.Soak, clean(s.Commit))
	if slower := s.Slower(); len(slower) > 0 {
		fmt.Fprintf(&b, "\nSlower than each of the last %d: %s.\n", nightly.TrendLength, strings.Join(slower, ", "))
	}
	head := "\n| verdict | kind | trial | seed | attempts | why |\n|---|---|---|---|---|---|\n"
	cell := strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "`", "'")
	for _, o := range s.Results {
		if o.Kind == nightly.Expected {
			continue
		}
		fmt.Fprintf(&b, "%s| %s | %s | %s | %d | %s | %s |\n", head, o.Verdict, o.Kind, o.Name, o.Seed,
			cell.Replace(o.Tally()), cell.Replace(clean(o.Worst().Why)))
		head = ""
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteNightAnnotations writes a workflow command of GitHub Actions for each unit that is not as expected: an error for
// FAIL, a warning for UNKNOWN.
func WriteNightAnnotations(w io.Writer, s nightly.Summary) error {
	var b strings.Builder
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A") // What ends a command or its data.
	for _, o := range s.Results {
		if o.Kind == nightly.Expected {
			continue
		}
		level := "warning"
		if o.Verdict == check.Fail {
			level = "error"
		}
		fmt.Fprintf(&b, "::%s title=%s %s::%s (%s)\n", level, o.Kind, o.Title(),
			data.Replace(clean(o.Worst().Why)), data.Replace(o.Tally()))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
