package volfault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/durable"
	"github.com/seatrial/seatrial/clusters/linux"
)

// Shutdown shuts the file system of a directory down without flushing it: every later access is an I/O error. One that
// is shut down already is no error.
func Shutdown(dir *os.File) error {
	err := linux.Shutdown(int(dir.Fd()))
	if err != nil && !errors.Is(err, unix.EIO) {
		return fmt.Errorf("shut down the file system at %q: %w", dir.Name(), err)
	}
	return nil
}

// isShutdown reports whether writing fails with an I/O error, as it does not on a read-only or full file system.
func isShutdown(root string) bool {
	err := tryWrite(root)
	return errors.Is(err, unix.EIO) || errors.Is(err, unix.ESHUTDOWN)
}

// canaryPath returns the path of the owner's synced or unsynced file.
func canaryPath(root string, owner undo.Owner, synced bool) string {
	name := "unsynced-"
	if synced {
		name = "synced-"
	}
	return filepath.Join(root, ours+name+owner.Name())
}

// canaryBlocks is the size of a canary in blocks.
const canaryBlocks = 4

func canaryContent(owner undo.Owner) []byte {
	line := owner.Name() + "\n"
	return []byte(strings.Repeat(line, canaryBlocks*block/len(line)))
}

func writeCanary(root string, owner undo.Owner, synced bool) error {
	f, err := os.OpenFile(canaryPath(root, owner, synced),
		os.O_CREATE|os.O_TRUNC|os.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("write a canary: %w", err)
	}
	_, err = f.Write(canaryContent(owner))
	if err == nil && synced {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil && synced {
		err = durable.SyncDir(root)
	}
	if err != nil {
		return fmt.Errorf("write a canary: %w", err)
	}
	return nil
}

// canary returns the state of one of the two files.
func canary(root string, owner undo.Owner, synced bool) string {
	data, err := os.ReadFile(canaryPath(root, owner, synced))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Missing
	case err != nil:
		return ErrnoName(err)
	case bytes.Equal(data, canaryContent(owner)):
		return Whole
	}
	return Partial
}

func removeCanaries(root string, owner undo.Owner) error {
	for _, synced := range []bool{true, false} {
		err := os.Remove(canaryPath(root, owner, synced))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a canary: %w", err)
		}
	}
	return nil
}

// outage is a volume that loses its power.
type outage struct {
	Volume
	root string
	dir  *os.File
}

// lead separates the syncs of our canaries from the loss of power. Right after them the disk is busy and commits stall,
// and a database that syncs once a second would have synced.
const lead = 2 * time.Second

// losePower writes two canaries into each volume and syncs one. Then it shuts all file systems down within milliseconds
// and kills the pods' processes that have one of them mounted.
func losePower(ctx context.Context, volumes []Volume, owner undo.Owner) (reports []Report, err error) {
	all := make([]outage, 0, len(volumes))
	defer func() {
		for _, o := range all {
			if closed := o.dir.Close(); closed != nil && !errors.Is(closed, unix.EIO) {
				err = errors.Join(err, closed)
			}
		}
	}()
	for _, v := range volumes {
		o := outage{Volume: v}
		if o.root, err = v.root(); err != nil {
			return nil, err
		}
		if o.dir, err = os.Open(o.root); err != nil {
			return nil, fmt.Errorf("open the root of volume %q: %w", v.PV, err)
		}
		all = append(all, o)
		if err := writeCanary(o.root, owner, true); err != nil {
			return nil, err
		}
	}
	if err := await.For(ctx, lead); err != nil {
		return nil, fmt.Errorf("pause for %s before the power is lost: %w", lead, err)
	}
	for _, o := range all {
		if err := writeCanary(o.root, owner, false); err != nil {
			return nil, err
		}
	}
	for _, o := range all {
		if err := Shutdown(o.dir); err != nil {
			return nil, err
		}
	}
	at := bootclock.Now()
	for _, o := range all {
		r := o.report(at)
		found, err := users(o.Device)
		if err != nil {
			return nil, err
		}
		if r.Killed, err = kill(found); err != nil {
			return nil, err
		}
		r.Tries = view{path: o.root, by: "the node at " + o.root}.tries()
		reports = append(reports, r)
	}
	return reports, nil
}
