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
	sys    string // "/sys/block".
	detach func(name string) error
}

func hostLoops() loopDevices {
	return loopDevices{sys: "/sys/block", detach: detachLoop}
}

// release frees the loop devices whose backing file was one of ours on a node that is gone. On another machine than the
// engine's there are none.
func (l loopDevices) release(ctx context.Context, log *slog.Logger) error {
	left, err := l.orphans()
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
			left, err := l.orphans()
			return fmt.Sprintf("still set up: %v", left), len(left) == 0, err
		})
}

// orphans returns the devices whose backing file is deleted and was ours, by name. While a node lives its volumes'
// files are seen as /var/lib/seatrial/...; once it is gone its /var is no longer mounted anywhere, and they are seen as
// /lib/seatrial/... with " (deleted)" after it.
func (l loopDevices) orphans() (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(l.sys, "loop*", "loop", "backing_file"))
	if err != nil {
		return nil, fmt.Errorf("list loop devices: %w", err)
	}
	out := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV) {
			continue // Freed meanwhile.
		}
		if err != nil {
			return nil, fmt.Errorf("list loop devices: %w", err)
		}
		backing := strings.TrimSpace(string(text))
		if strings.Contains(backing, "/lib/seatrial/") && strings.HasSuffix(backing, " (deleted)") {
			out[filepath.Base(filepath.Dir(filepath.Dir(file)))] = backing
		}
	}
	return out, nil
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
