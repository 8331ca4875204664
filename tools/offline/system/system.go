// Package system is the machine this program runs on: its files and its commands, behind the small interfaces that
// tools/offline/engine and tools/doctor declare.
package system

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/clusters/linux"
	"github.com/seatrial/seatrial/tools/offline/proc"
)

// System is the real machine. Its zero value is ready.
type System struct{}

// ReadFile returns the whole of a file.
func (System) ReadFile(path string) ([]byte, error) { return os.ReadFile(path) }

// Stat describes a file; links are followed.
func (System) Stat(path string) (fs.FileInfo, error) { return os.Stat(path) }

// Getenv returns an environment variable, empty when it is not set.
func (System) Getenv(name string) string { return os.Getenv(name) }

// UserID returns the effective user; 0 is root.
func (System) UserID() int { return os.Geteuid() }

// LookPath finds a program as the shell would.
func (System) LookPath(name string) (string, error) { return exec.LookPath(name) }

// DiskFree returns the bytes an ordinary write may still use on the file system that holds path.
func (System) DiskFree(path string) (uint64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return 0, fmt.Errorf("ask for the free space of %q: %w", path, err)
	}
	return stat.Bavail * uint64(stat.Bsize), nil
}

// MountEvents asks the kernel for a fanotify group of mount events, and gives it back at once. It needs
// CAP_SYS_ADMIN and Linux 6.15.
func (System) MountEvents() error {
	if err := linux.MountEvents(); err != nil {
		return fmt.Errorf("ask for fanotify mount events: %w", err)
	}
	return nil
}

// Run runs a command as proc.Exec does, and returns its standard output.
func (s System) Run(ctx context.Context, argv ...string) ([]byte, error) {
	return s.RunWith(ctx, nil, argv...)
}

// RunWith is Run with input on standard input.
func (System) RunWith(ctx context.Context, input io.Reader, argv ...string) ([]byte, error) {
	var stdout bytes.Buffer
	err := proc.Exec{}.Run(ctx, proc.Command{Args: argv, Stdin: input, Stdout: &stdout})
	return stdout.Bytes(), err
}

// Floor is the lowest value of a kernel limit that kind's nodes can live with.
type Floor struct {
	Path string // Below /proc/sys.
	Need int
}

// InotifyFloors are the limits that kind's documentation asks for ("pod errors due to too many open files").
func InotifyFloors() []Floor {
	return []Floor{
		{Path: "/proc/sys/fs/inotify/max_user_watches", Need: 524288},
		{Path: "/proc/sys/fs/inotify/max_user_instances", Need: 512},
	}
}
