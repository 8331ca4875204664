package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/tools/offline/engine/ociwrap"
)

func TestTrimReplacesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "process.json")
	const before = `{"n":18446744073709551615,"capabilities":{"bounding":["CAP_KILL","CAP_BPF"]}}`
	if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := trim(path, ociwrap.Process, ociwrap.Known(38)); err != nil {
		t.Fatal(err)
	}
	const want = `{"capabilities":{"bounding":["CAP_KILL"]},"n":18446744073709551615}`
	if got := read(t, path); got != want {
		t.Errorf("trimmed:\n got %s\nwant %s", got, want)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v (%v), want 0600", info.Mode(), err)
	}
	if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestTrimLeavesWhatIsAllowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, []byte(`{"process":{"capabilities":{"bounding":["CAP_KILL"]}}}`), 0o444); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := trim(path, ociwrap.Config, ociwrap.Known(40)); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(path)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the file was replaced (%v)", err)
	}
	if err := trim(filepath.Join(t.TempDir(), "config.json"), ociwrap.Config, 0); err != nil {
		t.Errorf("a missing file is the runtime's to explain, got %v", err)
	}
}

func TestTrimNamesABrokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, []byte(`{"process":`), 0o644); err != nil {
		t.Fatal(err)
	}
	err := trim(path, ociwrap.Config, 0)
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want one that names %s", err, path)
	}
}

// TestBecomesTheRuntime runs the program itself in front of a runtime that prints its arguments.
func TestBecomesTheRuntime(t *testing.T) {
	dir := t.TempDir()
	runtime := filepath.Join(dir, "real-runc")
	if err := os.WriteFile(runtime, []byte("#!/bin/sh\necho \"$@\"\nexit 7\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	wrapper := filepath.Join(dir, "wrapper")
	if err := os.Symlink(runtime, wrapper+".runtime"); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", wrapper, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"),
		[]byte(`{"process":{"capabilities":{"bounding":["CAP_KILL"]}}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), wrapper, "--root", "/r", "create", "--bundle", dir, "a b").Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("error %v, want the runtime's own exit code 7", err)
	}
	if got, want := string(out), "--root /r create --bundle "+dir+" a b\n"; got != want {
		t.Errorf("the runtime got %q, want %q", got, want)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
