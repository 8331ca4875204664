package undo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// A node keeps the undo of each fault that may have something to undo there as one file, named after the owner: in
// RecordDir, or in BootDir for what the next boot undoes by itself.
const (
	RecordDir = "/var/lib/seatrial/undo/"
	BootDir   = "/run/seatrial/undo/"
)

// recordSchema is the version of a record's format, recordExt the end of the name of its file.
const (
	recordSchema = 1
	recordExt    = ".json"
)

// Record is an armed undo as it lies on its node.
type Record struct {
	Schema   int          `json:"schema"`
	Run      string       `json:"run"`
	Step     int          `json:"step"`
	Deadline history.Time `json:"deadline" clock:"to"` // When the timer carries it out, on the node's boot clock.
	// Actions are carried out in order; one that fails does not keep the others from it.
	Actions []Action `json:"actions"`
}

// Owner returns whose undo it is.
func (r Record) Owner() Owner { return Owner{Run: r.Run, Step: r.Step} }

// Runner runs a command and returns what it printed, also beside an error. A command that exits non-zero is an error.
type Runner func(ctx context.Context, argv []string, stdin string) (stdout string, err error)

// Report says what was undone on a node.
type Report struct {
	Node   string   `json:"node,omitempty"`
	Undone []string `json:"undone"`        // Armed undos that were carried out, by their owners' names.
	Did    []string `json:"did,omitempty"` // What their actions say that they did.
	Power  string   `json:"power,omitempty"`
}

// Nothing reports that there was nothing to undo.
func (r Report) Nothing() bool { return len(r.Undone) == 0 && len(r.Did) == 0 && r.Power == "" }

// String lists what was undone, in one line.
func (r Report) String() string {
	said := slices.Concat([]string{strings.Join(r.Undone, " ")}, r.Did, []string{r.Power})
	return strings.Join(slices.DeleteFunc(said, func(s string) bool { return s == "" }), "; ")
}

// Host is the node that this process runs on.
type Host struct {
	Root string // "/"; another directory in tests.
	Run  Runner
}

// file is the path of the owner's record in a directory.
func (h Host) file(dir string, owner Owner) string {
	return filepath.Join(h.Root, dir, owner.Name()+recordExt)
}

// Arm keeps an undo until its deadline, or until the next boot, and starts the timer that carries it out then. The
// record is on disk before the timer runs; however long that takes, the timer is given the time that is left.
func (h Host) Arm(ctx context.Context, r Record, untilBoot bool) error {
	r.Schema = recordSchema
	if r.Actions == nil {
		r.Actions = []Action{}
	}
	dir := RecordDir
	if untilBoot {
		dir = BootDir
	}
	if err := h.write(h.file(dir, r.Owner()), r); err != nil {
		return fmt.Errorf("keep the undo: %w", err)
	}
	if err := h.stopTimer(ctx, r.Owner()); err != nil {
		return err
	}
	left := max(r.Deadline.Sub(bootclock.Now()), time.Millisecond)
	argv := append([]string{
		"systemd-run", "--quiet",
		"--collect", // An undo that failed must not keep the name of the unit.
		"--unit=" + r.Owner().Unit(),
		"--on-active=" + strconv.FormatFloat(left.Seconds(), 'f', 3, 64) + "s",
		"--timer-property=AccuracySec=1ms", // The default is a minute.
		nodeagent.Path, "undo",
	}, r.Owner().Flags()...)
	if _, err := h.Run(ctx, argv, ""); err != nil {
		return fmt.Errorf("start the timer: %w", err)
	}
	if _, err := h.Run(ctx, []string{"systemctl", "is-active", r.Owner().Timer()}, ""); err != nil {
		return fmt.Errorf("ask for the timer: %w", err)
	}
	return nil
}

func (h Host) write(path string, r Record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	// The lock of Undo is on RecordDir, whatever the directory of the record.
	for _, dir := range []string{filepath.Dir(path), filepath.Join(h.Root, RecordDir)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return replace(path, append(data, '\n'))
}

// Disarm stops the owner's timer and removes its undo. What is not there is no error.
func (h Host) Disarm(ctx context.Context, owner Owner) error {
	errs := []error{h.stopTimer(ctx, owner)}
	for _, dir := range []string{RecordDir, BootDir} {
		if err := os.Remove(h.file(dir, owner)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// stopTimer stops the owner's timer. One that has fired, or was never started, is not active.
func (h Host) stopTimer(ctx context.Context, owner Owner) error {
	if _, err := h.Run(ctx, []string{"systemctl", "is-active", owner.Timer()}, ""); err != nil {
		return ctx.Err()
	}
	if _, err := h.Run(ctx, []string{"systemctl", "stop", owner.Timer()}, ""); err != nil {
		return fmt.Errorf("stop timer %q: %w", owner.Timer(), err)
	}
	return nil
}

// Armed returns what is armed, in the order of the owners' names. A record that cannot be read is an error beside the
// others, and is returned with its owner alone.
func (h Host) Armed(only Only) ([]Record, error) {
	owners, err := h.owners(only)
	if err != nil {
		return nil, err
	}
	all, errs := []Record{}, []error{}
	for _, o := range owners {
		r, err := h.read(o)
		if errors.Is(err, fs.ErrNotExist) {
			continue // It was disarmed since.
		}
		r.Run, r.Step = o.Run, o.Step
		all, errs = append(all, r), append(errs, err)
	}
	return all, errors.Join(errs...)
}

// owners returns whose undos are armed, in the order of their names.
func (h Host) owners(only Only) ([]Owner, error) {
	var all []Owner
	for _, dir := range []string{RecordDir, BootDir} {
		entries, err := os.ReadDir(filepath.Join(h.Root, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("look for what is armed: %w", err)
		}
		for _, e := range entries {
			name, isRecord := strings.CutSuffix(e.Name(), recordExt)
			if owner, ours := FromName(name); isRecord && ours && owner.In(only) {
				all = append(all, owner)
			}
		}
	}
	slices.SortFunc(all, func(a, b Owner) int { return strings.Compare(a.Name(), b.Name()) })
	return slices.Compact(all), nil
}

// read returns the record of an owner.
func (h Host) read(owner Owner) (r Record, err error) {
	for _, dir := range []string{RecordDir, BootDir} {
		data, failed := os.ReadFile(h.file(dir, owner))
		if err = failed; errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(data, &r)
		}
		if err == nil && r.Schema != recordSchema {
			err = fmt.Errorf("schema is %d; this program reads %d", r.Schema, recordSchema)
		}
		break
	}
	if err != nil {
		return Record{}, fmt.Errorf("read undo %s: %w", owner.Name(), err)
	}
	return r, nil
}

// Undo carries out what is armed, again until bound when something fails, and reports what it has carried out. One heal
// is at work at a time; a second one finds nothing left. A record stays until it was carried out.
func (h Host) Undo(ctx context.Context, only Only, bound time.Duration) (Report, error) {
	report := Report{Undone: []string{}}
	err := await.Until(ctx, "what is armed to be undone", time.Second, bound,
		func(ctx context.Context) (bool, string, error) {
			owners, err := h.owners(only)
			if err != nil || len(owners) == 0 {
				return err == nil, "", err
			}
			unlock, free, err := h.lock()
			if err != nil || !free {
				return false, "another heal is at work", err
			}
			err = h.undo(ctx, only, &report)
			return err == nil, "", errors.Join(err, unlock())
		})
	return report, err
}

// lock lets one heal be at work. It goes with the process.
func (h Host) lock() (unlock func() error, free bool, err error) {
	dir, err := os.Open(filepath.Join(h.Root, RecordDir))
	if err != nil {
		return nil, false, fmt.Errorf("lock what is armed: %w", err)
	}
	err = unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return nil, false, dir.Close()
	}
	if err != nil {
		return nil, false, errors.Join(fmt.Errorf("lock %q: %w", dir.Name(), err), dir.Close())
	}
	return dir.Close, true, nil
}

// undo carries out every record once.
func (h Host) undo(ctx context.Context, only Only, report *Report) error {
	owners, err := h.owners(only)
	if err != nil {
		return err
	}
	var errs []error
	for _, o := range owners {
		r, err := h.read(o)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // It was disarmed since.
		case err != nil:
			errs = append(errs, await.Stop(err)) // No further waiting mends it.
			continue
		}
		did, err := h.carryOut(ctx, r)
		report.Did = append(report.Did, did...)
		if err == nil {
			err = h.Disarm(ctx, o)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("carry out undo %s: %w", o.Name(), err))
			continue
		}
		report.Undone = append(report.Undone, o.Name())
	}
	return errors.Join(errs...)
}

// carryOut runs all actions of a record and returns what they tell.
func (h Host) carryOut(ctx context.Context, r Record) (did []string, err error) {
	var errs []error
	for _, a := range r.Actions {
		if len(a.Argv) == 0 {
			errs = append(errs, errors.New("an action has no command"))
			continue
		}
		out, err := h.Run(ctx, a.Argv, a.Stdin)
		errs = append(errs, err)
		if a.Tells {
			did = append(did, strings.FieldsFunc(out, func(r rune) bool { return r == '\n' })...)
		}
	}
	return did, errors.Join(errs...)
}

// WriteFile puts content at path, durably and at once, unless it is there already.
func WriteFile(path string, content []byte) error {
	if now, err := os.ReadFile(path); err == nil && string(now) == string(content) {
		return nil
	}
	return replace(path, content)
}

// replace replaces a file at once. The new one is made beside its directory, where no kubelet looks for static pods,
// and removed when it cannot take the place of the old one.
func replace(path string, content []byte) (err error) {
	file, err := os.CreateTemp(filepath.Dir(filepath.Dir(path)), ".seatrial-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err = os.Rename(file.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
