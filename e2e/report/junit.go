package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

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
	s := newStory(j)
	scenario, _ := s.name()
	suite := newSuite("seatrial."+scenario, s.World.Last().Sub(s.start).Seconds(), j.Run.Started)
	suite.Properties = s.properties()
	for _, r := range j.Report.Results {
		bad := r.Reasons
		if r.Verdict == check.Fail {
			bad = nil
			for _, f := range r.Findings {
				bad = append(bad, f.Sentence)
			}
			bad = append(bad, r.Reasons...)
		}
		suite.add(r.Check, 0, r.Verdict, bad, append([]string{fmt.Sprintf("%d %s", r.Evidence, r.Unit)}, r.Notes...))
	}
	for _, u := range j.Report.NotJudged {
		suite.Cases = append(suite.Cases, junitCase{Class: suite.Name, Name: clean(u.Check), Time: "0",
			Skipped: &junitSkipped{Message: clean("not judged: " + u.Why)}})
		suite.Skipped++
	}
	if len(j.Report.Results) == 0 {
		suite.Cases = nil
		suite.add("verdict", 0, check.Unknown, []string{"no check judged this trial"}, nil)
	}
	return suite.write(w)
}

func newSuite(name string, seconds float64, started time.Time) junitSuite {
	suite := junitSuite{Name: clean(name), Time: fmt.Sprintf("%.3f", seconds)}
	if !started.IsZero() {
		suite.Timestamp = started.UTC().Format("2006-01-02T15:04:05")
	}
	return suite
}

// add adds a case. Bad are the lines that say why it did not pass, the first one its message.
func (s *junitSuite) add(name string, seconds float64, v check.Verdict, bad, out []string) {
	c := junitCase{Class: s.Name, Name: clean(name), Time: fmt.Sprintf("%.3f", seconds), Out: cleanLines(out)}
	wrong := &junitWrong{Type: string(v), Message: "no reason is given", Text: cleanLines(bad)}
	if len(bad) > 0 {
		wrong.Message = clean(bad[0])
	}
	switch v {
	case check.Pass:
	case check.Fail:
		c.Failure = wrong
		s.Failures++
	default:
		c.Error = wrong
		s.Errors++
	}
	s.Cases = append(s.Cases, c)
}

// write writes the suite as a file of its own.
func (s junitSuite) write(w io.Writer) error {
	s.Tests = len(s.Cases)
	all := junitSuites{Name: "seatrial", Tests: s.Tests, Failures: s.Failures, Errors: s.Errors, Suite: s}
	data, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("encode JUnit report: %w", err)
	}
	return writeAll(w, "JUnit report", fmt.Appendf(nil, "%s%s\n", xml.Header, data))
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
		{"scenario", scenario}, {"seed", fmt.Sprint(seed)}, {"verdict", string(s.Report.Verdict)},
		{"run", s.Run.RunID}, {"commit", s.Run.Commit}, {"nodeImageSource", s.Run.NodeImageSource},
		{"reproduce", s.reproduce()},
	}
	for _, k := range slices.Sorted(maps.Keys(s.Run.Versions)) {
		list = append(list, junitProperty{"version." + k, s.Run.Versions[k]})
	}
	for _, warning := range s.Warnings {
		list = append(list, junitProperty{"warning", warning})
	}
	for i := range list {
		list[i].Name, list[i].Value = clean(list[i].Name), clean(list[i].Value)
	}
	return list
}
