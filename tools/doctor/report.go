package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
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

// is says how the check came out, what was found, and what mends it, which an OK has no use for.
func (c Check) is(status Status, found, fix string) Check {
	c.Status, c.Found, c.Fix = status, found, fix
	if status == OK {
		c.Fix = ""
	}
	return c
}

// atLeast says how the check came out by the first two numbers of a version: what cannot be read is a warning.
func (c Check) atLeast(found, version string, major, minor int, fix string) Check {
	var gotMajor, gotMinor int
	switch n, _ := fmt.Sscanf(version, "%d.%d", &gotMajor, &gotMinor); {
	case n < 2:
		return c.is(Warn, found, fix)
	case gotMajor < major || gotMajor == major && gotMinor < minor:
		return c.is(Fail, found, fix)
	}
	return c.is(OK, found, "")
}

// Report is all checks, those of one group beside each other.
type Report struct {
	Checks []Check `json:"checks"`
}

// Failed tells whether any check failed.
func (r Report) Failed() bool { return r.count(Fail) > 0 }

// ExitCode is 1 when a check failed, else 0.
func (r Report) ExitCode() int { return min(1, r.count(Fail)) }

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
	var text strings.Builder
	group := ""
	for _, check := range r.Checks {
		if check.Group != group {
			group = check.Group
			fmt.Fprintln(&text, group)
		}
		fmt.Fprintf(&text, "  %-4s %s - found %s", check.Status, check.What, check.Found)
		if check.Need != "" {
			fmt.Fprintf(&text, ", need %s", check.Need)
		}
		if check.Status != OK && check.Fix != "" {
			fmt.Fprintf(&text, "\n       fix: %s", check.Fix)
		}
		fmt.Fprintln(&text)
	}
	fmt.Fprintf(&text, "%d ok, %d warn, %d FAIL\n", r.count(OK), r.count(Warn), r.count(Fail))
	if _, err := io.WriteString(w, text.String()); err != nil {
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
