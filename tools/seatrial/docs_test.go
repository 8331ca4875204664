package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadme holds what README.md shows of reports to what is printed of the recorded runs.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(readme), "## What comes out")
	text, _, _ = strings.Cut(text, "\n## ")
	var printed string
	for _, run := range []string{"smoke-861908-pass", "selftest-deleted-row-42-fail"} {
		printed += ask(t, "judge", filepath.Join("..", "..", "fixtures", "recorded", run)).stdout
	}
	shown := 0
	for line := range strings.Lines(text) {
		line, code := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
		if !code || strings.TrimSpace(line) == "..." {
			continue
		}
		shown++
		if !strings.Contains(printed, line+"\n") {
			t.Errorf("README.md shows a line that no recorded run prints: %q", line)
		}
	}
	if shown < 10 {
		t.Errorf("README.md shows %d lines of reports, want a verdict and a finding", shown)
	}
}
