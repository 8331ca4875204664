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
	"github.com/seatrial/seatrial/fixtures/loopdev"
)

// The directories where a node keeps notes, one directory for each owner.
const (
	NotesDir     = "/var/lib/seatrial/volfault/"
	BootNotesDir = "/run/seatrial/volfault/"
)

// The names of notes.
const (
	noteVolume  = "volume-" // Harm was done to the volume whose name follows.
	noteKubelet = "kubelet" // The kubelet is stopped until mounts are made again.
)

// Node is the node that this process runs on.
type Node struct {
	Notes     string // Directory of the notes: NotesDir.
	BootNotes string // Directory of those that the next boot makes void: BootNotesDir.
	Run       undo.Runner
}

// Inflict does harm to volumes, each of which gets a note first. Of all kinds but Power there is one volume; file is
// for those that damage one.
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
		if volumes[i], err = Find(pv); err != nil {
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
			return reports, fmt.Errorf("do harm to volume %q (%s): %w", v.PV, kind, err)
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
		r.Damage, err = flip(root, file)
	case Truncate:
		r.Damage, err = truncate(root, file)
	default:
		err = fmt.Errorf("kind %q is not known: use one of %q", kind, Kinds())
	}
	r.At = bootclock.Now()
	return r, err
}

// Mend undoes what the owner's notes say was done to volumes, reports what that was, and removes the notes. From the
// volumes that are named the owner's files are removed, whether there is a note of them or not: after a boot there is
// none.
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

// forget removes the owner's notes. A kubelet that an earlier process stopped and did not start again is started.
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

// clean removes the files that tell what a loss of power has lost.
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
	removed, err := empties(root, owner)
	if removed {
		done = "emptied"
	}
	return done, errors.Join(err, removeCanaries(root, owner))
}

// path is where the note of a volume's injury is kept. A loss of power is over with the next boot.
func (n *Node) path(kind Kind, owner undo.Owner, pv string) string {
	dir := n.Notes
	if kind == Power {
		dir = n.BootNotes
	}
	return filepath.Join(dir, owner.Name(), noteVolume+pv)
}

// keep writes a note so that it outlives the node's power.
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

// notes returns those of an owner, in the order of the volumes' names. One that was never finished is not among them:
// nothing was done then.
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
			continue // Somebody else has undone it.
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

// lock excludes other processes that do or undo harm here; the kernel gives it back when this one ends.
func (n *Node) lock() (unlock func() error, err error) {
	path := filepath.Dir(filepath.Clean(n.Notes)) // It is there before anything is held, and leaves nothing behind.
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("lock volumes: %w", err)
	}
	if err := durable.Flock(f, unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock volumes: %w", err), f.Close())
	}
	return f.Close, nil
}

// backing returns the path of the file behind a loop device, as far as it says so, for one that frees itself with its
// last user.
func backing(source string) (string, error) {
	var number int
	if _, err := fmt.Sscanf(source, "/dev/loop%d", &number); err != nil {
		return "", nil //nolint:nilerr // Not a loop device: it stays.
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
	return "", nil // Its label is no path: whoever set it up keeps it.
}
