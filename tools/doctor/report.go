package doctor

import (
	"fmt"
	"io"
	"strings"
)

// Status is the result of a check.
type Status string

// The statuses. Only a Fail makes the doctor fail.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "FAIL"
)

// Check is one check and its result.
type Check struct {
	Group  string `json:"group"`
	What   string `json:"what"`
	Status Status `json:"status"`
	Found  string `json:"found"`
	Need   string `json:"need,omitempty"`
	Fix    string `json:"fix,omitempty"` // A command; empty only with OK.
}

// is sets status, finding and, unless OK, fix.
func (c Check) is(status Status, found, fix string) Check {
	c.Status, c.Found, c.Fix = status, found, fix
	if status == OK {
		c.Fix = ""
	}
	return c
}

// atLeast compares the first two numbers of a version; one that cannot be read is a warning.
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

// Report has all checks, ordered by group.
type Report struct {
	OK     bool    `json:"ok"` // No check failed.
	Checks []Check `json:"checks"`
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

// WriteText writes a heading for each group, a line for each check, a fix where one is needed, and the totals.
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
	_, err := io.WriteString(w, text.String())
	return err
}
