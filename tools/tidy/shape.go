package tidy

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// The sizes of the house: what fits one reading.
const (
	maxFile     = 400
	maxTestFile = 600
	maxFunction = 70
	maxLine     = 120
	maxMakefile = 120
	tabWidth    = 4
)

func sizes() Rule {
	return Rule{
		Name: "size",
		Why:  "A file is read in one sitting, a function on one screen, a line without moving sideways.",
		Fix:  "Split it where the subject changes, and name the piece for what it does.",
		Find: func(t *Tree) []Violation {
			var out []Violation
			for _, f := range t.Files {
				if limit := fileLimit(f); limit > 0 && len(f.Lines) > limit {
					what := fmt.Sprintf("%d lines, at most %d", len(f.Lines), limit)
					out = append(out, Violation{Path: f.Path, What: what})
				}
				if f.Go == nil && f.Path != "Makefile" && f.Path != ".ci/run" {
					continue
				}
				for i, l := range f.Lines {
					if w := width(l); w > maxLine {
						what := fmt.Sprintf("%d columns, at most %d", w, maxLine)
						out = append(out, Violation{Path: f.Path, Line: i + 1, What: what})
					}
				}
			}
			return append(out, functions(t, true, func(_ *File, d *ast.FuncDecl) string {
				if n := t.Line(d.End()) - t.Line(d.Pos()) + 1; n > maxFunction {
					return fmt.Sprintf("%s has %d lines, at most %d", d.Name.Name, n, maxFunction)
				}
				return ""
			})...)
		},
	}
}

func fileLimit(f *File) int {
	switch {
	case f.Path == "Makefile":
		return maxMakefile
	case f.Go == nil:
		return 0
	case f.IsTest():
		return maxTestFile
	}
	return maxFile
}

func width(line string) int {
	return utf8.RuneCountInString(line) + (tabWidth-1)*strings.Count(line, "\t")
}

func names() Rule {
	banned := map[string]bool{"base": true, "common": true, "helper": true, "helpers": true, "misc": true,
		"shared": true, "types": true, "util": true, "utils": true}
	return Rule{
		Name: "package name",
		Why:  "A package named for nothing gathers everything, and soon everything imports it.",
		Fix:  "Name the package for what it provides, or move each piece to the package that needs it.",
		Find: func(t *Tree) []Violation {
			var out []Violation
			for _, f := range t.Code(true) {
				name := strings.TrimSuffix(f.Go.Name.Name, "_test")
				if banned[name] || banned[path.Base(f.Dir())] {
					at := t.Line(f.Go.Name.Pos())
					out = append(out, Violation{Path: f.Path, Line: at, What: "package " + name})
				}
			}
			return out
		},
	}
}

func packageComments() Rule {
	return Rule{
		Name: "doc.go",
		Why:  "The first thing a reader of a package wants is its promise, and what it may import.",
		Fix:  `Write doc.go with a comment that begins "Package NAME".`,
		Find: func(t *Tree) []Violation {
			var out []Violation
			seen := map[string]bool{}
			for _, f := range t.Code(false) {
				if seen[f.Dir()] || f.Go.Name.Name == "main" {
					continue
				}
				seen[f.Dir()] = true
				doc := t.File(path.Join(f.Dir(), "doc.go"))
				if doc == nil || doc.Go.Doc == nil || !strings.HasPrefix(doc.Go.Doc.Text(), "Package "+f.Go.Name.Name) {
					what := fmt.Sprintf("package %s has no comment in doc.go", f.Go.Name.Name)
					out = append(out, Violation{Path: f.Path, What: what})
				}
			}
			return out
		},
	}
}

func topLevel() Rule {
	// tidy:list
	want := []string{"CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "chaos", "clusters", "e2e", "fixtures",
		"go.mod", "go.sum", "tools"}
	return Rule{
		Name: "top level",
		Why:  "The folder list is the first page of the README; what does not belong to the story hides it.",
		Fix:  "Move it into the folder whose question it answers, or name it in .gitignore if it is made here.",
		Find: func(t *Tree) []Violation {
			have := map[string]bool{}
			var out []Violation
			for _, name := range t.Top {
				have[name] = true
				if !strings.HasPrefix(name, ".") && !slices.Contains(want, name) {
					out = append(out, Violation{Path: name, What: name + " does not belong at the top"})
				}
			}
			for _, name := range want {
				if !have[name] {
					out = append(out, Violation{Path: name, What: name + " is missing", Fix: "Write it."})
				}
			}
			return out
		},
	}
}

// lastElement returns the name of a path; a version element does not count.
func lastElement(p string) string {
	b := path.Base(p)
	if len(b) > 1 && b[0] == 'v' && strings.Trim(b[1:], "0123456789") == "" {
		return path.Base(path.Dir(p))
	}
	return b
}
