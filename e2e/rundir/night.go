package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/clusters/durable"
	"github.com/seatrial/seatrial/e2e/nightly"
)

// The files of a night, below NightDir beside the run directories.
const (
	NightDir  = "nightly"
	UnitsDir  = "units" // One file for each unit, by its ID: all that a night knows of the nights before.
	ListFile  = "list.json"
	NightFile = "nightly.json"
	PromFile  = "nightly.prom"
	// MarkdownFile is for a chat message, or the summary of a pipeline's job.
	MarkdownFile = "summary.md"
)

// Night is where the results of nights are kept.
type Night struct{ dir *Dir }

// OpenNight returns the place below a directory for runs, which need not be there.
func OpenNight(root string) Night { return Night{&Dir{path: filepath.Join(root, NightDir)}} }

// Begin makes the place, keeps the list, and keeps other nights away from the same part of it until unlock is called.
func (n Night) Begin(l nightly.List, part string) (unlock func(), err error) {
	if err := os.MkdirAll(n.dir.File(UnitsDir), 0o755); err != nil {
		return nil, fmt.Errorf("make the directory of the night: %w", err)
	}
	unlock, err = durable.Lock(n.dir.File(".lock-"+part), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("another night is at work in %q: %w", n.dir.path, err)
	}
	if err != nil {
		return nil, err
	}
	if err := n.dir.WriteJSON(ListFile, l); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// List returns the list that the last night began with.
func (n Night) List() (l nightly.List, err error) {
	err = n.dir.ReadJSON(ListFile, &l)
	return l, err
}

// Keep replaces the result of a unit; a crash leaves the old one or the new.
func (n Night) Keep(r nightly.Result) error {
	return n.dir.WriteJSON(filepath.Join(UnitsDir, r.ID+".json"), r)
}

// Results returns all results that were kept, of any commit and version.
func (n Night) Results() ([]nightly.Result, error) {
	names, err := fs.Glob(os.DirFS(n.dir.path), UnitsDir+"/*.json")
	if err != nil {
		return nil, fmt.Errorf("list results: %w", err)
	}
	all := make([]nightly.Result, len(names))
	for i, name := range names {
		if err := n.dir.ReadJSON(name, &all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// WriteFile replaces a page or a table of the night; it makes the directory if need be.
func (n Night) WriteFile(name string, data []byte) error {
	if err := os.MkdirAll(n.dir.path, 0o755); err != nil {
		return fmt.Errorf("make the directory of the night: %w", err)
	}
	return n.dir.WriteFile(name, data)
}

// Path returns the path of a file of the night.
func (n Night) Path(name string) string { return n.dir.File(name) }
