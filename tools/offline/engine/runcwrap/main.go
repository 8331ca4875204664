package main

import (
	"errors"
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
		// The bounding set is the engine's own, inherited.
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			return fmt.Errorf("read the bounding set: %w", err)
		}
		allowed, err := ociwrap.ParseBounding(status)
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
	filtered, changed, err := ociwrap.Filter(text, kind, allowed)
	if err != nil {
		return fmt.Errorf("%q: %w", path, err)
	}
	if !changed {
		return nil
	}
	if err := replace(path, filtered); err != nil {
		return fmt.Errorf("replace %q: %w", path, err)
	}
	return nil
}

// replace replaces the content of a file in one step, so that no reader sees half of it. The mode stays.
func replace(path string, text []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	temporary := fmt.Sprintf("%s.seatrial-%d", path, os.Getpid())
	if err := os.WriteFile(temporary, text, info.Mode().Perm()); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return os.Rename(temporary, path)
}
