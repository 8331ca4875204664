package volfault

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters/durable"
	"github.com/seatrial/seatrial/fixtures/loopdev"
)

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
	for {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %q: %w", path, err), f.Close())
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
