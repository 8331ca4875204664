package mountledger

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/e2e/history"
)

// loopMajor is the major number of loop devices (Documentation/admin-guide/devices.txt of the kernel).
const loopMajor = 7

func deviceName(major, minor uint32) string {
	return strconv.FormatUint(uint64(major), 10) + ":" + strconv.FormatUint(uint64(minor), 10)
}

// identify completes the identity of a mount whose device is known: for a loop device it adds the backing file. An
// error means that two mounts of one file could no longer be told to be of one file.
func identify(id history.Identity) (history.Identity, error) {
	minor, loop := strings.CutPrefix(id.Device, strconv.Itoa(loopMajor)+":")
	if !loop {
		return id, nil
	}
	n, err := strconv.ParseUint(minor, 10, 20)
	if err != nil {
		return id, fmt.Errorf("identify loop device %s: %w", id.Device, err)
	}
	info, err := loopStatus(uint32(n))
	if err != nil {
		return id, fmt.Errorf("identify loop device %s: %w", id.Device, err)
	}
	id.BackingDev = deviceName(unix.Major(info.Device), unix.Minor(info.Device))
	id.BackingInode = info.Inode
	id.BackingFile = backingFile(id.Device, info)
	return id, nil
}

// backingFile returns the name of the backing file for people: whole from sysfs, cut to 63 bytes from the device.
func backingFile(device string, info *unix.LoopInfo64) string {
	if name, err := os.ReadFile("/sys/dev/block/" + device + "/loop/backing_file"); err == nil {
		return strings.TrimSuffix(string(name), "\n")
	}
	name, _, _ := bytes.Cut(info.File_name[:], []byte{0})
	return string(name)
}

// loopStatus asks a loop device what stands behind it. A container's /dev has no node for a device that came after
// the container, so it makes one of its own there where needed. It is removed as soon as it is open.
func loopStatus(minor uint32) (*unix.LoopInfo64, error) {
	fd, err := openLoop(fmt.Sprintf("/dev/loop%d", minor), minor)
	if err != nil {
		own := fmt.Sprintf("/dev/.seatrial-loop%d-%d", minor, os.Getpid())
		// The number is right whatever stands at that path: openLoop compares it.
		mkErr := unix.Mknod(own, unix.S_IFBLK|0o600, int(unix.Mkdev(loopMajor, minor)))
		if mkErr != nil && !errors.Is(mkErr, unix.EEXIST) {
			return nil, errors.Join(err, fmt.Errorf("make device node %q: %w", own, mkErr))
		}
		fd, err = openLoop(own, minor)
		if rmErr := unix.Unlink(own); err != nil || rmErr != nil {
			if err == nil {
				err = unix.Close(fd)
			}
			return nil, errors.Join(err, rmErr)
		}
	}
	info, err := unix.IoctlLoopGetStatus64(fd)
	return info, errors.Join(err, unix.Close(fd))
}

func openLoop(path string, minor uint32) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, fmt.Errorf("open %q: %w", path, err)
	}
	var stat unix.Stat_t
	err = unix.Fstat(fd, &stat)
	if err == nil && (stat.Mode&unix.S_IFMT != unix.S_IFBLK || stat.Rdev != unix.Mkdev(loopMajor, minor)) {
		err = fmt.Errorf("open %q: it is not loop device %d", path, minor)
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}
