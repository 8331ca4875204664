package tidy

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

// listeners finds what opens a port. Tests may: they are never linked into a program.
func listeners() Rule {
	return Rule{
		Name: "listeners",
		Why:  "The harness opens no port: what listens can be reached, and a partition must not depend on it.",
		Fix:  "Go through the container runtime, or use a unix socket.",
		Find: func(t *Tree) []Violation {
			out := calls(t, false, func(_ *File, c call) string {
				if !opensPort(c) {
					return ""
				}
				if c.on == "" {
					return "calls " + c.name
				}
				return "calls " + c.on + "." + c.name
			})
			return append(append(out, servers(t)...), sockets(t)...)
		},
	}
}

// opensPort reports whether a call, of a function or of a method of whatever it is called on, listens on something that
// is not said to be a unix socket.
func opensPort(c call) bool {
	switch {
	case c.pkg == "syscall" || c.pkg == "golang.org/x/sys/unix":
		return c.name == "Listen"
	case strings.HasPrefix(c.name, "ListenUnix"):
		return false
	case c.name == "FileListener" || c.name == "FilePacketConn":
		return c.pkg == "net"
	case !strings.HasPrefix(c.name, "Listen"):
		return false
	}
	for n := range min(2, len(c.args)) { // A ListenConfig takes a context before the network.
		if network, ok := c.text(n); ok && strings.HasPrefix(network, "unix") {
			return false
		}
	}
	return len(c.args) > 0 || c.name != "Listen"
}

// servers finds packages that serve by being imported.
func servers(t *Tree) []Violation {
	var out []Violation
	for _, f := range t.Code(false) {
		for _, imp := range imports(t, f) {
			if slices.Contains([]string{"expvar", "net/http/httptest", "net/http/pprof", "net/rpc"}, imp.path) {
				what := "imports " + imp.path + ", which serves"
				out = append(out, Violation{Path: f.Path, Line: imp.line, What: what})
			}
		}
	}
	return out
}

// sockets finds units by which systemd would listen for us, in any file: an address that is not a path is a port.
func sockets(t *Tree) []Violation {
	port := regexp.MustCompile(`Listen(Stream|Datagram|SequentialPacket)=([^/@%]|$)`)
	var out []Violation
	for _, f := range t.Files {
		if under(f.Dir(), "tools/tidy") {
			continue
		}
		for i, line := range f.Lines {
			if port.MatchString(line) {
				out = append(out, Violation{Path: f.Path, Line: i + 1, What: "has systemd listen on a port"})
			}
		}
	}
	return out
}

// shells finds shells. A program of ours runs none: it has argument lists. A test may have one run a script that is
// constant.
func shells() Rule {
	return Rule{
		Name: "shell",
		Why:  "A shell command made from data does something else when a name has a space or a quote in it.",
		Fix:  "Run an argument list; a test may hand the data to a constant script as arguments.",
		Find: func(t *Tree) []Violation {
			var out []Violation
			constants := map[string]map[string]bool{}
			for _, f := range t.Code(true) {
				if constants[f.Dir()] == nil {
					constants[f.Dir()] = constantsIn(t, f.Dir())
				}
				ast.Inspect(f.Go, func(n ast.Node) bool {
					for _, v := range shellsIn(f, arguments(n), constants[f.Dir()]) {
						v.Line = t.Line(n.Pos())
						out = append(out, v)
					}
					return true
				})
			}
			return out
		},
	}
}

// arguments returns what can be an argument list: that of a call, or the elements of a literal.
func arguments(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.CallExpr:
		return n.Args
	case *ast.CompositeLit:
		return n.Elts
	}
	return nil
}

// shellsIn judges the shells of one argument list.
func shellsIn(f *File, list []ast.Expr, constants map[string]bool) []Violation {
	var out []Violation
	for i, e := range list {
		text, ok := literal(e)
		if !ok || !isShell(text) {
			continue
		}
		if !f.IsTest() {
			out = append(out, Violation{Path: f.Path, What: "names the shell " + text})
		}
		if script := scriptAfter(list[i+1:]); script != nil && !constant(script, constants) {
			out = append(out, Violation{Path: f.Path, What: "makes a shell command from data"})
		}
	}
	return out
}

// isShell reports whether a word is a shell, by its name or its path.
func isShell(word string) bool {
	shells := strings.Fields("ash bash busybox csh dash fish ksh sh tcsh zsh")
	return slices.Contains(shells, path.Base(word)) && !strings.ContainsAny(word, " \t\n")
}

// scriptAfter returns what a shell is to run: the argument behind an option that ends in c.
func scriptAfter(rest []ast.Expr) ast.Expr {
	for i := 0; i+1 < len(rest); i++ {
		flag, ok := literal(rest[i])
		if !ok || !strings.HasPrefix(flag, "-") {
			return nil
		}
		if strings.HasSuffix(flag, "c") {
			return rest[i+1]
		}
	}
	return nil
}

// constant reports whether an expression is put together from literals and the names of constants alone.
func constant(e ast.Expr, constants map[string]bool) bool {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return constant(e.X, constants) && constant(e.Y, constants)
	case *ast.ParenExpr:
		return constant(e.X, constants)
	case *ast.Ident:
		return constants[e.Name]
	}
	_, ok := e.(*ast.BasicLit)
	return ok
}

// constantsIn returns the names that are declared as constants in the files of a folder, and as nothing else.
func constantsIn(t *Tree, dir string) map[string]bool {
	names, others := map[string]bool{}, map[string]bool{}
	for _, f := range t.Code(true) {
		if f.Dir() != dir {
			continue
		}
		ast.Inspect(f.Go, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GenDecl:
				declared(n, names, others)
			case *ast.AssignStmt:
				for _, left := range n.Lhs {
					if id, ok := left.(*ast.Ident); ok {
						others[id.Name] = true
					}
				}
			case *ast.Field:
				for _, id := range n.Names {
					others[id.Name] = true
				}
			}
			return true
		})
	}
	for name := range others {
		delete(names, name)
	}
	return names
}

func declared(d *ast.GenDecl, constants, variables map[string]bool) {
	for _, s := range d.Specs {
		v, ok := s.(*ast.ValueSpec)
		if !ok {
			continue
		}
		for _, id := range v.Names {
			if d.Tok == token.CONST {
				constants[id.Name] = true
			} else {
				variables[id.Name] = true
			}
		}
	}
}
