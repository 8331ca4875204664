package volfault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/durable"
	"github.com/seatrial/seatrial/clusters/loopdev"
)

// The directories of notes, with one directory for each owner.
const (
	NotesDir     = "/var/lib/seatrial/volfault/"
	BootNotesDir = "/run/seatrial/volfault/"
)

// The names of notes.
const (
	noteVolume  = "volume-" // Followed by the volume's name.
	noteKubelet = "kubelet" // The kubelet is stopped while mounts are made anew.
)

// Node is the machine that this process runs on.
type Node struct {
	Notes     string // NotesDir, or another directory in tests.
	BootNotes string // BootNotesDir: of notes that the next boot makes void.
	Run       undo.Runner
}

// Inflict damages volumes after writing a note for each. Kinds other than Power take one volume; those that stay take a
// file of it.
func (n *Node) Inflict(ctx context.Context, kind Kind, owner undo.Owner, file string, pvs ...string) (
	reports []Report, err error,
) {
	unlock, err := n.lock()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	volumes := make([]Volume, len(pvs))
	for i, pv := range pvs {
		if volumes[i], err = Find(pv); err == nil {
			err = volumes[i].alone()
		}
		if err != nil {
			return nil, err
		}
	}
	for _, v := range volumes {
		if kind.Stays() {
			continue // There is nothing to undo.
		}
		if err := n.keep(owner, Note{Kind: kind, At: bootclock.Now(), Volume: v}); err != nil {
			return nil, err
		}
	}
	if kind == Power {
		return losePower(ctx, volumes, owner)
	}
	for _, v := range volumes {
		r, err := n.inflict(ctx, kind, owner, file, v)
		if err != nil {
			return reports, fmt.Errorf("damage volume %q (%s): %w", v.PV, kind, err)
		}
		reports = append(reports, r)
	}
	return reports, nil
}

func (n *Node) inflict(ctx context.Context, kind Kind, owner undo.Owner, file string, v Volume) (Report, error) {
	r := v.report(0)
	root, err := v.root()
	if err != nil {
		return r, err
	}
	switch kind {
	case Gone:
		dir, err := os.Open(root)
		if err != nil {
			return r, err
		}
		err = Shutdown(dir)
		if closed := dir.Close(); err == nil && ErrnoName(closed) != "EIO" {
			err = closed
		}
		if err != nil {
			return r, err
		}
	case Full:
		err = fill(root, owner)
	case ReadOnly:
		r.Killed, err = n.makeReadOnly(ctx, owner, v)
	case Flip:
		r.Damage, err = damageFile(root, file, flip)
	case Truncate:
		r.Damage, err = damageFile(root, file, truncate)
	default:
		err = fmt.Errorf("kind %q is not known: use one of %q", kind, Kinds())
	}
	r.At = bootclock.Now()
	return r, err
}

// Mend undoes the damage in the owner's notes and removes the notes. It also removes the owner's files from the named
// volumes, which have no note after a boot.
func (n *Node) Mend(ctx context.Context, owner undo.Owner, pvs ...string) (reports []Report, err error) {
	unlock, err := n.lock()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	all, err := n.notes(owner)
	if err != nil {
		return nil, err
	}
	reports = []Report{}
	var failed []error
	for _, note := range all {
		r := Report{PV: note.Volume.PV}
		if r.Undone, err = n.mend(ctx, owner, note); err != nil {
			failed = append(failed, fmt.Errorf("undo %s of volume %q: %w", note.Kind, note.Volume.PV, err))
		}
		r.At = bootclock.Now()
		reports = append(reports, r)
	}
	for _, pv := range pvs {
		failed = append(failed, clean(pv, owner))
	}
	if err := errors.Join(failed...); err != nil {
		return reports, err
	}
	return reports, n.forget(ctx, owner)
}

// forget removes the owner's notes, and starts the kubelet if an earlier process left it stopped.
func (n *Node) forget(ctx context.Context, owner undo.Owner) error {
	if _, err := os.Stat(filepath.Join(n.Notes, owner.Name(), noteKubelet)); err == nil {
		if _, err := n.Run(ctx, []string{"systemctl", "start", "kubelet"}, ""); err != nil {
			return fmt.Errorf("start the kubelet: %w", err)
		}
	}
	var errs []error
	for _, dir := range []string{n.Notes, n.BootNotes} {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, owner.Name())))
	}
	return errors.Join(errs...)
}

func clean(pv string, owner undo.Owner) error {
	v, err := Find(pv)
	if errors.Is(err, ErrNotMounted) {
		return nil
	}
	if err != nil {
		return err
	}
	root, err := v.root()
	if err != nil {
		return err
	}
	return removeCanaries(root, owner)
}

func (n *Node) mend(ctx context.Context, owner undo.Owner, note Note) (string, error) {
	v, err := Find(note.Volume.PV)
	if note.Remaking {
		if err = n.remake(ctx, owner, note); err != nil {
			return "", err
		}
		v, err = Find(note.Volume.PV)
	}
	if errors.Is(err, ErrNotMounted) && note.Kind == Full { // What fills it is on it wherever it is mounted next.
		return "", fmt.Errorf("%w, and file %q in its root still fills it: mount it here; or, if the volume was "+
			"deleted or the file is deleted elsewhere, delete the note %q", err, filepath.Base(filler("", owner)),
			n.path(Full, owner, note.Volume.PV))
	}
	if errors.Is(err, ErrNotMounted) {
		return "", nil // The next mount is a new one.
	}
	if err != nil {
		return "", err
	}
	root, err := v.root()
	if err != nil {
		return "", err
	}
	done := ""
	if note.Kind == ReadOnly {
		if done, err = makeWritable(root); err != nil {
			return done, err
		}
	}
	if isShutdown(root) {
		if err := n.remake(ctx, owner, note); err != nil {
			return "", err
		}
		done = "mounted anew"
	}
	switch err = os.Remove(filler(root, owner)); {
	case err == nil:
		done = "emptied"
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	return done, errors.Join(err, removeCanaries(root, owner))
}

// path returns the path of the note on a volume. That of a loss of power is void after the next boot.
func (n *Node) path(kind Kind, owner undo.Owner, pv string) string {
	dir := n.Notes
	if kind == Power {
		dir = n.BootNotes
	}
	return filepath.Join(dir, owner.Name(), noteVolume+pv)
}

func (n *Node) keep(owner undo.Owner, note Note) error {
	path := n.path(note.Kind, owner, note.Volume.PV)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make directory of notes: %w", err)
	}
	if err := durable.WriteJSON(path, note); err != nil {
		return fmt.Errorf("write note: %w", err)
	}
	return nil
}

// notes returns those of an owner, sorted by volume within each directory.
func (n *Node) notes(owner undo.Owner) ([]Note, error) {
	var paths []string
	for _, kind := range []Kind{Power, Gone} {
		found, err := filepath.Glob(n.path(kind, owner, "*"))
		if err != nil {
			return nil, err // Only a malformed pattern.
		}
		paths = append(paths, found...)
	}
	var all []Note
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // Undone by another process.
		}
		if err != nil {
			return nil, fmt.Errorf("read note: %w", err)
		}
		var note Note
		if err := json.Unmarshal(data, &note); err != nil {
			return nil, fmt.Errorf("read note %q: %w", path, err)
		}
		all = append(all, note)
	}
	return all, nil
}

// lock excludes other processes that damage or mend volumes here. The kernel releases it when this one ends.
func (n *Node) lock() (unlock func() error, err error) {
	path := filepath.Dir(filepath.Clean(n.Notes)) // It always exists.
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("lock volumes: %w", err)
	}
	if err := durable.Flock(f, unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock volumes: %w", err), f.Close())
	}
	return f.Close, nil
}

// backing returns the path of the file behind a loop device that frees itself with its last user, "" if it is unknown.
func backing(source string) (string, error) {
	var number int
	if _, err := fmt.Sscanf(source, "/dev/loop%d", &number); err != nil {
		return "", nil //nolint:nilerr // Not a loop device.
	}
	dev, err := loopdev.Open(number)
	if err != nil {
		return "", err
	}
	status, err := loopdev.StatusThrough(dev)
	if err = errors.Join(err, dev.Close()); err != nil {
		return "", err
	}
	if same, err := loopdev.IdentityOf(status.Label); err == nil && same.Key() == status.Identity.Key() {
		return status.Label, nil
	}
	return "", nil // Its label is no path: its driver keeps it set up.
}
