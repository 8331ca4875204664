package engine

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStateRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	gpu := "gpu"
	want := State{
		Schema: stateSchema, Packages: []string{"docker.io"},
		Daemon: &StartedDaemon{PID: 7, StartTicks: 1 << 40, Log: "/l", Started: time.Unix(1, 5).UTC()},
		Wrapper: &Wrapper{Path: "/w", Real: "/r", Config: "/c",
			Previous: Previous{Existed: true, DefaultRuntime: &gpu}},
		Limits: map[string]Limit{"/proc/sys/x": {Was: 1, Set: 2}},
	}
	if err := saveState(dir, want); err != nil {
		t.Fatal(err)
	}
	got, err := loadState(dir)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("state (-want +got):\n%s%v", diff, err)
	}
}

func TestLoadStateRefuses(t *testing.T) {
	for name, text := range map[string]string{"not JSON": "{", "another schema": `{"schema":2}`, "no schema": `{}`} {
		dir := t.TempDir()
		if err := os.WriteFile(statePath(dir), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := loadState(dir); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// TestIsOurs knows a process by its number and its start, whatever its name holds.
func TestIsOurs(t *testing.T) {
	const stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 9 0 210932 1 2 3\n"
	files := map[string]string{"/proc/7/stat": stat, "/proc/7/comm": "dockerd\n"}
	alive := &fakeMachine{files: files}
	if !isOurs(alive, StartedDaemon{PID: 7, StartTicks: 210932}) {
		t.Error("our own process is not known")
	}
	for name, daemon := range map[string]StartedDaemon{
		"another start": {PID: 7, StartTicks: 210931}, "no such process": {PID: 8, StartTicks: 210932},
	} {
		if isOurs(alive, daemon) {
			t.Errorf("%s: taken for ours", name)
		}
	}
	files["/proc/7/stat"] = strings.Replace(stat, ") S", ") Z", 1)
	if isOurs(alive, StartedDaemon{PID: 7, StartTicks: 210932}) {
		t.Error("a process that has ended is taken for ours")
	}
	if _, err := startTicks(&fakeMachine{files: map[string]string{"/proc/7/stat": "7 (x) S"}}, 7); err == nil {
		t.Error("a short stat was accepted")
	}
}

// TestLimits raises and lowers limits that are files of the test's own.
func TestLowerLimits(t *testing.T) {
	dir := t.TempDir()
	ours, changed := filepath.Join(dir, "ours"), filepath.Join(dir, "changed")
	for path, text := range map[string]string{ours: "512\n", changed: "4096\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	options, err := Options{StateDir: dir, Out: io.Discard}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	limits := map[string]Limit{ours: {128, 512}, changed: {128, 512}, filepath.Join(dir, "gone"): {1, 2}}
	if err := lowerLimits(options, limits); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{ours: "128", changed: "4096\n"} {
		if got, err := os.ReadFile(path); string(got) != want {
			t.Errorf("%s = %q, %v, want %q", path, got, err, want)
		}
	}
}

func TestLockHoldsOthersOff(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		unlock, err := lock(t.Context(), dir)
		if err == nil {
			unlock()
		}
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("the lock was taken twice (%v)", err)
	case <-time.After(300 * time.Millisecond):
	}
	unlock()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
