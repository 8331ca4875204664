// Package engine finds a container engine that kind can use, and makes one where there is none: it never claims that
// an engine works without a privileged container that runs on it, and never touches one that works.
//
// It runs commands and writes to the host: /etc/docker/daemon.json, its own state directory and, for too low inotify
// limits, /proc/sys. Everything it changed is recorded there before it is changed, and Clean undoes it.
package engine

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/tools/offline/system"
)

// Engine is a container engine that was shown to run privileged containers.
type Engine = offline.Engine

// Machine is what this package needs of the host. system.System is the real one.
type Machine interface {
	ReadFile(path string) ([]byte, error)
	Getenv(name string) string
	UserID() int
	LookPath(name string) (string, error)
	Run(ctx context.Context, argv ...string) ([]byte, error)
	RunWith(ctx context.Context, input io.Reader, argv ...string) ([]byte, error)
}

// Options are for this host, where empty.
type Options struct {
	Log          *slog.Logger
	Out          io.Writer // Gets a sentence about each change, before and after it.
	StateDir     string    // Our own directory: /var/lib/seatrial/host for root, else below the user's cache directory.
	DaemonConfig string    // Docker's configuration: /etc/docker/daemon.json.
	Machine      Machine
}

// withDefaults sets empty options, except Log and Out.
func (o Options) withDefaults() (Options, error) {
	if o.Machine == nil {
		o.Machine = system.System{}
	}
	if o.DaemonConfig == "" {
		o.DaemonConfig = "/etc/docker/daemon.json"
	}
	if o.StateDir != "" {
		return o, nil
	}
	if o.Machine.UserID() == 0 {
		o.StateDir = "/var/lib/seatrial/host"
		return o, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return o, fmt.Errorf("find a directory for the host's state: %w", err)
	}
	o.StateDir = filepath.Join(cache, "seatrial", "host")
	return o, nil
}

// stage is how far an engine works.
type stage int

const (
	stageClient     stage = iota // There is no client program.
	stageDaemon                  // The client is there, its daemon does not answer.
	stagePrivileged              // The daemon answers, a privileged container does not run.
)

// finding is an engine that does not work.
type finding struct {
	name  string
	path  string // Empty without a client.
	stage stage
	err   error
}

func (f finding) String() string {
	switch f.stage {
	case stageClient:
		return f.name + ": not installed"
	case stageDaemon:
		return fmt.Sprintf("%s: %s is there, its daemon does not answer: %v", f.name, f.path, f.err)
	default:
		return fmt.Sprintf("%s: its daemon answers, a privileged container does not run: %v", f.name, f.err)
	}
}

// notFoundError says that no engine works. It wraps the error that goes to other programs, and each engine's own.
type notFoundError struct {
	*offline.NotFoundError
	findings []finding
}

func newNotFound(findings []finding) *notFoundError {
	found := make([]string, 0, len(findings))
	for _, f := range findings {
		found = append(found, f.String())
	}
	return &notFoundError{
		&offline.NotFoundError{Found: strings.Join(found, "; "), Fix: offline.EnsureCommand}, findings,
	}
}

func (e *notFoundError) Unwrap() []error {
	errs := []error{e.NotFoundError}
	for _, f := range e.findings {
		errs = append(errs, f.err)
	}
	return errs
}
