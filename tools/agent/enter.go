package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// runEnter moves one thread into the namespaces of the node's first process and becomes the program there. No shell
// reads its arguments.
func runEnter(_ context.Context, _ stdio, args []string) error {
	if len(args) == 0 {
		return badArguments("enter takes a program and its arguments")
	}
	runtime.LockOSThread() // The namespaces are the thread's.
	root, err := os.Open("/proc/1/root")
	if err != nil {
		return fmt.Errorf("open the node's root: %w", err)
	}
	spaces := []string{"net", "ipc", "uts", "cgroup", "mnt"} // Mounts last: /proc is another one then.
	files := map[string]*os.File{}
	for _, name := range spaces {
		if files[name], err = os.Open("/proc/1/ns/" + name); err != nil {
			return fmt.Errorf("open the node's namespace: %w", err)
		}
	}
	if err := unix.Unshare(unix.CLONE_FS); err != nil { // A thread that shares its root may not change its mounts.
		return fmt.Errorf("leave the shared root: %w", err)
	}
	for _, name := range spaces {
		if err := unix.Setns(int(files[name].Fd()), 0); err != nil {
			return fmt.Errorf("enter the node's %s namespace: %w", name, err)
		}
	}
	if err := unix.Fchdir(int(root.Fd())); err != nil {
		return fmt.Errorf("enter the node's root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("enter the node's root: %w", err)
	}
	program, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	return fmt.Errorf("run %q: %w", program, unix.Exec(program, args, os.Environ()))
}
