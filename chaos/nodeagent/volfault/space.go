package volfault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters/linux"
)

// filler is the path of the owner's file that fills the volume.
func filler(root string, owner undo.Owner) string {
	return filepath.Join(root, ours+"full-"+owner.Name())
}

// fill allocates every block that root may use, in ever smaller pieces until none is left: others may free blocks.
func fill(root string, owner undo.Owner) error {
	f, err := os.OpenFile(filler(root, owner), os.O_CREATE|os.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("create the file that fills the volume: %w", err)
	}
	size, piece := int64(0), int64(1)<<30
	for err == nil && piece >= block {
		err = linux.Fallocate(int(f.Fd()), 0, size, piece)
		switch {
		case err == nil:
			size += piece
		case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EINTR):
			if errors.Is(err, unix.ENOSPC) {
				piece /= 2
			}
			err = nil
		}
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("fill the volume with %q: %w", f.Name(), err)
	}
	return nil
}

// makeReadOnly remounts the file system read-only. The kernel refuses that while a file is open for writing, so it
// kills the pods' processes first and keeps the kubelet from restarting them meanwhile.
func (n *Node) makeReadOnly(ctx context.Context, owner undo.Owner, v Volume) (killed int, err error) {
	root, err := v.root()
	if err != nil {
		return 0, err
	}
	err = n.idle(ctx, owner, func() error {
		if killed, err = empty(ctx, v.Device); err != nil {
			return err
		}
		return await.Until(ctx, "the file system to be read-only", emptyPoll, emptyWithin,
			func(context.Context) (bool, string, error) {
				err := linux.Mount("", root, "", linux.MountRemount|linux.MountReadOnly, "")
				return err == nil, "", err
			})
	})
	return killed, err
}

// makeWritable remounts a read-only file system writable and reports what it did.
func makeWritable(root string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(root, &st); err != nil {
		return "", fmt.Errorf("statfs %q: %w", root, err)
	}
	if st.Flags&linux.MountReadOnly == 0 {
		return "", nil
	}
	if err := linux.Mount("", root, "", linux.MountRemount, ""); err != nil {
		return "", fmt.Errorf("make %q writable: %w", root, err)
	}
	return "made writable", nil
}
