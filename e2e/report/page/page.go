// Package page draws a judged run as one HTML file: the verdict, the checks, and on one axis of time the faults, the
// nodes, where each volume was attached, mounted and written to, and what the clients were answered.
//
// The file needs nothing else: its content security policy allows its own script and style by their digests, and no
// request at all. Without JavaScript it shows the chronicle as text. The lists of runs, nights and certificates are
// pages of the same style without a script. The package is pure: the same input gives the same bytes.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/certify/certificate"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/nightly"
	"github.com/seatrial/seatrial/e2e/report"
)

//go:embed *.html
var layouts embed.FS

//go:embed page.css
var style string

//go:embed page.js
var script string

// render fills a layout. The page may run the script, if any, and use the style, and nothing else.
func render(w io.Writer, layout, script string, funcs template.FuncMap, data any) error {
	policy := "default-src 'none'; " + allow("script-src", script) + allow("style-src", style) +
		"base-uri 'none'; form-action 'none'"
	all := template.FuncMap{
		"policy": func() string { return policy },
		"style":  func() template.CSS { return template.CSS(style) }, //nolint:gosec // It is an embedded file.
		"script": func() template.JS { return template.JS(script) },  //nolint:gosec // It is an embedded file.
	}
	maps.Copy(all, funcs)
	t, err := template.New(layout).Funcs(all).ParseFS(layouts, layout)
	if err != nil {
		return fmt.Errorf("parse the layout %s: %w", layout, err)
	}
	if err := t.Execute(w, data); err != nil {
		return fmt.Errorf("write a page with the layout %s: %w", layout, err)
	}
	return nil
}

// allow is the directive that allows one inline text by its digest (W3C CSP3, source lists), empty without a text.
func allow(directive, text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%s 'sha256-%s'; ", directive, base64.StdEncoding.EncodeToString(sum[:]))
}

// Write writes the page of a run.
func Write(w io.Writer, j report.Judged) error {
	var chronicle bytes.Buffer
	if err := report.WriteChronicle(&chronicle, j, report.Options{}); err != nil {
		return err
	}
	unknown := slices.DeleteFunc(slices.Clone(j.Report.Results),
		func(r check.Result) bool { return r.Verdict != check.Unknown })
	d := draw(j)
	return render(w, "page.html", script, nil, struct {
		Summary   report.Summary
		About     []report.Item
		Results   []check.Result
		NotJudged []check.Unjudged
		Reasons   []report.Item
		Causes    []cause
		Stalls    []string
		Logs      []string
		Chronicle string
		Drawing   drawing
		Grouped   bool
	}{report.Summarize(j), report.About(j), report.WorstFirst(j.Report.Results), j.Report.NotJudged,
		report.Reasons(unknown), d.causes(j.Report), report.Stalls(j.World), j.Logs, chronicle.String(), d.drawing,
		slices.ContainsFunc(d.Instances, func(i instanceLane) bool { return len(i.Roles) > 0 })})
}

// Entry is a run in the index.
type Entry struct {
	report.Summary
	Link    string // To its page, from where the index is.
	Started string
	Took    string
}

// WriteIndex writes the page that lists runs.
func WriteIndex(w io.Writer, runs []Entry) error { return render(w, "index.html", "", nil, runs) }

// WriteCertificate writes a certificate as a page. File is the name of the signed one; link leads from the page to the
// page of a run.
func WriteCertificate(w io.Writer, c certificate.Certificate, file string, link func(run string) string) error {
	return render(w, "certificate.html", "", template.FuncMap{"link": link}, struct {
		*certificate.Certificate
		File, Subject string
	}{&c, file, certificate.Subject(c.Cluster)})
}

// nightSection is the units of one kind.
type nightSection struct {
	kind         nightly.Kind
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
	for _, section := range []nightSection{
		{kind: nightly.Finding, Title: "Findings", Means: "Not as expected in any attempt: a regression, or a case " +
			"that does not come about any more."},
		{kind: nightly.Flake, Title: "Flakes", Means: "The same plan was as expected in one attempt and not in " +
			"another: a race, or a trial that depends on the machine. What was proven in one attempt stays proven."},
		{kind: nightly.Unshown, Title: "Not shown", Means: "Neither the one nor the other could be shown."},
		{kind: nightly.Missing, Title: "Not run", Means: "No trial, so no verdict: each is UNKNOWN."},
		{kind: nightly.Expected, Title: "As expected", Means: "Every attempt was as expected; in a race, one of them."},
	} {
		rows := s.Of(section.kind)
		if len(rows) == 0 {
			continue
		}
		section.Rows = rows
		section.Closed = len(rows) > closeAbove && !rows[0].Urgent() ||
			section.kind == nightly.Expected && s.Verdict != check.Pass
		sections = append(sections, section)
		counts = append(counts, fmt.Sprintf("%s: %d", strings.ToLower(section.Title), len(rows)))
	}
	title, of := "Nightly"+plan.Given(", Kubernetes %s", s.Kubernetes), "scenarios and cases"
	if len(s.Results) > 0 && s.Results[0].Once {
		title, of = "Saved runs judged again", "saved runs"
	}
	why := fmt.Sprintf("Of %d %s", s.Units, of)
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
	if slower := s.Slower(); len(slower) > 0 {
		about = append(about, report.Item{
			Name:  fmt.Sprintf("slower than each of the last %d", nightly.TrendLength),
			Value: strings.Join(slower, ", "),
		})
	}
	return render(w, "night.html", "", template.FuncMap{"link": link}, struct {
		nightly.Summary
		Title    string
		Why      string
		About    []report.Item
		Sections []nightSection
	}{s, title, why + "; " + strings.Join(counts, ", ") + ".", about, sections})
}
