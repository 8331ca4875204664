package main

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/clusters/lock"
)

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
