// Package system is the machine this program runs on: its files and its commands, behind the small interfaces that
// tools/offline/engine and tools/doctor declare.
package system

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"
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
	group, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_REPORT_MNT|unix.FAN_CLOEXEC, unix.O_RDONLY)
	if err != nil {
		return fmt.Errorf("ask for fanotify mount events: %w", err)
	}
	return unix.Close(group)
}

// Run runs a command to its end and returns its standard output. A command that fails is an error that has its last
// words. When ctx ends the command is killed, and 5 seconds later given up.
func (s System) Run(ctx context.Context, argv ...string) ([]byte, error) {
	return s.RunWith(ctx, nil, nil, argv...)
}

// RunWith is Run with input on standard input, and env added to the environment.
func (System) RunWith(ctx context.Context, input io.Reader, env []string, argv ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	command.WaitDelay = 5 * time.Second
	command.Env = append(os.Environ(), env...)
	command.Stdin = input
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	if err == nil {
		return stdout.Bytes(), nil
	}
	if ended := context.Cause(ctx); ended != nil {
		err = errors.Join(err, ended)
	}
	said := lastWords(stderr.String())
	if said == "" {
		said = lastWords(stdout.String())
	}
	return stdout.Bytes(), fmt.Errorf("run %q: %w%s", strings.Join(argv, " "), err, said)
}

// lastWords returns the end of what a command said, to be put behind its error.
func lastWords(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	const enough = 2000
	if len(text) > enough {
		text = "..." + text[len(text)-enough:]
	}
	return ": " + text
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
