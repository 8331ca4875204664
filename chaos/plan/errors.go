package plan

import (
	"errors"
	"fmt"
	"strings"
)

// FieldError is one thing wrong with a plan: where, what was found, and what to write instead.
type FieldError struct {
	Field  string // Path of the field, for example "steps[3].fault.ordinal".
	Detail string // What is wrong with it, for example "9 is out of range".
	Fix    string // What to do, for example "use 0 to 2: the StatefulSet has 3 replicas then".
}

// Error renders field, detail and fix on one line.
func (e FieldError) Error() string { return fmt.Sprintf("%s: %s; %s", e.Field, e.Detail, e.Fix) }

// FieldErrors is everything that is wrong with a plan, in the order of its fields.
type FieldErrors []FieldError

// maxShown and maxDetail bound how many errors are shown at once, and how many bytes of each.
const (
	maxShown  = 40
	maxDetail = 400
)

// Error renders one line for each error.
func (l FieldErrors) Error() string {
	lines := make([]string, 0, len(l)+1)
	lines = append(lines, fmt.Sprintf("plan is not legal (%d errors)", len(l)))
	if len(l) == 1 {
		lines[0] = "plan is not legal"
	}
	for i, e := range l {
		if i == maxShown {
			lines = append(lines, fmt.Sprintf("  and %d more", len(l)-i))
			break
		}
		lines = append(lines, "  "+e.Error())
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives errors.As each FieldError.
func (l FieldErrors) Unwrap() []error {
	errs := make([]error, len(l))
	for i, e := range l {
		errs[i] = e
	}
	return errs
}

// Err returns the list as an error, and nil when it is empty.
func (l FieldErrors) Err() error {
	if len(l) == 0 {
		return nil
	}
	return l
}

// ErrSchema is wrapped by Decode for a plan that a newer Seatrial wrote.
var ErrSchema = errors.New("plan schema is newer than this program")

// add appends one error.
func (l *FieldErrors) add(field, fix, detail string, args ...any) {
	what := fmt.Sprintf(detail, args...)
	if len(what) > maxDetail {
		what = strings.ToValidUTF8(what[:maxDetail], "") + "..."
	}
	*l = append(*l, FieldError{Field: field, Detail: what, Fix: fix})
}
