package page

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/nightly"
	"github.com/seatrial/seatrial/e2e/report"
)

//go:embed night.html
var night string

// nightSection is the units of one kind.
type nightSection struct {
	Title, Means string
	Closed       bool
	Rows         []nightly.Outcome
}

// closeAbove is how many units that ask for nothing are shown at once.
const closeAbove = 20

// WriteNight writes the page that is read in the morning. Link leads from it to the page of a run.
func WriteNight(w io.Writer, s nightly.Summary, link func(run string) string) error {
	var sections []nightSection
	var counts []string
	for _, section := range []struct {
		kind         nightly.Kind
		title, means string
	}{
		{nightly.Finding, "Findings", "Not as expected in any attempt: a regression, or a case that does not come " +
			"about any more."},
		{nightly.Flake, "Flakes", "The same plan was as expected in one attempt and not in another: a race, or a " +
			"trial that depends on the machine. What was proven in one attempt stays proven."},
		{nightly.Unshown, "Not shown", "Neither the one nor the other could be shown."},
		{nightly.Missing, "Not run", "No trial, so no verdict: each is UNKNOWN."},
		{nightly.Expected, "As expected", "Every attempt was as expected; in a race, one of them."},
	} {
		if of := s.Of(section.kind); len(of) > 0 {
			sections = append(sections, nightSection{
				Title: section.title, Means: section.means, Rows: of,
				Closed: len(of) > closeAbove && !of[0].Urgent() ||
					section.kind == nightly.Expected && s.Verdict != check.Pass,
			})
			counts = append(counts, fmt.Sprintf("%s: %d", strings.ToLower(section.title), len(of)))
		}
	}
	why := fmt.Sprintf("Of %d scenarios and cases", s.Units)
	if s.Soak > 0 {
		why += fmt.Sprintf(", and %d with new seeds", s.Soak)
	}
	var about []report.Item
	if s.Trials > 0 {
		spent := time.Duration(s.Seconds * float64(time.Second)).Round(time.Second)
		about = []report.Item{
			{Name: "from", Value: s.Started.UTC().Format(time.DateTime) + " UTC"},
			{Name: "to", Value: s.Ended.UTC().Format(time.DateTime) + " UTC"},
			{Name: "trials", Value: fmt.Sprintf("%d in %s, without the making of clusters", s.Trials, spent)},
		}
	}
	return writePlain(w, "night", night, template.FuncMap{"link": link}, func(sh sheet) any {
		return struct {
			nightly.Summary
			sheet
			Why      string
			About    []report.Item
			Sections []nightSection
		}{s, sh, why + "; " + strings.Join(counts, ", ") + ".", about, sections}
	})
}
