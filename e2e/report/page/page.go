// Package page draws a judged run as one HTML file: the verdict, the checks, and on one axis of time the faults, the
// nodes, where each volume was attached, mounted and written to, and what the clients were told.
//
// The file needs nothing else: its content security policy allows its own script and style by their digests, and no
// request at all. Without JavaScript it shows the chronicle as text. It is pure: the same run gives the same bytes.
package page

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"

	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/report"
)

//go:embed page.html
var layout string

//go:embed page.css
var style string

//go:embed page.js
var script string

// content is what the layout is filled with.
type content struct {
	Policy    string
	Style     template.CSS
	Script    template.JS
	Summary   report.Summary
	About     []report.Item
	Results   []check.Result
	NotJudged []check.Unjudged
	Reasons   []report.Item // Why checks are UNKNOWN.
	Causes    []cause
	Chronicle string
	Drawing   drawing
}

// Write writes the page of a run.
func Write(w io.Writer, j report.Judged) error {
	t, err := template.New("page").Parse(layout)
	if err != nil {
		return fmt.Errorf("parse the layout of the page: %w", err)
	}
	var chronicle bytes.Buffer
	if err := report.WriteChronicle(&chronicle, j, report.Options{}); err != nil {
		return err
	}
	d := draw(j)
	c := content{
		Policy: fmt.Sprintf("default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; base-uri 'none'; "+
			"form-action 'none'", digest(script), digest(style)),
		Style: template.CSS(style), Script: template.JS(script), //nolint:gosec // Both are embedded files.
		Summary: report.Summarize(j), About: report.About(j), Results: j.Report.Results,
		NotJudged: j.Report.NotJudged,
		Causes:    d.causes(j.Report), Reasons: reasons(j.Report),
		Chronicle: chronicle.String(), Drawing: d.drawing,
	}
	if err := t.Execute(w, c); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// digest is how a content security policy names an inline script or style (W3C CSP3, source lists).
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// reasons are why checks are UNKNOWN, with their names.
func reasons(r check.Report) []report.Item {
	var out []report.Item
	for _, of := range r.Results {
		if of.Verdict == check.Unknown {
			for _, reason := range of.Reasons {
				out = append(out, report.Item{Name: of.Check, Value: reason})
			}
		}
	}
	return out
}
