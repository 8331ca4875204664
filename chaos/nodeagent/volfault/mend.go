package volfault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters/linux"
	"github.com/seatrial/seatrial/clusters/loopdev"
)

// The bounds of remounting.
const (
	emptyWithin = 10 * time.Second // Until no process and no mount uses the file system.
	emptyPoll   = 50 * time.Millisecond
)

// idle calls do while the kubelet is stopped, so that no container starts on a missing mount. A kubelet that was
// stopped before stays stopped. A note tells a later process that we stopped it.
func (n *Node) idle(ctx context.Context, owner undo.Owner, do func() error) error {
	kubelet := filepath.Join(n.Notes, owner.Name(), noteKubelet)
	_, statErr := os.Stat(kubelet)
	state, err := n.Run(ctx, []string{"systemctl", "show", "kubelet", "--property=ActiveState", "--value"}, "")
	if err != nil {
		return fmt.Errorf("ask for the kubelet: %w", err)
	}
	if strings.TrimSpace(state) != "active" && statErr != nil {
		return do()
	}
	if err := os.MkdirAll(kubelet, 0o755); err != nil {
		return fmt.Errorf("note that the kubelet is stopped: %w", err)
	}
	if _, err := n.Run(ctx, []string{"systemctl", "stop", "kubelet"}, ""); err != nil {
		return fmt.Errorf("stop the kubelet: %w", err)
	}
	done := do()
	if _, err := n.Run(ctx, []string{"systemctl", "start", "kubelet"}, ""); err != nil {
		return errors.Join(done, fmt.Errorf("start the kubelet: %w", err))
	}
	return errors.Join(done, os.Remove(kubelet))
}

// empty kills the pods' processes that have the volume mounted and waits until they are gone.
func empty(ctx context.Context, dev string) (killed int, err error) {
	err = await.Until(ctx, "no process to have the volume open", emptyPoll, emptyWithin,
		func(context.Context) (bool, string, error) {
			found, err := users(dev)
			if err != nil {
				return false, "", err
			}
			n, err := kill(found)
			killed += n
			if err != nil || len(found) == 0 {
				return err == nil, "", err
			}
			return false, fmt.Sprintf("%s, pid %d, is there", found[0].Name, found[0].PID), nil
		})
	return killed, err
}

// remake remounts the file system wherever it is mounted: nothing else revives one that was shut down. Mounting replays
// its log.
func (n *Node) remake(ctx context.Context, owner undo.Owner, note Note) error {
	if !note.Remaking {
		now, err := Find(note.Volume.PV) // The pod may have gone, or be another one.
		if err != nil {
			return err
		}
		note.Volume, note.Remaking = now, true
		if note.Backing, err = backing(now.Source); err != nil {
			return err
		}
		if err := n.keep(owner, note); err != nil {
			return err
		}
	}
	return n.idle(ctx, owner, func() error {
		if _, err := empty(ctx, note.Volume.Device); err != nil {
			return err
		}
		// The open file keeps the device from freeing itself between the last unmount and the first mount.
		dev, err := n.open(note)
		if err != nil {
			return err
		}
		err = errors.Join(unmountAll(ctx, note.Volume), mountAll(ctx, note.Volume, dev))
		return errors.Join(err, dev.Close())
	})
}

// open opens the device, and sets it up first if it has freed itself.
func (n *Node) open(note Note) (*os.File, error) {
	if note.Backing != "" {
		devices, err := loopdev.Over(note.Backing)
		if err != nil {
			return nil, err
		}
		if len(devices) == 0 {
			return loopdev.Attach(note.Backing, loopdev.Options{AutoClear: true})
		}
		return loopdev.Open(devices[0].Number)
	}
	dev, err := os.Open(note.Volume.Source)
	if err != nil {
		return nil, fmt.Errorf("open the device of volume %q: %w", note.Volume.PV, err)
	}
	return dev, nil
}

// unmountAll removes every mount of the device in this namespace, the last one first.
func unmountAll(ctx context.Context, v Volume) error {
	return await.Until(ctx, fmt.Sprintf("volume %q to be unmounted", v.PV), emptyPoll, emptyWithin,
		func(context.Context) (bool, string, error) {
			mounts, err := table(0)
			if err != nil {
				return false, "", err
			}
			now := volumeOf(mounts, v.Device)
			for _, m := range slices.Backward(now.Mounts) {
				if err := unix.Unmount(m.Path, linux.NoFollow); err != nil && !errors.Is(err, unix.EINVAL) {
					return false, "", fmt.Errorf("unmount %q: %w", m.Path, err)
				}
			}
			return len(now.Mounts) == 0, fmt.Sprintf("%d mounts are there", len(now.Mounts)), nil
		})
}

// mountAll mounts the file system where it was. It waits until the device can be opened exclusively: while any
// namespace still has the old mount, the kernel would mount the dead file system again.
func mountAll(ctx context.Context, v Volume, dev *os.File) error {
	err := await.Until(ctx, fmt.Sprintf("%s to be free", dev.Name()), emptyPoll, emptyWithin,
		func(context.Context) (bool, string, error) {
			alone, err := os.OpenFile(dev.Name(), os.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0)
			if err != nil {
				return false, "", err
			}
			return true, "", alone.Close()
		})
	if err != nil {
		return err
	}
	root, err := v.root()
	if err != nil {
		return err
	}
	data := ""
	if slices.Contains(strings.Split(v.Options, ","), "nouuid") { // Another node has the same xfs mounted.
		data = "nouuid"
	}
	if err := linux.Mount(dev.Name(), root, v.FileSystem, 0, data); err != nil {
		return fmt.Errorf("mount %s at %q: %w", dev.Name(), root, err)
	}
	for _, m := range v.Mounts {
		if m.Path == root {
			continue
		}
		if err := linux.Mount(filepath.Join(root, m.Root), m.Path, "", linux.MountBind, ""); err != nil {
			return fmt.Errorf("bind %q of volume %q at %q: %w", m.Root, v.PV, m.Path, err)
		}
	}
	return nil
}
