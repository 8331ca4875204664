package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/durable"
	"github.com/seatrial/seatrial/tools/offline/store"
)

// stateSchema is raised when a field changes its meaning.
const stateSchema = 1

// State is what Ensure did to this host; Clean undoes it. It is written before each change. A crash leaves at worst a
// record of a change that did not happen; undoing that does nothing.
type State struct {
	Schema   int              `json:"schema"`
	Packages []string         `json:"packages,omitempty"` // Installed by us; Clean leaves them.
	Daemon   *StartedDaemon   `json:"daemon,omitempty"`
	Wrapper  *Wrapper         `json:"wrapper,omitempty"`
	Limits   map[string]Limit `json:"limits,omitempty"` // By the path of the limit's file.
}

// StartedDaemon is a dockerd that we started.
type StartedDaemon struct {
	Systemd    bool      `json:"systemd"`              // Started as a unit; then it has no pid here.
	PID        int       `json:"pid,omitempty"`        // The process.
	StartTicks uint64    `json:"startTicks,omitempty"` // When it began (/proc/PID/stat), so that a reused pid is known.
	Log        string    `json:"log,omitempty"`        // Where it writes.
	Started    time.Time `json:"started"`
}

// Wrapper is our runtime wrapper as registered in docker's configuration.
type Wrapper struct {
	Path     string   `json:"path"`     // The wrapper program.
	Real     string   `json:"real"`     // The runtime it becomes.
	Config   string   `json:"config"`   // The configuration file it is registered in.
	Previous Previous `json:"previous"` // What that file said before.
}

// Limit is a kernel limit that we raised.
type Limit struct {
	Was int `json:"was"`
	Set int `json:"set"`
}

func statePath(dir string) string { return filepath.Join(dir, "state.json") }

// loadState returns an empty state when there is none.
func loadState(dir string) (State, error) {
	path, state := statePath(dir), State{}
	err := durable.ReadJSON(path, &state)
	if errors.Is(err, fs.ErrNotExist) {
		return State{Schema: stateSchema}, nil
	}
	if err == nil && state.Schema != stateSchema {
		err = fmt.Errorf("found schema %d in %q, need %d; fix: use the seatrial that wrote it", state.Schema, path,
			stateSchema)
	}
	if err != nil {
		return State{}, fmt.Errorf("read the host's state: %w", err)
	}
	return state, nil
}

func saveState(dir string, state State) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write the host's state: %w", err)
	}
	if err := durable.WriteJSON(statePath(dir), state); err != nil {
		return fmt.Errorf("write the host's state: %w", err)
	}
	return nil
}

// writeFile writes a file in one step, makes its directory, and has both on disk when it returns. A file that has that
// content is left alone.
func writeFile(path string, text []byte) error {
	if was, err := os.ReadFile(path); err == nil && bytes.Equal(was, text) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return durable.Write(path, text)
}

// lock lets one process at a time change the host. The lock ends with the process.
func lock(ctx context.Context, dir string) (unlock func(), err error) {
	const what = "another process to finish with this host's engine"
	unlock, err = store.Lock(ctx, filepath.Join(dir, "lock"), what, 15*time.Minute)
	if err != nil {
		return nil, fmt.Errorf("lock the host: %w", err)
	}
	return unlock, nil
}

// startTicks returns when a process began, in clock ticks since boot.
func startTicks(machine Machine, pid int) (uint64, error) {
	text, err := machine.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	start := clusters.ProcessStart(string(text))
	if start == "" {
		return 0, fmt.Errorf("read the start of process %d: %q is not the stat of one that lives", pid, text)
	}
	return strconv.ParseUint(start, 10, 64)
}
