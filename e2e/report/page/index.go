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
	t, err := template.New("index").Parse(index)
	if err != nil {
		return fmt.Errorf("parse the layout of the index: %w", err)
	}
	err = t.Execute(w, struct {
		Policy string
		Style  template.CSS
		Runs   []Entry
	}{
		fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'", digest(style)),
		template.CSS(style), runs, //nolint:gosec // It is an embedded file.
	})
	if err != nil {
		return fmt.Errorf("write the index: %w", err)
	}
	return nil
}
