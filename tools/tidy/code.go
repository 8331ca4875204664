package tidy

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"
)

func sleeps() Rule {
	return Rule{
		Name: "sleep",
		Why:  "A sleep is too short on a slow machine, wasted on a fast one, and tells nobody when it was not enough.",
		Fix:  "Wait on a named condition with a bound; the error says what was awaited, how long, the last state seen.",
		Find: func(t *Tree) []Violation {
			return calls(t, false, func(f *File, c call) string {
				if c.pkg == "time" && c.name == "Sleep" && !underAny(f.Dir(), pureDirs()) {
					return "time.Sleep outside a test"
				}
				return ""
			})
		},
	}
}

func chance() Rule {
	v2 := regexp.MustCompile(`^New(PCG|ChaCha8|Zipf)?$`)
	return Rule{
		Name: "chance",
		Why:  "All chance comes from one seed through a passed *rand.Rand, or a run could not be planned again.",
		Fix:  "Take a *rand.Rand of math/rand/v2 as an argument.",
		Find: func(t *Tree) []Violation {
			return calls(t, true, func(_ *File, c call) string {
				switch {
				case c.pkg == "math/rand":
					return "uses math/rand; the house uses math/rand/v2"
				case c.pkg == "math/rand/v2" && !v2.MatchString(c.name):
					return "rand." + c.name + " draws from the global source"
				}
				return ""
			})
		},
	}
}

func logging() Rule {
	printing := regexp.MustCompile(`^Print(f|ln)?$`)
	return Rule{
		Name: "logging",
		Why:  "Whoever builds a part decides where it writes: logs to a passed *slog.Logger, output to an io.Writer.",
		Fix:  "Take a *slog.Logger (or, in a command, an io.Writer) as an argument.",
		Find: func(t *Tree) []Violation {
			return calls(t, false, func(_ *File, c call) string {
				switch {
				case c.pkg == "log/slog" && !strings.HasPrefix(c.name, "New") && isVerb(c.name):
					return "slog." + c.name + " uses the global logger"
				case c.pkg == "log":
					return "log." + c.name + " uses the global logger"
				case c.pkg == "fmt" && printing.MatchString(c.name):
					return "fmt." + c.name + " writes to whatever stdout is"
				case c.on == "" && (c.name == "print" || c.name == "println"):
					return c.name + " writes to stderr unasked"
				}
				return ""
			})
		},
	}
}

// isVerb reports whether a function of log/slog acts on the default logger.
func isVerb(name string) bool {
	for _, v := range []string{"Debug", "Default", "Error", "Info", "Log", "SetDefault", "Warn"} {
		if strings.HasPrefix(name, v) {
			return true
		}
	}
	return false
}

func panics() Rule {
	return Rule{
		Name: "panic",
		Why:  "A panic in the middle of a fault leaves it unhealed; an error is healed, reported and kept as evidence.",
		Fix:  "Return an error.",
		Find: func(t *Tree) []Violation {
			return calls(t, false, func(f *File, c call) string {
				if c.on == "" && c.name == "panic" && !forTests(f) {
					return "panics"
				}
				return ""
			})
		},
	}
}

func skips() Rule {
	return Rule{
		Name: "skip",
		Why:  "A skip that looks green is a test nobody runs.",
		Fix: `Begin the message with "NOT RUN:" and say what is missing; in a property test use Filter, ` +
			`in a fuzz test return.`,
		Find: func(t *Tree) []Violation {
			return calls(t, true, func(_ *File, c call) string {
				if c.on == "" && c.name != "Skip" || c.name != "Skip" && c.name != "Skipf" && c.name != "SkipNow" {
					return ""
				}
				if c.name == "SkipNow" && len(c.args) == 0 {
					return "skips without a word"
				}
				if msg, ok := c.text(0); len(c.args) > 0 && (!ok || strings.HasPrefix(msg, "NOT RUN:")) {
					return ""
				}
				return `skips without "NOT RUN:"`
			})
		},
	}
}

func initFunctions() Rule {
	return Rule{
		Name: "init",
		Why:  "What init does happens behind the reader's back, in an order nobody wrote down.",
		Fix:  "Make a constructor, and one line in a list.",
		Find: func(t *Tree) []Violation {
			return functions(t, true, func(f *File, d *ast.FuncDecl) string {
				if d.Recv == nil && d.Name.Name == "init" {
					return "has an init function"
				}
				return ""
			})
		},
	}
}

// functions asks about every function and method; an answer that is not empty is a violation.
func functions(t *Tree, tests bool, ask func(*File, *ast.FuncDecl) string) []Violation {
	var out []Violation
	for _, f := range t.Code(tests) {
		for _, decl := range f.Go.Decls {
			d, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if what := ask(f, d); what != "" {
				out = append(out, Violation{Path: f.Path, Line: t.Line(d.Pos()), What: what})
			}
		}
	}
	return out
}

func droppedErrors() Rule {
	return Rule{
		Name: "dropped error",
		Why:  "A dropped error is evidence thrown away; when that is right, the reader must be told why.",
		Fix:  "Return or join the error, or give the reason in a comment on the line or above it.",
		Find: func(t *Tree) []Violation {
			var out []Violation
			for _, f := range t.Code(false) {
				ast.Inspect(f.Go, func(n ast.Node) bool {
					a, ok := n.(*ast.AssignStmt)
					if !ok || !dropsAll(a) {
						return true
					}
					if at := t.Line(a.Pos()); !commented(f, at, t.Line(a.End())) {
						out = append(out, Violation{Path: f.Path, Line: at, What: "drops a result without a reason"})
					}
					return true
				})
			}
			return out
		},
	}
}

// dropsAll reports whether a statement calls something and keeps nothing of what it returned.
func dropsAll(a *ast.AssignStmt) bool {
	if a.Tok != token.ASSIGN || len(a.Rhs) != 1 {
		return false
	}
	if _, ok := a.Rhs[0].(*ast.CallExpr); !ok {
		return false
	}
	for _, l := range a.Lhs {
		if id, ok := l.(*ast.Ident); !ok || id.Name != "_" {
			return false
		}
	}
	return true
}

// commented reports whether there is a comment on the lines of a statement or the one above.
func commented(f *File, first, last int) bool {
	for n := max(first-1, 1); n <= last && n <= len(f.Lines); n++ {
		line := strings.TrimSpace(f.Lines[n-1])
		if strings.HasPrefix(line, "//") || n >= first && strings.Contains(line, " // ") {
			return true
		}
	}
	return false
}
