package engine

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/seatrial/seatrial/tools/offline/system"
)

// TestEnsureTouchesNothingThatWorks runs on the real engine: nothing is said, written or started.
func TestEnsureTouchesNothingThatWorks(t *testing.T) {
	if os.Getenv("SEATRIAL_E2E") != "1" {
		t.Skip("NOT RUN: needs a container engine; make e2e runs it")
	}
	options, err := Options{Log: slog.New(slog.DiscardHandler), Out: io.Discard}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Ensure(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	type snapshot struct {
		Config, State, Built string
		PID                  int
	}
	look := func() snapshot {
		config, _ := os.ReadFile(options.DaemonConfig)
		state, _ := os.ReadFile(statePath(options.StateDir))
		built, _ := filepath.Glob(filepath.Join(options.StateDir, "*"))
		var names bytes.Buffer
		for _, path := range built {
			names.WriteString(path + "\n")
		}
		return snapshot{string(config), string(state), names.String(), dockerPID(system.System{})}
	}
	before := look()
	var said bytes.Buffer
	options.Out = &said
	began := time.Now()
	found, err := Ensure(t.Context(), options)
	took := time.Since(began)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, look()); diff != "" {
		t.Errorf("the host was changed (-before +after):\n%s", diff)
	}
	if said.Len() > 0 {
		t.Errorf("it said: %s", said.String())
	}
	// The target is 2 seconds on an idle machine; other tests may run beside this one.
	if took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	t.Logf("%s in %s", found, took.Round(time.Millisecond))
	left, err := options.Machine.Run(t.Context(), found.Path, "ps", "-aq", "--filter", "label="+probeLabel)
	if err != nil || len(bytes.TrimSpace(left)) > 0 {
		t.Errorf("probes left behind: %q, %v", left, err)
	}
}
