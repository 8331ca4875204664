package tidy

import (
	"cmp"
	"fmt"
	"path"
	"slices"
)

// Rule is one house rule.
type Rule struct {
	Name string // One word or two, for the table of exceptions.
	Why  string // Why the house has the rule.
	Fix  string // What to do about a violation.
	Find func(*Tree) []Violation
}

// Violation is one place that breaks a rule.
type Violation struct {
	Path string
	Line int // From 1; 0 when the whole file is meant.
	What string
	Rule string // Filled in by Judge, as are Why and Fix where the rule left them empty.
	Why  string
	Fix  string
}

// String renders the violation as file:line, what, why and fix.
func (v Violation) String() string {
	return fmt.Sprintf("%s:%d: [%s] %s\n\twhy: %s\n\tfix: %s", v.Path, max(v.Line, 1), v.Rule, v.What, v.Why, v.Fix)
}

// Exception lets one file or folder off one rule, for a reason.
type Exception struct {
	Rule   string
	Path   string // A path, or a pattern of path.Match.
	What   string // When not empty, what the violation must contain.
	Reason string
}

func (e Exception) covers(v Violation) bool {
	return e.Rule == v.Rule && matchPath(e.Path, v.Path) && (e.What == "" || containsFold(v.What, e.What))
}

func matchPath(pattern, name string) bool {
	for n := name; n != "."; n = path.Dir(n) {
		if ok, err := path.Match(pattern, n); err == nil && ok {
			return true
		}
	}
	return false
}

// Judge returns the violations that no exception covers, in the order of their places. An exception that covers
// nothing, although its file is there, is a violation itself: it would hide the next one.
func Judge(t *Tree, rules []Rule, exceptions []Exception) []Violation {
	var out []Violation
	used := make([]bool, len(exceptions))
	for _, r := range rules {
		for _, v := range r.Find(t) {
			v.Rule = r.Name
			v.Why = cmp.Or(v.Why, r.Why)
			v.Fix = cmp.Or(v.Fix, r.Fix)
			i := slices.IndexFunc(exceptions, func(e Exception) bool { return e.covers(v) })
			if i < 0 {
				out = append(out, v)
				continue
			}
			used[i] = true
		}
	}
	out = append(out, stale(t, exceptions, used)...)
	slices.SortStableFunc(out, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
	})
	return out
}

func stale(t *Tree, exceptions []Exception, used []bool) []Violation {
	var out []Violation
	for i, e := range exceptions {
		here := slices.ContainsFunc(t.Files, func(f *File) bool { return matchPath(e.Path, f.Path) })
		if here && !used[i] {
			out = append(out, Violation{
				Path: "tools/tidy/exceptions.go", Rule: "exceptions",
				What: fmt.Sprintf("the exception from %q for %s covers nothing", e.Rule, e.Path),
				Why:  "An exception nobody needs hides the next violation.",
				Fix:  "Remove the row.",
			})
		}
	}
	return out
}
