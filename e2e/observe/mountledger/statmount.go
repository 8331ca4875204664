package mountledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/history"
)

// From the kernel's include/uapi/linux/mount.h; x/sys has the numbers of the system calls and nothing else of them.
const (
	statmountSBBasic  = 0x01
	statmountMntBasic = 0x02
	statmountMntRoot  = 0x08
	statmountMntPoint = 0x10
	statmountFSType   = 0x20
	statmountWanted   = statmountSBBasic | statmountMntBasic | statmountMntRoot | statmountMntPoint | statmountFSType

	statmountHeaderSize = 512 // Offset of the strings in struct statmount.
	listmountRoot       = ^uint64(0)

	sbReadOnly    = 0x1
	mountReadOnly = 0x1 // MOUNT_ATTR_RDONLY.
)

// mountRequest is struct mnt_id_req. Its first version (24 bytes), for this mount namespace, works on every kernel with
// statmount(2); the second names another namespace (32 bytes, Linux 6.11).
type mountRequest struct {
	size  uint32
	spare uint32
	id    uint64
	param uint64 // The wanted fields of a mount, or the last id of a listing.
	space uint64 // The kernel's unique id of a mount namespace, 0 for this one.
}

func newMountRequest(space, id uint64) mountRequest {
	const first, second = 24, 32
	if space == 0 {
		return mountRequest{size: first, id: id}
	}
	return mountRequest{size: second, id: id, space: space}
}

// errGone is a mount that is no longer there.
var errGone = errors.New("mount is gone")

// statter reads mounts by their unique ids. It is for one goroutine.
type statter struct {
	space uint64 // The mount namespace, as in a mountRequest.
	buf   []byte
}

func newStatter() *statter { return &statter{buf: make([]byte, 16<<10)} }

// stat returns a mount, without the backing file of a loop device.
func (s *statter) stat(id uint64) (history.Mount, error) {
	const mostBuffer = 1 << 20
	for {
		req := newMountRequest(s.space, id)
		req.param = statmountWanted
		_, _, errno := unix.Syscall6(unix.SYS_STATMOUNT, uintptr(unsafe.Pointer(&req)),
			uintptr(unsafe.Pointer(&s.buf[0])), uintptr(len(s.buf)), 0, 0, 0)
		runtime.KeepAlive(&req)
		switch {
		case errno == 0:
			return parseStatmount(s.buf)
		case errno == unix.ENOENT:
			return history.Mount{}, errGone
		case errno == unix.EOVERFLOW && len(s.buf) < mostBuffer:
			s.buf = make([]byte, 2*len(s.buf))
		default:
			return history.Mount{}, fmt.Errorf("statmount %d: %w", id, errno)
		}
	}
}

// parseStatmount decodes a struct statmount.
func parseStatmount(buf []byte) (history.Mount, error) {
	if len(buf) < statmountHeaderSize {
		return history.Mount{}, fmt.Errorf("parse statmount: %d bytes, want at least %d", len(buf), statmountHeaderSize)
	}
	order := binary.NativeEndian
	mask := order.Uint64(buf[8:])
	if missing := statmountWanted &^ mask; missing&(statmountSBBasic|statmountMntBasic) != 0 {
		return history.Mount{}, fmt.Errorf("parse statmount: mask %#x lacks %#x", mask, missing)
	}
	m := history.Mount{
		MountID:  order.Uint64(buf[40:]),
		Identity: history.Identity{Device: deviceName(order.Uint32(buf[16:]), order.Uint32(buf[20:]))},
		ReadOnly: order.Uint32(buf[32:])&sbReadOnly != 0 || order.Uint64(buf[64:])&mountReadOnly != 0,
	}
	for _, field := range []struct {
		bit    uint64
		offset int
		to     *string
	}{
		{statmountFSType, 36, &m.FSType},
		{statmountMntRoot, 104, &m.Root},
		{statmountMntPoint, 108, &m.Path},
	} {
		if mask&field.bit == 0 {
			continue
		}
		at := uint64(statmountHeaderSize) + uint64(order.Uint32(buf[field.offset:]))
		if at >= uint64(len(buf)) {
			return history.Mount{}, fmt.Errorf("parse statmount: string at %d, behind the end at %d", at, len(buf))
		}
		text, _, ended := bytes.Cut(buf[at:], []byte{0})
		if !ended {
			return history.Mount{}, fmt.Errorf("parse statmount: string at %d has no end", at)
		}
		*field.to = string(text)
	}
	return m, nil
}

// listMounts returns the unique ids of all mounts of a mount namespace, in order; 0 is this namespace.
func listMounts(space uint64) ([]uint64, error) {
	var ids []uint64
	page := make([]uint64, 512)
	req := newMountRequest(space, listmountRoot)
	for {
		n, _, errno := unix.Syscall6(unix.SYS_LISTMOUNT, uintptr(unsafe.Pointer(&req)),
			uintptr(unsafe.Pointer(&page[0])), uintptr(len(page)), 0, 0, 0)
		runtime.KeepAlive(&req)
		switch {
		case errno == unix.ENOENT && space != 0:
			return nil, errGone
		case errno != 0:
			return nil, fmt.Errorf("listmount: %w", errno)
		}
		ids = append(ids, page[:n]...)
		if int(n) < len(page) {
			return ids, nil
		}
		req.param = page[n-1]
	}
}

// namespaceID returns the kernel's unique id of a process's mount namespace, for listing its mounts from another one
// (Linux 6.11).
func namespaceID(pid int) (uint64, error) {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return 0, errGone
	}
	if err != nil {
		return 0, fmt.Errorf("open mount namespace: %w", err)
	}
	var id uint64
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.NS_GET_MNTNS_ID, uintptr(unsafe.Pointer(&id)))
	if err := unix.Close(fd); err != nil || errno != 0 {
		return 0, errors.Join(fmt.Errorf("ask for the id of a mount namespace: %w", errno), err)
	}
	return id, nil
}
