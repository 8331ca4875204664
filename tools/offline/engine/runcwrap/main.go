package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/seatrial/seatrial/tools/offline/engine/ociwrap"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "seatrial-runc: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if path, kind := ociwrap.Target(args); kind != ociwrap.None {
		allowed, err := bounding()
		if err != nil {
			return err
		}
		if err := trim(path, kind, allowed); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the runtime: %w", err)
	}
	runtime, err := os.Readlink(self + ".runtime") // What places this program links to the runtime behind it.
	if err != nil {
		return fmt.Errorf("find the runtime: %w", err)
	}
	// Engines look at the runtime's own messages, which begin with its name: keep that name.
	argv := append([]string{filepath.Base(runtime)}, args...)
	if err := syscall.Exec(runtime, argv, os.Environ()); err != nil {
		return fmt.Errorf("become %q: %w", runtime, err)
	}
	return nil
}

// bounding returns this process's bounding set, which is the engine's own, inherited.
func bounding() (ociwrap.Set, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("read the bounding set: %w", err)
	}
	return ociwrap.ParseBounding(status)
}

// trim rewrites the file when, and only when, it asks for a capability that is not allowed.
func trim(path string, kind ociwrap.Kind, allowed ociwrap.Set) error {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		// The runtime explains a missing file better.
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the container's description: %w", err)
	}
	filter := ociwrap.FilterConfig
	if kind == ociwrap.Process {
		filter = ociwrap.FilterProcess
	}
	trimmed, cut, err := filter(text, allowed)
	if err != nil {
		return fmt.Errorf("%q: %w", path, err)
	}
	if len(cut) == 0 {
		return nil
	}
	return replace(path, trimmed)
}

// replace puts text in the file's place in one step, so that no reader sees half of it.
func replace(path string, text []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("replace %q: %w", path, err)
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), ".seatrial-*")
	if err != nil {
		return fmt.Errorf("replace %q: %w", path, err)
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // It is gone when all went well.
	_, err = temporary.Write(text)
	if err == nil {
		err = temporary.Chmod(info.Mode().Perm())
	}
	if closed := temporary.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("replace %q: %w", path, err)
	}
	return nil
}
