package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/e2e/check"
)

// The elements of JUnit XML, as far as dashboards read them.
type (
	junitSuites struct {
		XMLName  xml.Name   `xml:"testsuites"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Errors   int        `xml:"errors,attr"`
		Suite    junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Time       string          `xml:"time,attr"`
		Timestamp  string          `xml:"timestamp,attr,omitempty"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitWrong   `xml:"failure"`
		Error   *junitWrong   `xml:"error"`
		Skipped *junitSkipped `xml:"skipped"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitSkipped struct {
		Message string `xml:"message,attr"`
	}
	junitWrong struct {
		Type    string `xml:"type,attr"`
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes the report as JUnit XML: a suite for the trial and a case for each check, under names that stay. A
// FAIL is a failure, an UNKNOWN is an error: no dashboard shows it as green. A report without any result is an error
// too.
func WriteJUnit(w io.Writer, j Judged) error {
	s, run, r := newStory(j), j.Run, j.Report
	scenario, _ := s.name()
	suite := junitSuite{
		Name: clean("seatrial." + scenario), Time: fmt.Sprintf("%.3f", s.world.Last().Sub(s.start).Seconds()),
		Properties: s.properties(),
	}
	if !run.Started.IsZero() {
		suite.Timestamp = run.Started.UTC().Format("2006-01-02T15:04:05")
	}
	for _, res := range r.Results {
		suite.Cases = append(suite.Cases, junitCaseOf(suite.Name, res))
	}
	for _, u := range r.NotJudged {
		suite.Cases = append(suite.Cases, junitCase{Class: suite.Name, Name: clean(u.Check), Time: "0",
			Skipped: &junitSkipped{Message: clean("not judged: " + u.Why)}})
	}
	if len(r.Results) == 0 {
		suite.Cases = []junitCase{{Class: suite.Name, Name: "verdict", Time: "0", Error: &junitWrong{
			Type: string(check.Unknown), Message: "no check judged this trial",
		}}}
	}
	return suite.write(w)
}

// write writes the suite as a file of its own.
func (s junitSuite) write(w io.Writer) error {
	s.Tests = len(s.Cases)
	for _, c := range s.Cases {
		switch {
		case c.Failure != nil:
			s.Failures++
		case c.Error != nil:
			s.Errors++
		case c.Skipped != nil:
			s.Skipped++
		}
	}
	all := junitSuites{Name: "seatrial", Tests: s.Tests, Failures: s.Failures, Errors: s.Errors,
		Suite: s}
	data, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("encode JUnit report: %w", err)
	}
	if _, err := fmt.Fprintf(w, "%s%s\n", xml.Header, data); err != nil {
		return fmt.Errorf("write JUnit report: %w", err)
	}
	return nil
}

func junitCaseOf(class string, res check.Result) junitCase {
	c := junitCase{Class: class, Name: clean(res.Check), Time: "0"}
	out := []string{fmt.Sprintf("%d %s", res.Evidence, res.Unit)}
	c.Out = cleanLines(append(out, res.Notes...))
	var sentences []string
	for _, f := range res.Findings {
		sentences = append(sentences, f.Sentence)
	}
	switch res.Verdict {
	case check.Pass:
	case check.Fail:
		c.Failure = wrong(res.Verdict, append(sentences, res.Reasons...))
	default:
		c.Error = wrong(check.Unknown, res.Reasons)
	}
	return c
}

func wrong(v check.Verdict, lines []string) *junitWrong {
	w := &junitWrong{Type: string(v), Message: "no reason is given", Text: cleanLines(lines)}
	if len(lines) > 0 {
		w.Message = clean(lines[0])
	}
	return w
}

func cleanLines(lines []string) string {
	cleaned := make([]string, len(lines))
	for i, l := range lines {
		cleaned[i] = clean(l)
	}
	return strings.Join(cleaned, "\n")
}

// properties are what a dashboard can group runs by.
func (s *story) properties() []junitProperty {
	scenario, seed := s.name()
	list := []junitProperty{
		{"scenario", scenario}, {"seed", fmt.Sprint(seed)}, {"verdict", string(s.report.Verdict)},
		{"run", s.run.RunID}, {"commit", s.run.Commit}, {"nodeImageSource", s.run.NodeImageSource}, {"reproduce", s.reproduce()},
	}
	for _, k := range slices.Sorted(maps.Keys(s.run.Versions)) {
		list = append(list, junitProperty{"version." + k, s.run.Versions[k]})
	}
	for _, warning := range s.warnings {
		list = append(list, junitProperty{"warning", warning})
	}
	for i := range list {
		list[i].Name, list[i].Value = clean(list[i].Name), clean(list[i].Value)
	}
	return list
}
