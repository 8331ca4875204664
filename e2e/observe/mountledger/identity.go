package mountledger

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/history"
)

// loopMajor is the major number of loop devices (Documentation/admin-guide/devices.txt of the kernel).
const loopMajor = 7

func deviceName(major, minor uint32) string {
	return strconv.FormatUint(uint64(major), 10) + ":" + strconv.FormatUint(uint64(minor), 10)
}

// mostLoops bounds how many loop devices may be stacked.
const mostLoops = 8

// identify completes the identity of a mount whose device is known: it adds the backing file of a loop device. It
// follows a backing file that is a device itself, as behind the loop device with which the kubelet holds a volume of
// volumeMode Block. After an error, two mounts of one file may not be recognized as such.
func identify(id history.Identity) (history.Identity, error) {
	device := id.Device
	for range mostLoops {
		minor, loop := strings.CutPrefix(device, strconv.Itoa(loopMajor)+":")
		if !loop {
			return history.Identity{Device: device}, nil
		}
		n, err := strconv.ParseUint(minor, 10, 20)
		if err != nil {
			return id, fmt.Errorf("identify loop device %s: %w", device, err)
		}
		info, err := loopStatus(uint32(n))
		if err != nil {
			return id, fmt.Errorf("identify loop device %s: %w", device, err)
		}
		if info.Rdevice == 0 {
			id.BackingDev = deviceName(unix.Major(info.Device), unix.Minor(info.Device))
			id.BackingInode = info.Inode
			id.BackingFile = backingFile(device, info)
			return id, nil
		}
		device = deviceName(unix.Major(info.Rdevice), unix.Minor(info.Rdevice))
	}
	return id, fmt.Errorf("identify loop device %s: more than %d loop devices, one on the other", id.Device, mostLoops)
}

// identifyMount completes the identity of a mount. A volume of volumeMode Block is published as the mount of a device
// file: its identity is that device's, whatever file system the file is in. Mask is STATX_MNT_ID_UNIQUE or
// STATX_MNT_ID, the kind of the given id.
func identifyMount(m history.Mount, id uint64, mask int) (history.Identity, error) {
	if m.Root == "/" || !slices.Contains(fileSystemsOfDevices(), m.FSType) {
		return identify(m.Identity)
	}
	var stat unix.Statx_t
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	err := unix.Statx(unix.AT_FDCWD, m.Path, flags, unix.STATX_TYPE|mask, &stat)
	switch {
	case err == nil && stat.Mask&uint32(mask) != 0 && stat.Mnt_id != id:
		err = errors.New("another mount is there now")
	case err == nil && stat.Mode&unix.S_IFMT == unix.S_IFBLK:
		return identify(history.Identity{Device: deviceName(stat.Rdev_major, stat.Rdev_minor)})
	}
	place, _ := history.PlaceOf(m.Path)
	if err == nil || m.FSType != "devtmpfs" && place.Kind != history.PlaceBlock {
		return identify(m.Identity)
	}
	return m.Identity, fmt.Errorf("tell which device is at %q: %w", m.Path, err)
}

// fileSystemsOfDevices are the types of file systems with device files: /dev itself, and where a driver makes its own.
// stat(2) on another may wait for a server.
func fileSystemsOfDevices() []string { return []string{"devtmpfs", "tmpfs", "overlay", "ext4", "xfs"} }

// backingFile returns the name of the backing file for people: whole from sysfs, cut to 63 bytes from the device.
func backingFile(device string, info *unix.LoopInfo64) string {
	if name, err := os.ReadFile("/sys/dev/block/" + device + "/loop/backing_file"); err == nil {
		return strings.TrimSuffix(string(name), "\n")
	}
	name, _, _ := bytes.Cut(info.File_name[:], []byte{0})
	return string(name)
}

// loopStatus returns the status of a loop device. A container's /dev lacks devices that are newer than the container,
// so loopStatus makes a device file of its own if needed, and removes it as soon as it is open.
func loopStatus(minor uint32) (*unix.LoopInfo64, error) {
	fd, err := openLoop(fmt.Sprintf("/dev/loop%d", minor), minor)
	if err != nil {
		runtime.LockOSThread() // Until it is unlocked, no other goroutine has this thread's id, and so this name.
		defer runtime.UnlockOSThread()
		own := fmt.Sprintf("/dev/.seatrial-loop%d-%d", minor, unix.Gettid())
		// Whatever is at that path, openLoop compares the number.
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
