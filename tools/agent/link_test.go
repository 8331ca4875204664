package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/existing/link"
)

// withSystemctl puts a systemctl on PATH that knows one unit in a state, and returns the file with its calls.
func withSystemctl(t *testing.T, load string) (calls string) {
	t.Helper()
	dir := t.TempDir()
	calls = filepath.Join(dir, "calls")
	script := "#!/bin/sh\necho \"$*\" >>" + calls + "\ncase $1 in is-active) exit 3;; show) echo " + load + ";; esac\n"
	if err := os.WriteFile(filepath.Join(dir, "systemctl"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return calls
}

// A unit that waits for its restart is not active, and would come back.
func TestLinkStopEndsAUnitThatWaitsForItsRestart(t *testing.T) {
	for load, want := range map[string]bool{"loaded": true, "not-found": false} {
		calls := withSystemctl(t, load)
		if err := stopLink(t.Context(), link.Session("unittest")); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(calls)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(text), "stop --no-block seatrial-link-unittest.service"); got != want {
			t.Errorf("%s: stopped: %t, calls:\n%s", load, got, text)
		}
	}
}

// The unit of a harness that was killed ends by itself, however often it was started again.
func TestLinkServesUntilTheEndOfItsSession(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ending bool // The unit is told to stop.
		left   time.Duration
		over   bool
	}{
		"the session ends":   {false, 20 * time.Millisecond, true},
		"it ended before":    {false, -time.Hour, true},
		"the unit is ending": {true, time.Hour, false},
	} {
		ctx := t.Context()
		if c.ending {
			ctx = ended
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		over := false
		err = serveUntil(ctx, listener, nil, bootclock.Now().Add(c.left), func(context.Context) error {
			over = true
			return nil
		})
		if err != nil || over != c.over {
			t.Errorf("%s: %v; the session was removed: %t, want %t", name, err, over, c.over)
		}
	}
}
