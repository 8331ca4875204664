package agentbin

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindTakesWhatTheVariableNames(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "agent")
	t.Setenv(Variable, path)
	find := func() (string, error) { return Find(t.Context(), slog.New(slog.DiscardHandler)) }
	if _, err := find(); err == nil || !strings.Contains(err.Error(), Variable) {
		t.Errorf("no such file: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := find(); err == nil || !strings.Contains(err.Error(), "not executable") {
		t.Errorf("not executable: %v", err)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := find(); err != nil || got != path {
		t.Errorf("Find = %q (%v), want %q", got, err, path)
	}
	t.Setenv(Variable, dir)
	if _, err := find(); err == nil || !strings.Contains(err.Error(), "not a file") {
		t.Errorf("a directory: %v", err)
	}
}
