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
)

// Both ext4 and xfs take FS_IOC_SHUTDOWN: _IOR('X', 125, __u32) of include/uapi/linux/fs.h.
const (
	iocShutdown     = 0x8004587d
	shutdownNoFlush = 2 // FS_SHUTDOWN_FLAGS_NOLOGFLUSH.
)

// Shutdown stops a file system, without anything being written that it still has to write: from then on every access is
// an I/O error. Dir is a directory of it. One that is shut down already is no error.
func Shutdown(dir *os.File) error {
	err := unix.IoctlSetPointerInt(int(dir.Fd()), iocShutdown, shutdownNoFlush)
	if err != nil && !errors.Is(err, unix.EIO) {
		return fmt.Errorf("shut down the file system at %q: %w", dir.Name(), err)
	}
	return nil
}

// isShutdown reports that a file system is shut down: neither a file nor a directory can be made in it, and that is for
// an I/O error. One that is only read-only or full is not.
func isShutdown(root string) bool {
	err := tryWrite(root)
	return errors.Is(err, unix.EIO) || errors.Is(err, unix.ESHUTDOWN)
}

// canaryPath is where the owner's file is that was synced before a loss of power, or the one that was not.
func canaryPath(root string, owner undo.Owner, synced bool) string {
	name := "unsynced-"
	if synced {
		name = "synced-"
	}
	return filepath.Join(root, ours+name+owner.Name())
}

// canaryBlocks is the size of these files.
const canaryBlocks = 4

func canaryContent(owner undo.Owner) []byte {
	line := owner.Name() + "\n"
	return []byte(strings.Repeat(line, canaryBlocks*block/len(line)))
}

func writeCanary(root string, owner undo.Owner, synced bool) error {
	f, err := os.OpenFile(canaryPath(root, owner, synced),
		os.O_CREATE|os.O_TRUNC|os.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("write a file to tell what is lost: %w", err)
	}
	_, err = f.Write(canaryContent(owner))
	if err == nil && synced {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil && synced {
		err = durable.SyncDir(root)
	}
	if err != nil {
		return fmt.Errorf("write a file to tell what is lost: %w", err)
	}
	return nil
}

// canary tells what has become of one of the two files.
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
			return fmt.Errorf("remove a file of ours: %w", err)
		}
	}
	return nil
}

// outage is one volume of a loss of power.
type outage struct {
	Volume
	root string
	dir  *os.File
}

// lead is a deliberate pause between the syncs of our own files and the loss, for the disk to be done with them: while
// it is busy, nobody else commits, and what a database syncs once a second would be synced. It asks nobody.
const lead = 2 * time.Second

// losePower writes two files into each volume and syncs the one. Then it shuts all of the file systems down within
// milliseconds, and kills every process of a pod that has one of them mounted: whatever ran on the node ends here.
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
