package tidy

import (
	"go/ast"
	"go/token"
	"strconv"
)

// call is a call of a function by package or variable and name, for example time.Sleep or t.Skip.
type call struct {
	pkg  string // The import path when the qualifier is an imported package, otherwise "".
	on   string // The qualifier as written; empty for a plain name.
	name string
	args []ast.Expr
	pos  token.Pos
}

// text returns argument n when it is a string literal.
func (c call) text(n int) (string, bool) {
	if n >= len(c.args) {
		return "", false
	}
	return literal(c.args[n])
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

// calls asks about every call of the tree; an answer that is not empty is a violation.
func calls(t *Tree, tests bool, ask func(*File, call) string) []Violation {
	var out []Violation
	for _, f := range t.Code(tests) {
		names := packageNames(t, f)
		ast.Inspect(f.Go, func(n ast.Node) bool {
			expr, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if what := ask(f, callOf(expr, names)); what != "" {
				out = append(out, Violation{Path: f.Path, Line: t.Line(expr.Pos()), What: what})
			}
			return true
		})
	}
	return out
}

func callOf(expr *ast.CallExpr, names map[string]string) call {
	c := call{args: expr.Args, pos: expr.Pos()}
	switch fun := expr.Fun.(type) {
	case *ast.Ident:
		c.name = fun.Name
	case *ast.SelectorExpr:
		c.name = fun.Sel.Name
		if x, ok := fun.X.(*ast.Ident); ok {
			c.on, c.pkg = x.Name, names[x.Name]
		}
	}
	return c
}

// packageNames returns the import path of every package by the name the file calls it. A name that is not given is
// the last element of the path, or the one before a version.
func packageNames(t *Tree, f *File) map[string]string {
	names := map[string]string{}
	for i, imp := range imports(t, f) {
		name := lastElement(imp.path)
		if given := f.Go.Imports[i].Name; given != nil {
			name = given.Name
		}
		names[name] = imp.path
	}
	return names
}
