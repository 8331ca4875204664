//go:build !linux

package linux

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const Here = false

const (
	CapSysResource = iota
	LoopAutoClear
	MountBind
	MountReadOnly
	MountRemount
	MountSlaves
	NewMountNS
	NewNetworkNS
	NoFollow

	ClockBoot = unix.CLOCK_MONOTONIC // It counts while a Mac sleeps, as CLOCK_BOOTTIME does.
)

type LoopInfo struct {
	Device, Inode, Offset uint64
	Flags                 uint32
	File_name             [64]byte
}

type LoopConfig struct {
	Fd   uint32
	Info LoopInfo
}

func Fallocate(int, uint32, int64, int64) error          { return unix.ENOSYS }
func Mount(_, _, _ string, _ uintptr, _ string) error    { return unix.ENOSYS }
func Setns(int, int) error                               { return unix.ENOSYS }
func Unshare(int) error                                  { return unix.ENOSYS }
func Forget(int, int64, int64) error                     { return unix.ENOSYS }
func Shutdown(int) error                                 { return unix.ENOSYS }
func FreeLoop(int) (int, error)                          { return 0, unix.ENOSYS }
func ConfigureLoop(int, *LoopConfig) error               { return unix.ENOSYS }
func LoopStatus(int) (*LoopInfo, error)                  { return nil, unix.ENOSYS }
func SetLoopStatus(int, *LoopInfo) error                 { return unix.ENOSYS }
func ClearLoop(int) error                                { return unix.ENOSYS }
func MayHave(int) (bool, error)                          { return false, unix.ENOSYS }
func Socketpair() ([2]int, error)                        { return [2]int{}, unix.ENOSYS }
func ForceReceiveBuffer(int, int) error                  { return unix.ENOSYS }
func SinceAck(int) (uint32, int, error)                  { return 0, 0, unix.ENOSYS }
func AwaitExit(int) error                                { return unix.ENOSYS }
func MountEvents() error                                 { return unix.ENOSYS }
func DieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
