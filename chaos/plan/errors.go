package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// FieldErrors is everything that is wrong with a plan. Each error names the field, for example
// "steps[3].fault.ordinal", and says what is wrong with it and what to write instead.
type FieldErrors field.ErrorList

// How many errors are shown at once, and how many bytes of each and of a value in it.
const (
	maxShown  = 40
	maxDetail = 400
	maxShort  = 80
)

// ErrSchema is wrapped by Decode for a plan that a newer Seatrial wrote.
var ErrSchema = errors.New("plan schema is newer than this program")

// Error renders one line for each error.
func (l FieldErrors) Error() string {
	head := fmt.Sprintf("plan is not legal (%d errors)", len(l))
	if len(l) == 1 {
		head = "plan is not legal"
	}
	return head + l.Lines()
}

// Lines is a new line for each error.
func (l FieldErrors) Lines() string {
	var lines strings.Builder
	for i, e := range l {
		if i == maxShown {
			fmt.Fprintf(&lines, "\n  and %d more", len(l)-i)
			break
		}
		lines.WriteString("\n  " + e.Field + ": " + e.Detail)
	}
	return lines.String()
}

// Err returns the list as an error, and nil when it is empty.
func (l FieldErrors) Err() error {
	if len(l) == 0 {
		return nil
	}
	return l
}

// Add appends one error: what is wrong with a field, and what to do about it. Its text is printable.
func (l *FieldErrors) Add(at, fix, detail string, args ...any) {
	what := Printable(fmt.Sprintf(detail, args...), maxDetail)
	*l = append(*l, &field.Error{
		Type: field.ErrorTypeInvalid, Field: Printable(at, maxDetail), BadValue: field.OmitValueType{},
		Detail: what + "; " + Printable(fix, maxDetail),
	})
}

// Under returns the errors with fields relative to what contains them.
func (l FieldErrors) Under(at string) FieldErrors {
	for _, e := range l {
		e.Field = Join(at, e.Field)
	}
	return l
}

// of names the whole value in errors that have no field.
func (l FieldErrors) of(whole string) FieldErrors {
	for _, e := range l {
		e.Field = cmp.Or(e.Field, whole)
	}
	return l
}

// Join returns the path of a field within another.
func Join(at, name string) string { return strings.Trim(at+"."+name, ".") }

// Range adds an error when a value is out of bounds.
func (l *FieldErrors) Range(at string, value, low, high int) {
	if value < low || value > high {
		l.Add(at, fmt.Sprintf("use %d to %d", low, high), "%d is out of range", value)
	}
}

// OneOf adds an error if a value is not known, and reports whether it is.
func (l *FieldErrors) OneOf(at, what, value string, known ...string) bool {
	if slices.Contains(known, value) {
		return true
	}
	fix := "there is none"
	if len(known) > 0 {
		fix = "known: " + strings.Join(known, ", ")
	}
	if near, ok := Nearest(value, known); ok {
		fix = fmt.Sprintf("did you mean %q?", near)
	}
	l.Add(at, fix, "no %s %q", what, value)
	return false
}

// SetOf adds an error for each value of a list that is not known or is there twice.
func (l *FieldErrors) SetOf(at, what string, values []string, known ...string) {
	for i, v := range values {
		one := fmt.Sprintf("%s[%d]", at, i)
		l.OneOf(one, what, v, known...)
		if slices.Contains(values[:i], v) {
			l.Add(one, "leave it out", "%q is there twice", v)
		}
	}
}

// unknown adds an error for a field that does not exist.
func (l *FieldErrors) unknown(at, name, detail string, known []string) {
	fix := "leave it out"
	if near, ok := Nearest(name, known); ok {
		fix = fmt.Sprintf("did you mean %q?", near)
	}
	l.Add(fieldOf(at, name), fix, "%s", detail)
}

// Nearest returns the candidate nearest to name, and whether it is near enough to suggest: at most a third of its
// letters have to change, or one of a shorter one.
func Nearest(name string, candidates []string) (string, bool) {
	best, distance := "", -1
	for _, c := range candidates {
		d := editDistance(strings.ToLower(name), strings.ToLower(c))
		if distance < 0 || d < distance {
			best, distance = c, d
		}
	}
	if distance < 0 || distance > max(1, len(best)/3) {
		return "", false
	}
	return best, true
}

// editDistance counts the insertions, deletions and replacements of bytes, and swaps of two beside each other, that
// turn a into b (optimal string alignment).
func editDistance(a, b string) int {
	var before, last []int // The two rows above.
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := last[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			row[j] = min(last[j]+1, row[j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}

// Printable makes text safe for a terminal: one line without control characters, cut after so many bytes.
func Printable(text string, most int) string {
	text = Escaped(strings.ReplaceAll(text, "\n", "; "), "")
	for at := range text {
		if at >= most {
			return text[:at] + "..."
		}
	}
	return text
}

// Escaped escapes what does not print, such as the control characters of a terminal, but for those in keep.
func Escaped(text, keep string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) || strings.ContainsRune(keep, r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}
