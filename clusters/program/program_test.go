package program

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func agent() Program {
	return Program{
		Name: "seatrial-agent", Source: "github.com/seatrial/seatrial/tools/agent", Variable: "SEATRIAL_AGENT",
	}
}

func TestFindTakesWhatTheVariableNames(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "agent")
	t.Setenv(agent().Variable, path)
	find := func() (string, error) { return agent().Find(t.Context(), slog.New(slog.DiscardHandler)) }
	if _, err := find(); err == nil || !strings.Contains(err.Error(), agent().Variable) {
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
	t.Setenv(agent().Variable, dir)
	if _, err := find(); err == nil || !strings.Contains(err.Error(), "not a file") {
		t.Errorf("a directory: %v", err)
	}
}

func TestFindBuilds(t *testing.T) {
	t.Setenv(agent().Variable, "")
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("GOCACHE") == "" {
		t.Setenv("GOCACHE", filepath.Join(cache, "go-build")) // It would move with the next line, and start empty.
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	log := slog.New(slog.DiscardHandler)
	path, err := agent().Find(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	again, err := agent().Find(t.Context(), log)
	if err != nil || again != path {
		t.Errorf("Find = %q (%v), was %q", again, err, path)
	}
	if err := executable(path); err != nil {
		t.Error(err)
	}
	t.Chdir(t.TempDir())
	_, err = agent().Find(t.Context(), log)
	if err == nil || !strings.Contains(err.Error(), agent().Variable) || !strings.Contains(err.Error(), "go build") {
		t.Errorf("where there is no module: %v", err)
	}
}
