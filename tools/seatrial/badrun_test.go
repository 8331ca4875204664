package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBadRunDirectories: what cannot be judged is refused, and the directory is named.
func TestBadRunDirectories(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string // What is put in the place of a file of the run; empty removes it.
		judge      string // What judge says, and explain and replay.
		others     string
	}{
		"no history":      {"history.jsonl.zst", "", `history.jsonl.zst": no such file`, "no such file"},
		"another history": {"history.jsonl.zst", "no zstd", "magic number", "magic number"},
		"no run":          {"run.json", "", "run.json: no such file or directory", ""},
		"a newer run":     {"run.json", `{"schema": 2}`, "run.json has schema 2, and this program knows up to 1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(recordedFail)); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, c.file)
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if c.text != "" {
				if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			says := map[string]string{"judge": c.judge, "report": c.judge}
			if c.others != "" {
				says["explain"], says["replay"] = c.others, c.others
			}
			for command, want := range says {
				got := ask(t, command, dir)
				named := strings.Contains(got.stderr, want) && strings.Contains(got.stderr, dir)
				if got.code != exitArguments || !named {
					t.Errorf("%s: code %d, %q", command, got.code, got.stderr)
				}
			}
		})
	}
}

// TestAReadErrorIsNoBadArgument has files of a run that the kernel cannot read.
func TestAReadErrorIsNoBadArgument(t *testing.T) {
	for _, name := range []string{"run.json", "history.jsonl.zst"} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(recordedFail)); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, name)
		if err := errors.Join(os.Remove(file), os.Symlink("/proc/self/mem", file)); err != nil {
			t.Fatal(err)
		}
		got := ask(t, "judge", dir)
		if got.code != exitHarness || !strings.Contains(got.stderr, name+": input/output error") &&
			!strings.Contains(got.stderr, name+`": read`) {
			t.Errorf("%s: code %d, %q", name, got.code, got.stderr)
		}
	}
}
