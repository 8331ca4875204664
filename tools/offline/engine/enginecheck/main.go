package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "wait" {
		ended, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		<-ended.Done()
		return
	}
	if err := try(); err != nil {
		fmt.Fprintf(os.Stderr, "enginecheck: %v\n", err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, "privileged")
}

// try does what only a privileged container may: it mounts a file system. A kind node does little else at its start.
func try() error {
	const at = "/mnt"
	if err := os.MkdirAll(at, 0o755); err != nil {
		return fmt.Errorf("make a mount point: %w", err)
	}
	if err := syscall.Mount("tmpfs", at, "tmpfs", 0, "size=64k"); err != nil {
		return fmt.Errorf("mount a file system: %w", err)
	}
	if err := syscall.Unmount(at, 0); err != nil {
		return fmt.Errorf("unmount it: %w", err)
	}
	return nil
}
