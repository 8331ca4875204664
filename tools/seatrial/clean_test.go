package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/clusters/lock"
)

// TestADaemonThatIsMute may run clusters: neither heal nor clean says that there is none, as they do where none runs.
func TestADaemonThatIsMute(t *testing.T) {
	offline := filepath.Join(t.TempDir(), "seatrial-offline")
	t.Setenv("SEATRIAL_OFFLINE", offline)
	for _, tc := range []struct {
		answer string
		code   int
		says   string
	}{
		{`{"notFound": {"found": "docker: permission denied", "mute": true}}`, exitHarness,
			"cannot tell whether a cluster exists"},
		{`{"notFound": {"found": "docker: not installed"}}`, exitPass, "so there is no cluster"},
	} {
		if err := os.WriteFile(offline, []byte("#!/bin/sh\necho '"+tc.answer+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"heal", "clean"} {
			if got := ask(t, command); got.code != tc.code || !strings.Contains(got.stderr, tc.says) {
				t.Errorf("%s, %s: code %d, %q", command, tc.answer, got.code, got.stderr)
			}
		}
	}
}

func TestACleanLeavesATrialAlone(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir, err := lock.Dir()
	if err != nil {
		t.Fatal(err)
	}
	b, err := lock.Take(dir, "c", lock.Self([]string{"seatrial", "run", "smoke"}), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	err = mayDelete(t.Context(), nil, "c", false)
	if err == nil || !strings.Contains(err.Error(), "seatrial run smoke") || !strings.Contains(err.Error(), "--force") {
		t.Errorf("got %v", err)
	}
	if err := mayDelete(t.Context(), nil, "c", true); err != nil {
		t.Errorf("with --force: %v", err)
	}
}
