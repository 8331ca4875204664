package volfault

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/linux"
)

// ours begins the names of our files on a volume.
const ours = ".seatrial-"

// block is the size of a write: a block of ext4 and xfs.
const block = 4096

// Look reports the state of a volume from its victim's side, and of the owner's files on it. A volume that is not
// mounted is no error.
func Look(pv string, owner undo.Owner) (Report, error) {
	v, err := Find(pv)
	if errors.Is(err, ErrNotMounted) {
		return Report{PV: pv, At: bootclock.Now()}, nil
	}
	if err != nil {
		return Report{}, err
	}
	from, err := viewOf(v)
	if err != nil {
		return Report{}, err
	}
	r := v.report(bootclock.Now())
	var st unix.Statfs_t
	if err := unix.Statfs(from.path, &st); err == nil { // It may fail on a file system that is shut down.
		r.ReadOnly, r.Available = st.Flags&linux.MountReadOnly != 0, st.Bavail
	}
	r.Tries = from.tries()
	if root, err := v.root(); err == nil {
		r.Synced, r.Unsynced = canary(root, owner, true), canary(root, owner, false)
	}
	r.At = bootclock.Now()
	return r, nil
}

// ErrnoName returns the name of an error's errno, the text of an error without one, and "" for nil.
func ErrnoName(err error) string {
	var number unix.Errno
	switch {
	case err == nil:
		return ""
	case errors.As(err, &number):
		return unix.ErrnoName(number)
	}
	return err.Error()
}

// tryRead reads a byte of the first file below a directory.
func tryRead(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.Type().IsRegular() || strings.HasPrefix(d.Name(), ours) {
			return nil
		}
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		_, err = f.Read(make([]byte, 1))
		if errors.Is(err, io.EOF) {
			err = nil
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		return fs.SkipAll
	})
}

// tryWrite writes a block to a new file, syncs it, and removes it.
func tryWrite(dir string) error {
	path := filepath.Join(dir, fmt.Sprintf("%stry-%d", ours, os.Getpid()))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, block))
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	return errors.Join(err, os.Remove(path))
}
