// Package rundir keeps what a trial leaves on disk. It is the only package that opens run files.
//
// A run directory is written as the trial goes: a crash leaves one that can still be judged. It may import the facts,
// the judges and the reports.
package rundir

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/seatrial/seatrial/clusters/durable"
)

// The files of a run directory.
const (
	RunFile     = "run.json"
	PlanFile    = "plan.json"
	HistoryFile = "history.jsonl.zst"
	JournalFile = "journal.jsonl"
	VerdictFile = "verdict.json"
	ReportFile  = "report.txt"
	PageFile    = "report.html"
	IndexFile   = "index.html" // Beside the run directories: a list of them.
	JUnitFile   = "junit.xml"
	MetricsFile = "metrics.prom"
	GrafanaFile = "annotations.json"
	ProwStart   = "started.json"
	ProwEnd     = "finished.json"
	LogFile     = "harness.log"
	StepsDir    = "steps"
	NodesDir    = "nodes"
	ObjectsDir  = "objects"
)

// Dir is one run directory.
type Dir struct {
	path string
}

// Create makes <root>/<scenario>/<UTC time>-<seed>, keeps room in it (see ReserveFile), and points <root>/latest at it.
// A directory of that name that is there already gets no second run: Create fails.
func Create(root, scenario string, seed uint64, now time.Time) (*Dir, error) {
	name := fmt.Sprintf("%s-%d", now.UTC().Format("20060102T150405.000Z"), seed)
	path := filepath.Join(root, scenario, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make run directory %q: %w", path, err)
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, fmt.Errorf("make run directory: %w", err)
	}
	for _, sub := range []string{StepsDir, NodesDir, ObjectsDir} {
		if err := os.Mkdir(filepath.Join(path, sub), 0o755); err != nil {
			return nil, fmt.Errorf("make run directory: %w", err)
		}
	}
	d := &Dir{path: path}
	if err := d.reserve(); err != nil {
		return nil, errors.Join(err, d.Discard())
	}
	if err := pointLatest(root, filepath.Join(scenario, name)); err != nil {
		return nil, errors.Join(err, d.Discard())
	}
	return d, nil
}

// ReserveFile keeps room for the verdict and the reports: the disk may fill up while a trial runs, and then there must
// be a verdict all the same. It is removed when they are about to be written.
const ReserveFile = ".reserve"

// reserveSize is more than the verdict and the reports of the largest trial take; the page has 5 MiB at most.
const reserveSize = 6 << 20

// reserve takes the room. Only bytes that are written are there for sure.
func (d *Dir) reserve() error {
	f, err := os.OpenFile(d.File(ReserveFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("keep room in the run directory: %w", err)
	}
	_, err = f.Write(make([]byte, reserveSize))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("keep room in the run directory: %w", err), os.Remove(f.Name()))
	}
	return nil
}

// FreeReserve gives the room to those who write next. It may be called again.
func (d *Dir) FreeReserve() error {
	err := os.Remove(d.File(ReserveFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("free the room that was kept: %w", err)
	}
	return nil
}

// pointLatest replaces the link atomically, so that a reader never finds it missing.
func pointLatest(root, target string) error {
	link := filepath.Join(root, "latest")
	temp := fmt.Sprintf("%s.%d", link, os.Getpid())
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove stale link %q: %w", temp, err)
	}
	if err := os.Symlink(target, temp); err != nil {
		return fmt.Errorf("link latest run: %w", err)
	}
	if err := os.Rename(temp, link); err != nil {
		return errors.Join(fmt.Errorf("link latest run: %w", err), os.Remove(temp))
	}
	return nil
}

// Open returns the run directory at path, which must hold a history.
func Open(path string) (*Dir, error) {
	at := path // In an error; the history's name adds something only where there is a directory.
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		at = filepath.Join(path, HistoryFile)
		_, err = os.Stat(at)
	} else if err == nil {
		err = syscall.ENOTDIR
	}
	if reason, ok := errors.AsType[*fs.PathError](err); ok {
		err = reason.Err
	}
	if err != nil {
		return nil, fmt.Errorf("open run directory: %q: %w", at, err)
	}
	return &Dir{path: path}, nil
}

// Discard removes the directory of a trial that could not begin.
func (d *Dir) Discard() error { return os.RemoveAll(d.path) }

// Path returns where the directory is.
func (d *Dir) Path() string { return d.path }

// File returns the path of one of its files.
func (d *Dir) File(name string) string { return filepath.Join(d.path, name) }

// WriteFile replaces a file atomically: a reader finds the old content or the new, and a full disk leaves the old.
func (d *Dir) WriteFile(name string, data []byte) error { return durable.Write(d.File(name), data) }

// WriteJSON writes v as indented JSON.
func (d *Dir) WriteJSON(name string, v any) error { return durable.WriteJSON(d.File(name), v) }

// ReadFile returns a file's content.
func (d *Dir) ReadFile(name string) ([]byte, error) {
	data, err := os.ReadFile(d.File(name))
	if err != nil {
		return nil, fmt.Errorf("read run file: %w", err)
	}
	return data, nil
}

// Logs calls each with every line that the nodes' journals and controller managers wrote, if logs were kept.
func (d *Dir) Logs(each func(node, source, line string)) error {
	for pattern, source := range map[string]string{
		"nodes/*/journal.log": "journal", "nodes/*/pods/*kube-controller-manager*/*/*.log": "kube-controller-manager",
	} {
		files := os.DirFS(d.path)
		names, err := fs.Glob(files, pattern)
		if err != nil {
			return err
		}
		for _, name := range names {
			data, err := fs.ReadFile(files, name)
			if err != nil {
				return err
			}
			node, _, _ := strings.Cut(strings.TrimPrefix(name, "nodes/"), "/")
			for line := range strings.Lines(string(data)) {
				each(node, source, line)
			}
		}
	}
	return nil
}

// ReadJSON decodes a file into v.
func (d *Dir) ReadJSON(name string, v any) error {
	data, err := d.ReadFile(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("decode %q: %w", d.File(name), err)
	}
	return nil
}

// OpenAppend opens a file for appending records, such as the journal; the caller closes it.
func (d *Dir) OpenAppend(name string) (*os.File, error) {
	f, err := os.OpenFile(d.File(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open run file: %w", err)
	}
	return f, nil
}

// List returns the run directories below root that were judged, newest first.
func List(root string) ([]*Dir, error) {
	names, err := fs.Glob(os.DirFS(root), "*/*/"+VerdictFile) // Whatever letters root has.
	if err != nil {
		return nil, fmt.Errorf("list runs below %q: %w", root, err)
	}
	dirs := make([]*Dir, 0, len(names))
	for _, name := range names {
		dirs = append(dirs, &Dir{path: filepath.Join(root, filepath.Dir(name))})
	}
	slices.SortFunc(dirs, func(a, b *Dir) int { return cmp.Compare(filepath.Base(b.path), filepath.Base(a.path)) })
	return dirs, nil
}

// Root returns the directory that Create was given.
func (d *Dir) Root() string { return filepath.Dir(filepath.Dir(d.path)) }

// Judged returns when the verdict was written.
func (d *Dir) Judged() (time.Time, error) {
	info, err := os.Stat(d.File(VerdictFile))
	if err != nil {
		return time.Time{}, fmt.Errorf("look at the verdict: %w", err)
	}
	return info.ModTime(), nil
}

// WriteIndex replaces the file that lists the runs below root.
func WriteIndex(root string, data []byte) error { return (&Dir{path: root}).WriteFile(IndexFile, data) }
