package trial_test

import (
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/seatrial/seatrial/clusters/lock"
	"github.com/seatrial/seatrial/e2e/trial"
)

// TestASecondHarnessIsRefusedBeforeAnythingIsMade has the cluster held by another, and an engine that is not there:
// what is refused for it has come too far.
func TestASecondHarnessIsRefusedBeforeAnythingIsMade(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	log := slog.New(slog.DiscardHandler)
	dir, err := lock.Dir()
	if err != nil {
		t.Fatal(err)
	}
	first, err := lock.Take(dir, "c", lock.Self([]string{"seatrial", "run", "smoke"}), log)
	if err != nil {
		t.Fatal(err)
	}
	options := trial.ClusterOptions{Engine: "/no/such/engine", ClusterName: "c", Reuse: true,
		Progress: io.Discard, Log: log}
	begin := time.Now()
	_, err = trial.Prepare(t.Context(), options)
	var taken *lock.TakenError
	if took := time.Since(begin); !errors.As(err, &taken) || taken.Holder.Command != "seatrial run smoke" ||
		took > 2*time.Second {
		t.Errorf("got %v after %s", err, took)
	}
	if h, used, err := trial.Used(t.Context(), nil, "c"); !used || err != nil || h.Command != "seatrial run smoke" {
		t.Errorf("used by %v, %t, %v", h, used, err)
	}
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := trial.Prepare(t.Context(), options); err == nil || errors.As(err, &taken) {
		t.Errorf("once it is free: %v, want an error of the engine", err)
	}
	if h, used, err := lock.Used(dir, "c"); used || err != nil {
		t.Errorf("what failed has kept the cluster: %v, %v", h, err)
	}
}
