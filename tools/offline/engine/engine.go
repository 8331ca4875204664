// Package engine finds a container engine that kind can use, and makes one where there is none: it never claims that
// an engine works without having run a privileged container on it, and never touches one that works.
//
// It runs commands and writes to the host: /etc/docker/daemon.json, its own state directory and, for too low inotify
// limits, /proc/sys. Everything it changed is recorded there before it is changed, and Clean undoes it.
package engine

import (
	"context"
	"fmt"
	"io"
	"io/fs"
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
	Stat(path string) (fs.FileInfo, error)
	Getenv(name string) string
	UserID() int
	LookPath(name string) (string, error)
	Run(ctx context.Context, argv ...string) ([]byte, error)
	RunWith(ctx context.Context, input io.Reader, env []string, argv ...string) ([]byte, error)
}

// Options says where to look, where to keep things and whom to tell. The zero value is good.
type Options struct {
	Log          *slog.Logger // Detail for the curious; nil for none.
	Out          io.Writer    // What is about to be done and what was done, in sentences; nil for none.
	StateDir     string       // Our own directory; "/var/lib/seatrial/host" for root when empty.
	DaemonConfig string       // Docker's configuration; "/etc/docker/daemon.json" when empty.
	Machine      Machine      // The host; the real one when nil.
}

// withDefaults fills what was left empty. A user who is not root keeps state below the user's cache directory.
func (o Options) withDefaults() (Options, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
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

// Stage is how far an engine that does not work was found to be.
type Stage string

// The stages.
const (
	StageClient     Stage = "client"     // There is no client program.
	StageDaemon     Stage = "daemon"     // The client is there, its daemon does not answer.
	StagePrivileged Stage = "privileged" // The daemon answers, a privileged container does not run.
)

// Finding is one engine that was looked at and does not work.
type Finding struct {
	Name  string
	Path  string // Empty when there is no client.
	Stage Stage
	Err   error
}

// String says in one line what was found.
func (f Finding) String() string {
	switch f.Stage {
	case StageClient:
		return f.Name + ": not installed"
	case StageDaemon:
		return fmt.Sprintf("%s: %s is there, its daemon does not answer: %v", f.Name, f.Path, f.Err)
	default:
		return fmt.Sprintf("%s: its daemon answers, a privileged container does not run: %v", f.Name, f.Err)
	}
}

// notFound says that no engine works; its text and its JSON are those of offline.NotFoundError.
type notFound struct {
	findings []Finding
	told     offline.NotFoundError
}

func newNotFound(findings []Finding) *notFound {
	found := make([]string, 0, len(findings))
	for _, f := range findings {
		found = append(found, f.String())
	}
	return &notFound{findings, offline.NotFoundError{Found: strings.Join(found, "; "), Fix: offline.EnsureCommand}}
}

func (e *notFound) Error() string { return e.told.Error() }

// Unwrap returns what is told to other programs, and the engines' own errors.
func (e *notFound) Unwrap() []error {
	errs := []error{&e.told}
	for _, f := range e.findings {
		if f.Err != nil {
			errs = append(errs, f.Err)
		}
	}
	return errs
}
