package page

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"github.com/seatrial/seatrial/e2e/check"
)

//go:embed index.html
var index string

// Entry is a run in the index.
type Entry struct {
	Link     string // To its page, from where the index is.
	Verdict  check.Verdict
	Scenario string
	Seed     uint64
	Started  string
	Took     string
	Why      string // The first finding or reason.
}

// WriteIndex writes the page that lists runs.
func WriteIndex(w io.Writer, runs []Entry) error {
	return writePlain(w, "index", index, nil, func(s sheet) any {
		return struct {
			sheet
			Runs []Entry
		}{s, runs}
	})
}

// sheet is what every page without a script has.
type sheet struct {
	Policy string // Content-Security-Policy.
	Style  template.CSS
}

// writePlain writes a page without a script. Data makes what its layout is filled with.
func writePlain(w io.Writer, name, layout string, funcs template.FuncMap, data func(sheet) any) error {
	t, err := template.New(name).Funcs(funcs).Parse(layout)
	if err != nil {
		return fmt.Errorf("parse the layout of page %s: %w", name, err)
	}
	s := sheet{
		fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'", digest(style)),
		template.CSS(style), //nolint:gosec // It is an embedded file.
	}
	if err := t.Execute(w, data(s)); err != nil {
		return fmt.Errorf("write page %s: %w", name, err)
	}
	return nil
}
