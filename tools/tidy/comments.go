package tidy

import (
	"go/ast"
	"regexp"
	"strings"
)

func comments() Rule {
	return Rule{
		Name: "comment",
		Why:  "A comment is a sentence: it says why, and it ends.",
		Fix:  "End it with a full stop, or remove it.",
		Find: func(t *Tree) []Violation {
			var out []Violation
			for _, f := range t.Code(true) {
				for _, g := range f.Go.Comments {
					last := g.List[len(g.List)-1]
					if at := t.Line(last.Pos()); !endsWell(groupLines(g)) {
						out = append(out, Violation{Path: f.Path, Line: at, What: "a comment without a full stop"})
					}
				}
			}
			return out
		},
	}
}

// groupLines returns the text of a comment group without its marks; directives such as //go:build are left out.
func groupLines(g *ast.CommentGroup) []string {
	var out []string
	for _, c := range g.List {
		text, ok := strings.CutPrefix(c.Text, "//")
		if !ok {
			text = strings.TrimSuffix(strings.TrimPrefix(c.Text, "/*"), "*/")
			if !strings.Contains(text, "\n") {
				continue // A remark inside a line, such as the name of an argument.
			}
		}
		if !directive.MatchString(text) {
			out = append(out, strings.Split(text, "\n")...)
		}
	}
	for len(out) > 0 && strings.TrimSpace(out[len(out)-1]) == "" {
		out = out[:len(out)-1]
	}
	return out
}

// directive matches what tools read: //go:embed, //nolint, // tidy:list, and the expected output of an example.
var directive = regexp.MustCompile(`^([a-z]+:\S|nolint\b| tidy:list| (Unordered o|O)utput:|line |export )`)

// endsWell reports whether the last line ends a sentence, or is a drawing or an example, which are indented.
func endsWell(lines []string) bool {
	if len(lines) == 0 {
		return true
	}
	last := lines[len(lines)-1]
	if strings.HasPrefix(last, "\t") || strings.HasPrefix(last, "  ") {
		return true
	}
	for _, l := range lines {
		if strings.HasPrefix(l, " Output:") || strings.HasPrefix(l, " Unordered output:") {
			return true
		}
	}
	last = strings.TrimRight(strings.TrimSpace(last), "\"')`]")
	return last != "" && strings.ContainsRune(".?!:", rune(last[len(last)-1]))
}
