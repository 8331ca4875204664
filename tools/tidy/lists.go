package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strings"
)

const listMark = "// tidy:list"

func lists() Rule {
	return Rule{
		Name: "list",
		Why:  "In an alphabetical list one sees what is there and what is missing, and two new entries do not collide.",
		Fix:  "Sort the entries.",
		Find: func(t *Tree) []Violation {
			var out []Violation
			for _, f := range t.Code(true) {
				marks := markLines(f)
				ast.Inspect(f.Go, func(n ast.Node) bool {
					open, entries := listNode(n)
					if line := t.Line(open) - 1; open.IsValid() && marks[line] {
						delete(marks, line)
						out = append(out, unsorted(t, f, entries)...)
					}
					return true
				})
				for line := range marks {
					out = append(out, Violation{Path: f.Path, Line: line, What: "marks no list",
						Fix: "Put the mark on the line above the list's opening bracket."})
				}
			}
			return out
		},
	}
}

// listNode returns the opening bracket and the entries of what can be a list: a literal, or the arguments of a call.
func listNode(n ast.Node) (token.Pos, []ast.Expr) {
	switch n := n.(type) {
	case *ast.CallExpr:
		return n.Lparen, n.Args
	case *ast.CompositeLit:
		return n.Lbrace, n.Elts
	}
	return token.NoPos, nil
}

func markLines(f *File) map[int]bool {
	marks := map[int]bool{}
	for i, l := range f.Lines {
		if strings.TrimSpace(l) == listMark {
			marks[i+1] = true
		}
	}
	return marks
}

func unsorted(t *Tree, f *File, entries []ast.Expr) []Violation {
	var out []Violation
	prev := ""
	for _, e := range entries {
		key := sortKey(t, f, e)
		if key < prev {
			what := fmt.Sprintf("%s comes after %s", key, prev)
			out = append(out, Violation{Path: f.Path, Line: t.Line(e.Pos()), What: what})
		}
		prev = key
	}
	return out
}

// sortKey returns what an entry is sorted by: the key of a map, the first field of a struct, or the entry as written.
func sortKey(t *Tree, f *File, e ast.Expr) string {
	switch e := e.(type) {
	case *ast.KeyValueExpr:
		if _, isField := e.Key.(*ast.Ident); isField {
			return source(t, f, e.Value)
		}
		return source(t, f, e.Key)
	case *ast.CompositeLit:
		if len(e.Elts) > 0 {
			return sortKey(t, f, e.Elts[0])
		}
	}
	return source(t, f, e)
}

func source(t *Tree, f *File, n ast.Node) string {
	from, to := t.Fset.Position(n.Pos()).Offset, t.Fset.Position(n.End()).Offset
	return strings.Trim(f.Text[from:to], `"`)
}

// listed finds constructors that a list elsewhere forgot: exported functions of the folders under dir whose only
// result is the named type, and whose name does not appear in the file of the list.
func listed(t *Tree, dir, result, listPath string, in func(*File) string) []Violation {
	list := t.File(listPath)
	if list == nil {
		return nil
	}
	out := functions(t, false, func(f *File, d *ast.FuncDecl) string {
		if !under(f.Dir(), dir) || d.Recv != nil || !d.Name.IsExported() || d.Type.Params.NumFields() > 0 {
			return ""
		}
		name := d.Name.Name
		if q := in(f); q != "" {
			name = q + "." + name
		}
		if !returns(d, result) || regexp.MustCompile(`\b`+regexp.QuoteMeta(name)+`\b`).MatchString(list.Text) {
			return ""
		}
		return fmt.Sprintf("%s is not in %s", name, listPath)
	})
	return out
}

func returns(d *ast.FuncDecl, result string) bool {
	if d.Type.Results == nil || len(d.Type.Results.List) != 1 {
		return false
	}
	switch r := d.Type.Results.List[0].Type.(type) {
	case *ast.Ident:
		return r.Name == result
	case *ast.SelectorExpr:
		return r.Sel.Name == result
	}
	return false
}

const conformanceFile = "chaos/fault/faulttest/faulttest_test.go"

func partsListed() Rule {
	return Rule{
		Name: "parts list",
		Why:  "A fault or workload that is in no list is in no trial, and its tests say nothing about any.",
		Fix:  "Add one line to " + registryFile + ", and of a fault one to " + conformanceFile + ".",
		Find: func(t *Tree) []Violation {
			qualified := func(f *File) string { return f.Go.Name.Name }
			faults := listed(t, "chaos/fault", "Definition", registryFile, qualified)
			// There, every fault is tried, killed and sabotaged.
			faults = append(faults, listed(t, "chaos/fault", "Definition", conformanceFile, qualified)...)
			return append(faults, listed(t, "fixtures", "Definition", registryFile, qualified)...)
		},
	}
}

func checksListed() Rule {
	return Rule{
		Name: "check list",
		Why:  "A check that is in no list judges no trial.",
		Fix:  "Add one line to check.All in e2e/check.",
		Find: func(t *Tree) []Violation {
			for _, f := range t.Code(false) {
				for _, decl := range f.Go.Decls {
					d, ok := decl.(*ast.FuncDecl)
					if ok && f.Dir() == "e2e/check" && d.Recv == nil && d.Name.Name == "All" {
						return listed(t, "e2e/check", "Check", f.Path, func(*File) string { return "" })
					}
				}
			}
			return nil
		},
	}
}

const lintersFile = ".golangci.yml"

func linters() Rule {
	entry := regexp.MustCompile(`^    - ([a-z]+)(\s+# .*\.)?$`)
	return Rule{
		Name: "linters",
		Why:  "A linter without a reason is kept or dropped by taste; in order, one sees which are on.",
		Fix:  "Sort the names under enable, and give each a comment that says what it keeps out.",
		Find: func(t *Tree) []Violation {
			f := t.File(lintersFile)
			if f == nil {
				return nil
			}
			var out []Violation
			on, prev := false, ""
			for i, l := range f.Lines {
				m := entry.FindStringSubmatch(l)
				switch {
				case strings.TrimSpace(l) == "enable:":
					on = !on && strings.HasPrefix(l, "  ") && prev == ""
				case !on || m == nil:
					on = false
				case m[2] == "":
					out = append(out, Violation{Path: f.Path, Line: i + 1, What: m[1] + " has no reason"})
				case m[1] < prev:
					out = append(out, Violation{Path: f.Path, Line: i + 1, What: m[1] + " comes after " + prev})
				}
				if on && m != nil {
					prev = m[1]
				}
			}
			return out
		},
	}
}

func links() Rule {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	return Rule{
		Name: "link",
		Why:  "A link that leads nowhere costs the reader more than no link.",
		Fix:  "Correct the path; it is relative to the file.",
		Find: func(t *Tree) []Violation {
			var out []Violation
			for _, f := range t.Files {
				if path.Ext(f.Path) != ".md" {
					continue
				}
				fenced := false
				for i, l := range f.Lines {
					fenced = fenced != strings.HasPrefix(strings.TrimSpace(l), "```")
					for _, m := range link.FindAllStringSubmatch(l, -1) {
						if target := m[1]; !fenced && !t.reaches(f.Dir(), target) {
							what := "links to " + target + ", which is not there"
							out = append(out, Violation{Path: f.Path, Line: i + 1, What: what})
						}
					}
				}
			}
			return out
		},
	}
}

// reaches reports whether a link leads to a file or folder of the tree; links to elsewhere are not followed.
func (t *Tree) reaches(dir, target string) bool {
	target, _, _ = strings.Cut(target, "#")
	if target == "" || strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return true
	}
	target = path.Join(dir, target)
	for _, f := range t.Files {
		if under(f.Path, target) {
			return true
		}
	}
	return false
}
