package kind

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// releaseBound is how long released loop devices may take to be free: the mounts of a removed container are undone in
// the background.
const releaseBound = 15 * time.Second

// loopDevices are the loop devices of this machine. They outlive the containers that set them up.
type loopDevices struct {
	sys     string // "/sys/block".
	backing func(name string) (fileID, error)
	detach  func(name string) error
}

// fileID identifies a file on this machine by its file system's device and its inode.
type fileID struct{ dev, inode uint64 }

func hostLoops() loopDevices {
	return loopDevices{sys: "/sys/block", backing: backingOf, detach: detachLoop}
}

// release frees the loop devices whose backing file was one of ours on a node that is gone, and those over files in
// directories that only nodes shared that are gone. On another machine than the engine's there are none.
func (l loopDevices) release(ctx context.Context, log *slog.Logger, shared ...string) error {
	files, err := filesIn(shared)
	if err != nil {
		return err
	}
	left, err := l.orphans(files)
	if err != nil || len(left) == 0 {
		return err
	}
	var errs []error
	for name, file := range left {
		log.Debug("releasing loop device", "device", name, "file", file)
		if err := l.detach(name); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseBound)
	defer cancel()
	return await(ctx, "loop devices of deleted nodes are free", 100*time.Millisecond,
		func(context.Context) (string, bool, error) {
			left, err := l.orphans(files)
			return fmt.Sprintf("still set up: %v", left), len(left) == 0, err
		})
}

// orphans returns the devices, by name, whose backing file is deleted and was ours, and those over one of the files.
// While a node lives its volumes' files are seen as /var/lib/seatrial/...; once it is gone its /var is no longer
// mounted anywhere, and they are seen as /lib/seatrial/... with " (deleted)" after it. Files that nodes shared are still
// there, and then seen by a path that begins at the directory that was shared: it says nothing, so they are told by
// their inode.
func (l loopDevices) orphans(files map[fileID]string) (map[string]string, error) {
	entries, err := filepath.Glob(filepath.Join(l.sys, "loop*", "loop", "backing_file"))
	if err != nil {
		return nil, fmt.Errorf("list loop devices: %w", err)
	}
	out := map[string]string{}
	for _, entry := range entries {
		name := filepath.Base(filepath.Dir(filepath.Dir(entry)))
		backing, err := l.orphan(name, entry, files)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV) {
			continue // Freed meanwhile.
		}
		if err != nil {
			return nil, fmt.Errorf("list loop devices: %w", err)
		}
		if backing != "" {
			out[name] = backing
		}
	}
	return out, nil
}

// orphan returns the backing file of a device that is an orphan, and nothing for another.
func (l loopDevices) orphan(name, entry string, files map[fileID]string) (string, error) {
	text, err := os.ReadFile(entry)
	if err != nil {
		return "", err
	}
	backing := strings.TrimSpace(string(text))
	if strings.Contains(backing, "/lib/seatrial/") && strings.HasSuffix(backing, " (deleted)") {
		return backing, nil
	}
	if len(files) == 0 {
		return "", nil
	}
	id, err := l.backing(name)
	return files[id], err
}

// filesIn returns the paths of the files in directories, which need not be there, by their identity.
func filesIn(dirs []string) (map[fileID]string, error) {
	files := map[fileID]string{}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			var st unix.Stat_t
			if err := unix.Lstat(path, &st); err != nil {
				return &fs.PathError{Op: "stat", Path: path, Err: err}
			}
			files[fileID{st.Dev, st.Ino}] = path
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("list files that nodes shared: %w", err)
		}
	}
	return files, nil
}

// backingOf asks the kernel which file is behind a device.
func backingOf(name string) (fileID, error) {
	f, err := os.Open("/dev/" + name)
	if err != nil {
		return fileID{}, err
	}
	defer func() { _ = f.Close() }() // Nothing was written to it.
	info, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
	if err != nil {
		return fileID{}, fmt.Errorf("read status of %s: %w", name, err)
	}
	return fileID{info.Device, info.Inode}, nil
}

// detachLoop frees a device as soon as nothing has it mounted. One that is free already is no error.
func detachLoop(name string) error {
	device := "/dev/" + name
	f, err := os.Open(device)
	if err != nil {
		return fmt.Errorf("release loop device: %w", err)
	}
	defer func() { _ = f.Close() }() // Nothing was written to it.
	if err := unix.IoctlSetInt(int(f.Fd()), unix.LOOP_CLR_FD, 0); err != nil && !errors.Is(err, unix.ENXIO) {
		return fmt.Errorf("release loop device %s: %w", device, err)
	}
	return nil
}
