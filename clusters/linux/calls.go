//go:build linux

// Package linux has the system calls that only Linux has, so that the command line compiles elsewhere: there each of
// them fails with ENOSYS. See unix for what they do.
package linux

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Here reports whether this is Linux.
const Here = true

// Flags of the calls.
const (
	CapSysResource = unix.CAP_SYS_RESOURCE
	ClockBoot      = unix.CLOCK_BOOTTIME
	LoopAutoClear  = unix.LO_FLAGS_AUTOCLEAR
	MountBind      = unix.MS_BIND
	MountReadOnly  = unix.MS_RDONLY
	MountRemount   = unix.MS_REMOUNT
	MountSlaves    = unix.MS_REC | unix.MS_SLAVE
	NewMountNS     = unix.CLONE_NEWNS
	NewNetworkNS   = unix.CLONE_NEWNET
	NoFollow       = unix.UMOUNT_NOFOLLOW
)

// LoopInfo is the status of a loop device.
type LoopInfo = unix.LoopInfo64

// LoopConfig sets up a loop device.
type LoopConfig = unix.LoopConfig

// Fallocate changes the blocks of a file.
func Fallocate(fd int, mode uint32, off, n int64) error { return unix.Fallocate(fd, mode, off, n) }

// Mount mounts a file system.
func Mount(source, target, fileSystem string, flags uintptr, data string) error {
	return unix.Mount(source, target, fileSystem, flags, data)
}

// Setns moves this thread into a namespace.
func Setns(fd, kind int) error { return unix.Setns(fd, kind) }

// Unshare moves this thread into a new namespace.
func Unshare(flags int) error { return unix.Unshare(flags) }

// Forget drops a part of a file from the page cache.
func Forget(fd int, off, n int64) error { return unix.Fadvise(fd, off, n, unix.FADV_DONTNEED) }

// Shutdown shuts down the file system of an open directory without flushing it: FS_IOC_SHUTDOWN, which ext4 and xfs
// take, is _IOR('X', 125, __u32) of include/uapi/linux/fs.h.
func Shutdown(fd int) error {
	const iocShutdown, noLogFlush = 0x8004587d, 2
	return unix.IoctlSetPointerInt(fd, iocShutdown, noLogFlush)
}

// FreeLoop returns the number of a free loop device.
func FreeLoop(control int) (int, error) { return unix.IoctlRetInt(control, unix.LOOP_CTL_GET_FREE) }

// ConfigureLoop sets up a loop device.
func ConfigureLoop(fd int, c *LoopConfig) error { return unix.IoctlLoopConfigure(fd, c) }

// LoopStatus returns the status of a loop device.
func LoopStatus(fd int) (*LoopInfo, error) { return unix.IoctlLoopGetStatus64(fd) }

// SetLoopStatus changes the status of a loop device.
func SetLoopStatus(fd int, info *LoopInfo) error { return unix.IoctlLoopSetStatus64(fd, info) }

// ClearLoop frees a loop device.
func ClearLoop(fd int) error { return unix.IoctlSetInt(fd, unix.LOOP_CLR_FD, 0) }

// MayHave reports whether a capability is in the bounding set of this process.
func MayHave(capability int) (bool, error) {
	has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(capability), 0, 0, 0)
	return has != 0, err
}

// Socketpair returns two connected sockets.
func Socketpair() ([2]int, error) {
	return unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
}

// ForceReceiveBuffer sets the size of a receive buffer beyond the limit of the system.
func ForceReceiveBuffer(fd, bytes int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, bytes)
}

// SinceAck returns how long ago a TCP connection received its last acknowledgement, in milliseconds, and how many bytes
// were not acknowledged. Not tcpi_unacked: it leaves out packets that this node's own firewall drops.
func SinceAck(fd int) (milliseconds uint32, pending int, err error) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, 0, err
	}
	pending, err = unix.IoctlGetInt(fd, unix.SIOCOUTQ)
	return info.Last_ack_recv, pending, err
}

// AwaitExit waits until a child has ended, and does not reap it.
func AwaitExit(pid int) error {
	return unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
}

// MountEvents makes and closes a fanotify group of mount events.
func MountEvents() error {
	group, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_REPORT_MNT|unix.FAN_CLOEXEC, unix.O_RDONLY)
	if err != nil {
		return err
	}
	return unix.Close(group)
}

// DieWithParent makes a child end by a signal when this process ends.
func DieWithParent(a *syscall.SysProcAttr, s syscall.Signal) { a.Pdeathsig = s }
