package engine

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seatrial/seatrial/tools/offline/debian"
	"github.com/seatrial/seatrial/tools/offline/proc"
)

// install installs Debian's engine. What is there already is not touched by apt.
func install(ctx context.Context, options Options) ([]string, error) {
	path := filepath.Join(options.StateDir, "apt.log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open apt's log: %w", err)
	}
	defer func() { _ = log.Close() }() // A log for people; what matters is in the error.
	packages := []string{"docker.io"}
	if _, err := options.Machine.LookPath("iptables"); err != nil {
		packages = append(packages, "iptables")
	}
	if err := debian.InstallPackages(ctx, proc.Exec{}, log, packages...); err != nil {
		return nil, fmt.Errorf("%w; the log %s ends: %s", err, path, tail(path))
	}
	if _, err := options.Machine.LookPath("docker"); err == nil {
		return packages, nil
	}
	// From trixie on the client is a package of its own.
	if err := debian.InstallPackages(ctx, proc.Exec{}, log, "docker-cli"); err != nil {
		return packages, fmt.Errorf("%w; the log %s ends: %s", err, path, tail(path))
	}
	return append(packages, "docker-cli"), nil
}

// tail returns the last lines of a log, for an error.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	const enough = 8
	if len(lines) > enough {
		lines = lines[len(lines)-enough:]
	}
	return string(bytes.Join(lines, []byte(" | ")))
}
