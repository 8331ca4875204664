package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"
)

// File is one file of the tree.
type File struct {
	Path  string    // Relative to the root, with slashes.
	Text  string    // Empty when the file is not text.
	Lines []string  // Text without line ends.
	Go    *ast.File // Nil unless the file is Go outside testdata.
}

// Dir returns the folder of the file, "." for the root.
func (f *File) Dir() string { return path.Dir(f.Path) }

// IsTest reports whether the file is a Go test file.
func (f *File) IsTest() bool { return strings.HasSuffix(f.Path, "_test.go") }

// Tree is a repository, read once.
type Tree struct {
	Module string // The module's path, from go.mod.
	Fset   *token.FileSet
	Files  []*File // In the order of their paths.
	Top    []string
}

// File returns the file of that path, or nil.
func (t *Tree) File(name string) *File {
	for _, f := range t.Files {
		if f.Path == name {
			return f
		}
	}
	return nil
}

// Code returns the Go files; tests only when asked for.
func (t *Tree) Code(tests bool) []*File {
	var out []*File
	for _, f := range t.Files {
		if f.Go != nil && (tests || !f.IsTest()) {
			out = append(out, f)
		}
	}
	return out
}

// Line returns the line on which a node of the tree begins.
func (t *Tree) Line(pos token.Pos) int { return t.Fset.Position(pos).Line }

// Load reads a repository. What .gitignore names is not part of it.
func Load(fsys fs.FS) (*Tree, error) {
	t := &Tree{Fset: token.NewFileSet()}
	ignored, err := fs.ReadFile(fsys, ".gitignore")
	if err != nil {
		ignored = nil // A tree without the file ignores nothing.
	}
	patterns := strings.Fields(string(ignored))
	err = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".":
			return nil
		case name == ".git" || matches(patterns, name):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.Contains(name, "/") {
			t.Top = append(t.Top, name)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		return t.add(fsys, name)
	})
	if err != nil {
		return nil, fmt.Errorf("read the tree: %w", err)
	}
	return t, nil
}

func (t *Tree) add(fsys fs.FS, name string) error {
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	f := &File{Path: name}
	t.Files = append(t.Files, f)
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return nil
	}
	f.Text = string(data)
	f.Lines = strings.Split(strings.TrimSuffix(f.Text, "\n"), "\n")
	if name == "go.mod" {
		t.Module = moduleOf(f.Lines)
	}
	if strings.HasSuffix(name, ".go") && !strings.Contains(name, "testdata/") {
		f.Go, err = parser.ParseFile(t.Fset, name, data, parser.ParseComments|parser.SkipObjectResolution)
	}
	return err
}

func moduleOf(lines []string) string {
	for _, l := range lines {
		if m, ok := strings.CutPrefix(l, "module "); ok {
			return strings.TrimSpace(m)
		}
	}
	return ""
}

// matches knows the part of .gitignore that this repository uses: "/name/" at the root, and "*.ext" anywhere.
func matches(patterns []string, name string) bool {
	for _, p := range patterns {
		if rooted, ok := strings.CutPrefix(p, "/"); ok {
			if name == strings.TrimSuffix(rooted, "/") {
				return true
			}
		} else if ok, err := path.Match(p, path.Base(name)); err == nil && ok {
			return true
		}
	}
	return false
}
