package kind

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/clusters/linux"
)

// releaseBound is how long released loop devices may stay busy: the mounts of a removed container go in the background.
const releaseBound = 15 * time.Second

// loopDevices are those of this machine. They outlive the containers that set them up.
type loopDevices struct {
	sys    string // "/sys/block".
	status func(name string) (loopStatus, error)
	detach func(name string) error
}

// fileID identifies a file on this machine by its file system's device and its inode.
type fileID struct{ dev, inode uint64 }

// loopStatus is the kernel's status of a device.
type loopStatus struct {
	label string // As it was set up; by default the path of the file.
	file  fileID
}

// gone identifies the loop devices of a deleted cluster.
type gone struct {
	nodes *regexp.Regexp    // Matches labels that end in the name of one of its nodes.
	files map[fileID]string // The files in the directory that they shared.
}

// goneWith identifies the loop devices of a cluster, given the directories that its nodes shared.
func goneWith(cluster string, shared []string) (gone, error) {
	files, err := filesIn(shared)
	nodes := regexp.MustCompile(`/` + regexp.QuoteMeta(cluster) + `-(control-plane|worker)[0-9]*$`)
	return gone{nodes: nodes, files: files}, err
}

// has reports whether a device was one of the cluster's.
func (g gone) has(s loopStatus) bool {
	_, shared := g.files[s.file]
	return shared || g.nodes != nil && g.nodes.MatchString(s.label)
}

func hostLoops() loopDevices {
	return loopDevices{sys: "/sys/block", status: statusOf, detach: detachLoop}
}

// release frees the loop devices that orphans returns. Only the engine's own machine has any.
func (l loopDevices) release(ctx context.Context, log *slog.Logger, of gone) error {
	left, err := l.orphans(of)
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
	return await.Until(context.WithoutCancel(ctx), "the loop devices of deleted nodes to be free", 100*time.Millisecond,
		releaseBound, func(context.Context) (bool, string, error) {
			left, err := l.orphans(of)
			return len(left) == 0, fmt.Sprintf("still set up: %v", left), err
		})
}

// orphans returns the devices, by name, over a deleted file of ours, and those of a deleted cluster. While a node
// exists, the kernel shows its files as /var/lib/seatrial/...; once its /var is no longer mounted, as /lib/seatrial/...
// followed by " (deleted)". Files that nodes shared may still exist and have a path that says nothing: they are
// identified by inode, and by the label of the device, which holds the node's name.
func (l loopDevices) orphans(of gone) (map[string]string, error) {
	entries, err := filepath.Glob(filepath.Join(l.sys, "loop*", "loop", "backing_file"))
	if err != nil {
		return nil, fmt.Errorf("list loop devices: %w", err)
	}
	out := map[string]string{}
	for _, entry := range entries {
		name := filepath.Base(filepath.Dir(filepath.Dir(entry)))
		backing, err := l.orphan(name, entry, of)
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

// orphan returns the backing file of an orphan, "" for any other device.
func (l loopDevices) orphan(name, entry string, of gone) (string, error) {
	text, err := os.ReadFile(entry)
	if err != nil {
		return "", err
	}
	backing := strings.TrimSpace(string(text))
	if strings.Contains(backing, "/lib/seatrial/") && strings.HasSuffix(backing, " (deleted)") {
		return backing, nil
	}
	status, err := l.status(name)
	if errors.Is(err, fs.ErrPermission) {
		return "", nil // We cannot have set it up, nor can we free it.
	}
	if err != nil || !of.has(status) {
		return "", err
	}
	return backing, nil
}

// filesIn returns the paths of the files in directories, by identity. The directories need not exist.
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
			files[fileID{uint64(st.Dev), st.Ino}] = path //nolint:unconvert // It has another type on other systems.
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("list files that nodes shared: %w", err)
		}
	}
	return files, nil
}

// statusOf asks the kernel for the status of a device.
func statusOf(name string) (loopStatus, error) {
	f, err := os.Open("/dev/" + name)
	if err != nil {
		return loopStatus{}, err
	}
	defer func() { _ = f.Close() }() // Nothing was written to it.
	info, err := linux.LoopStatus(int(f.Fd()))
	if err != nil {
		return loopStatus{}, fmt.Errorf("read status of %s: %w", name, err)
	}
	return loopStatus{
		label: unix.ByteSliceToString(info.File_name[:]), file: fileID{info.Device, info.Inode},
	}, nil
}

// detachLoop frees a device, if it is set up, as soon as nothing has it mounted.
func detachLoop(name string) error {
	device := "/dev/" + name
	f, err := os.Open(device)
	if err != nil {
		return fmt.Errorf("release loop device: %w", err)
	}
	defer func() { _ = f.Close() }() // Nothing was written to it.
	if err := linux.ClearLoop(int(f.Fd())); err != nil && !errors.Is(err, unix.ENXIO) {
		return fmt.Errorf("release loop device %s: %w", device, err)
	}
	return nil
}
