package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// FieldErrors is everything that is wrong with a plan, in the order of its fields. Each names the field, for example
// "steps[3].fault.ordinal", and says what is wrong with it and what to write instead.
type FieldErrors field.ErrorList

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
		lines = append(lines, "  "+e.Field+": "+e.Detail)
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives errors.As each *field.Error.
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

// Add appends one error: what is wrong with a field, and what to do about it.
func (l *FieldErrors) Add(at, fix, detail string, args ...any) {
	what := fmt.Sprintf(detail, args...)
	if len(what) > maxDetail {
		what = strings.ToValidUTF8(what[:maxDetail], "") + "..."
	}
	*l = append(*l, &field.Error{
		Type: field.ErrorTypeInvalid, Field: at, BadValue: field.OmitValueType{}, Detail: what + "; " + fix,
	})
}

func (l *FieldErrors) add(at, fix, detail string, args ...any) { l.Add(at, fix, detail, args...) }

// Range adds an error when a value is not between two others.
func (l *FieldErrors) Range(at string, value, low, high int) {
	if value < low || value > high {
		l.Add(at, fmt.Sprintf("use %d to %d", low, high), "%d is out of range", value)
	}
}

// OneOf adds an error when a value is none of those that there are.
func (l *FieldErrors) OneOf(at, what, value string, known ...string) {
	if !slices.Contains(known, value) {
		l.Add(at, oneOf(value, known), "no %s %q", what, value)
	}
}
