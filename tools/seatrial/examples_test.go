package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestExamples holds that a command's examples name commands and flags that there are.
func TestExamples(t *testing.T) {
	root := newRoot("seatrial")
	seen := 0
	var look func(*cobra.Command)
	look = func(c *cobra.Command) {
		for line := range strings.Lines(c.Example) {
			_, words, ok := strings.Cut(" "+strings.TrimSpace(line), " seatrial ")
			if !ok {
				continue
			}
			words, _, _ = strings.Cut(strings.ReplaceAll(words, "&&", "|"), "|")
			named, rest, err := root.Find(strings.Fields(words))
			if err != nil || named == root {
				t.Errorf("%s: %q: %v", c.CommandPath(), line, err)
				continue
			}
			for _, word := range rest {
				name, long := strings.CutPrefix(word, "--")
				name, _, _ = strings.Cut(name, "=")
				switch {
				case !strings.HasPrefix(word, "-") || len(word) == 1 || word == "--":
					continue
				case long && named.Flag(name) == nil:
					t.Errorf("%s: %q: there is no flag %s", c.CommandPath(), line, word)
				case !long && named.Flags().ShorthandLookup(word[1:2]) == nil &&
					named.InheritedFlags().ShorthandLookup(word[1:2]) == nil:
					t.Errorf("%s: %q: there is no flag %s", c.CommandPath(), line, word)
				}
				seen++
			}
		}
		for _, below := range c.Commands() {
			look(below)
		}
	}
	look(root)
	if seen == 0 {
		t.Error("no example has a flag")
	}
}

// TestPlainPlan reads the plan of make plain: its steps have no numbers, and get them.
func TestPlainPlan(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"seatrial", "plan", "--plan", "../../clusters/existing/plain/power.yaml"},
		&stdout, &stderr)
	if code != exitPass || !strings.Contains(stdout.String(), " 2  fault: node-crash on the node of light-1") {
		t.Errorf("exit code %d: %s%s", code, &stdout, &stderr)
	}
}
