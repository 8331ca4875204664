package rundir

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/nightly"
)

// nightRoot is where the process that is killed keeps its night.
const nightRoot = "SEATRIAL_TEST_NIGHT"

// night runs units of which each takes a moment, and writes each begun one to a file that no disk full keeps it from.
func night(ctx context.Context, root, began string) error {
	build := nightly.Build{Commit: "c0ffee", Kubernetes: "v1.37.0"}
	list := nightly.List{Build: build}
	for i := range 200 {
		list.Units = append(list.Units, nightly.Unit{
			ID: fmt.Sprintf("%016x", i), Name: fmt.Sprintf("unit-%d", i), Estimate: plan.Duration(time.Second),
		})
	}
	store := OpenNight(root)
	unlock, err := store.Begin(list, "1of1")
	if err != nil {
		return err
	}
	defer unlock()
	known, err := store.Results()
	if err != nil {
		return err
	}
	file, err := os.OpenFile(began, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	lane := lane{file}
	n := nightly.Night{
		List: list, Known: known, Keep: store.Keep, Now: time.Now, Until: time.Now().Add(time.Hour),
		Lanes: []nightly.Lane{lane, lane}, Tell: func(string, ...any) {},
		Soak: func(int) ([]nightly.Unit, error) { return nil, nil },
	}
	return n.Sleep(ctx)
}

// lane writes each trial that begins to a file.
type lane struct{ began *os.File }

func (lane) Ahead(nightly.Unit) time.Duration { return 0 }

func (l lane) Run(_ context.Context, u nightly.Unit) (nightly.Attempt, error) {
	begun := time.Now()
	if _, err := fmt.Fprintln(l.began, u.ID); err != nil {
		return nightly.Attempt{}, err
	}
	time.Sleep(time.Millisecond) // The trial.
	return nightly.Attempt{Verdict: check.Pass, Trial: check.Pass, Started: begun, Seconds: 0.001}, nil
}

// whole fails the test unless every unit has one attempt, and no more units began again than the lanes of the nights
// that were cut short.
func whole(t *testing.T, root, began string, cut int) {
	t.Helper()
	results, err := OpenNight(root).Results()
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 200 {
		t.Errorf("%d of 200 units have a result", len(results))
	}
	for _, r := range results {
		if len(r.Attempts) != 1 {
			t.Errorf("%s has %d attempts", r.Name, len(r.Attempts))
		}
	}
	log, err := os.ReadFile(began)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(log), "\n"); n < 200 || n > 200+2*cut {
		t.Errorf("%d trials began for 200 units in a night that was cut short %d times", n, cut)
	}
}

func TestANightThatIsKilledLosesNothing(t *testing.T) {
	if root := os.Getenv(nightRoot); root != "" {
		if err := night(t.Context(), root, filepath.Join(root, "began")); err != nil {
			t.Fatal(err)
		}
		return
	}
	root := t.TempDir()
	began := filepath.Join(root, "began")
	command := func() *exec.Cmd {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		c.Env = append(os.Environ(), nightRoot+"="+root)
		return c
	}
	trials := func() int {
		log, _ := os.ReadFile(began) // Missing at first.
		return strings.Count(string(log), "\n")
	}
	for range 3 {
		c := command()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		// Killed within one of the next trials, at any instant of it.
		until := trials() + 10 + rand.IntN(40)
		for end := time.Now().Add(time.Minute); trials() < until; {
			if time.Now().After(end) {
				t.Fatalf("waited a minute for %d trials, %d began", until, trials())
			}
		}
		time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		var exit *exec.ExitError
		if err := c.Wait(); !errors.As(err, &exit) || exit.Exited() {
			t.Fatalf("the night was not killed: %v", err)
		}
	}
	if out, err := command().CombinedOutput(); err != nil {
		t.Fatalf("the last night: %v\n%s", err, out)
	}
	whole(t, root, began, 3)
}

func TestANightOnAFullDiskLosesNothing(t *testing.T) {
	root, began := t.TempDir(), filepath.Join(t.TempDir(), "began")
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("NOT RUN: a disk that is full; it needs root: make e2e (%v)", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(root, 0); err != nil {
			t.Error(err)
		}
	})
	if err := night(t.Context(), root, began); !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "unit-") {
		t.Fatalf("a night on a full disk ends with %v", err)
	}
	before, err := OpenNight(root).Results()
	if err != nil || len(before) == 0 {
		t.Fatalf("%d results are left on the full disk, %v", len(before), err)
	}
	if err := unix.Mount("tmpfs", root, "tmpfs", unix.MS_REMOUNT, "size=4m"); err != nil {
		t.Fatal(err)
	}
	if err := night(t.Context(), root, began); err != nil {
		t.Fatal(err)
	}
	whole(t, root, began, 1)
}
