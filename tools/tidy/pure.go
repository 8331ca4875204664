package tidy

import (
	"fmt"
	"strings"
)

func pureDirs() []string {
	return []string{"chaos/plan", "e2e/check", "e2e/explain", "chaos/history", "e2e/report"}
}

// impure names the packages of the standard library that a pure package does without, each with why.
func impure() map[string]string {
	const (
		machine = "what it answers depends on the machine, so the same history could be judged differently elsewhere"
		outside = "it talks to the outside, which can fail while a verdict is being made"
		silent  = "a judge says what it has to say in its result; a log is not kept with the verdict"
	)
	return map[string]string{
		"database/sql": outside,
		"log":          silent,
		"log/slog":     silent,
		"net":          outside,
		"net/http":     outside,
		"net/rpc":      outside,
		"net/smtp":     outside,
		"os":           machine,
		"os/exec":      machine,
		"os/signal":    machine,
		"os/user":      machine,
		"syscall":      machine,
		"testing":      "a judge returns a result and asserts nothing",
		"unsafe":       "nothing here is worth a crash that no check survives",
	}
}

func pure() Rule {
	return Rule{
		Name: "pure",
		Why: "Plans, facts, checks and reports import the standard library and each other only, so that a saved " +
			"run gets the same verdict anywhere.",
		Fix: "Take the value as an argument, an io.Reader or an io.Writer, and let the caller do the rest.",
		Find: func(t *Tree) []Violation {
			var out []Violation
			for _, f := range t.Code(false) {
				if !underAny(f.Dir(), pureDirs()) {
					continue
				}
				for _, imp := range imports(t, f) {
					if what, why := stains(t.Module, imp.path); what != "" {
						out = append(out, Violation{Path: f.Path, Line: imp.line, What: what, Why: why})
					}
				}
			}
			return out
		},
	}
}

func stains(module, imp string) (what, why string) {
	what = fmt.Sprintf("a pure package imports %s", imp)
	if why, ok := impure()[imp]; ok {
		return what, why
	}
	if dir, ok := strings.CutPrefix(imp, module+"/"); ok {
		if underAny(dir, pureDirs()) {
			return "", ""
		}
		return what, "it is not pure itself"
	}
	if first, _, _ := strings.Cut(imp, "/"); strings.Contains(first, ".") {
		return what, "a library can do at run time what this package must not"
	}
	return "", ""
}

func clockless() Rule {
	return Rule{
		Name: "clockless",
		Why:  "A pure package has no clock: what it answers would differ from one run to the next.",
		Fix:  "Take the time from the history or as an argument.",
		Find: func(t *Tree) []Violation {
			return calls(t, false, func(f *File, c call) string {
				if !underAny(f.Dir(), pureDirs()) || c.pkg != "time" {
					return ""
				}
				switch c.name {
				case "Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep":
					return "a pure package calls time." + c.name
				}
				return ""
			})
		},
	}
}
