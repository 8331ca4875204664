package doctor

import (
	"encoding/json"
	"fmt"
	"io"
)

// Status is how a check came out.
type Status string

// The statuses. Only a Fail makes the doctor fail.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "FAIL"
)

// Check is one thing that was looked at.
type Check struct {
	Group  string `json:"group"`
	What   string `json:"what"`
	Status Status `json:"status"`
	Found  string `json:"found"`
	Need   string `json:"need,omitempty"`
	Fix    string `json:"fix,omitempty"` // A command; there is one wherever the status is not ok.
}

// Report is all checks, those of one group beside each other.
type Report struct {
	Checks []Check `json:"checks"`
}

// Failed tells whether any check failed.
func (r Report) Failed() bool {
	for _, check := range r.Checks {
		if check.Status == Fail {
			return true
		}
	}
	return false
}

// ExitCode is 1 when a check failed, else 0.
func (r Report) ExitCode() int {
	if r.Failed() {
		return 1
	}
	return 0
}

// count returns how many checks have that status.
func (r Report) count(status Status) int {
	n := 0
	for _, check := range r.Checks {
		if check.Status == status {
			n++
		}
	}
	return n
}

// WriteText writes the report for people: a heading for each group, a line for each check, a fix where one is needed,
// and the sum at the end.
func (r Report) WriteText(w io.Writer) error {
	group := ""
	for _, check := range r.Checks {
		if check.Group != group {
			group = check.Group
			if _, err := fmt.Fprintln(w, group); err != nil {
				return fmt.Errorf("write the doctor's report: %w", err)
			}
		}
		line := fmt.Sprintf("  %-4s %s - found %s", check.Status, check.What, check.Found)
		if check.Need != "" {
			line += ", need " + check.Need
		}
		if check.Status != OK && check.Fix != "" {
			line += "\n       fix: " + check.Fix
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return fmt.Errorf("write the doctor's report: %w", err)
		}
	}
	_, err := fmt.Fprintf(w, "%d ok, %d warn, %d FAIL\n", r.count(OK), r.count(Warn), r.count(Fail))
	if err != nil {
		return fmt.Errorf("write the doctor's report: %w", err)
	}
	return nil
}

// WriteJSON writes the report for programs: an object with "ok" and "checks".
func (r Report) WriteJSON(w io.Writer) error {
	checks := r.Checks
	if checks == nil {
		checks = []Check{}
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(struct {
		OK     bool    `json:"ok"`
		Checks []Check `json:"checks"`
	}{!r.Failed(), checks})
	if err != nil {
		return fmt.Errorf("write the doctor's report: %w", err)
	}
	return nil
}
