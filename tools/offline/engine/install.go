package engine

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// listsAge is how old apt's lists may be before they are fetched again: archives drop superseded versions after a
// while, and a list a day old is still good in practice.
const listsAge = 24 * time.Hour

// install installs Debian's engine. What is there already is not touched by apt.
func install(ctx context.Context, options Options) ([]string, error) {
	packages := []string{"docker.io"}
	if _, err := options.Machine.LookPath("iptables"); err != nil {
		packages = append(packages, "iptables")
	}
	if listsStale(time.Now()) {
		if err := apt(ctx, options, "update"); err != nil {
			return nil, err
		}
	}
	arguments := append([]string{"install", "-y", "--no-install-recommends"}, packages...)
	if err := apt(ctx, options, arguments...); err != nil {
		// Lists that are young may still be of packages that are gone.
		if updated := apt(ctx, options, "update"); updated != nil {
			return nil, err
		}
		if err := apt(ctx, options, arguments...); err != nil {
			return nil, err
		}
	}
	if _, err := options.Machine.LookPath("docker"); err == nil {
		return packages, nil
	}
	// From trixie on the client is a package of its own.
	if err := apt(ctx, options, "install", "-y", "--no-install-recommends", "docker-cli"); err != nil {
		return packages, err
	}
	return append(packages, "docker-cli"), nil
}

// listsStale tells whether apt has no package lists, or none fetched of late.
func listsStale(now time.Time) bool {
	const lists = "/var/lib/apt/lists"
	found, err := filepath.Glob(filepath.Join(lists, "*_Packages*"))
	if err != nil || len(found) == 0 {
		return true
	}
	info, err := os.Stat(lists)
	return err != nil || now.Sub(info.ModTime()) > listsAge
}

// apt runs apt-get with its output in a log, and says every 20 seconds that it still does.
func apt(ctx context.Context, options Options, arguments ...string) error {
	path := filepath.Join(options.StateDir, "apt.log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open apt's log: %w", err)
	}
	defer func() { _ = log.Close() }() // A log for people; what matters is in the error.
	argv := append([]string{"-q", "-o", "DPkg::Lock::Timeout=300"}, arguments...)
	fmt.Fprintf(log, "# apt-get %s\n", strings.Join(argv, " "))
	command := exec.CommandContext(ctx, "apt-get", argv...)
	command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	command.Stdout, command.Stderr = log, log
	// An interrupt lets dpkg end what it is at; a kill would leave a package half configured.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 30 * time.Second
	if err := command.Start(); err != nil {
		return fmt.Errorf("start apt-get: %w", err)
	}
	began := time.Now()
	done := make(chan error, 1)
	go func() { done <- command.Wait() }()
	ticker := time.NewTicker(20 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			took := time.Since(began).Round(time.Second)
			if err != nil {
				return fmt.Errorf("run apt-get %s: %w; its log %s ends: %s", strings.Join(arguments, " "), err, path,
					tail(path))
			}
			fmt.Fprintf(options.Out, "  apt-get %s: done in %s.\n", strings.Join(arguments, " "), took)
			return nil
		case <-ticker.C:
			fmt.Fprintf(options.Out, "  apt-get %s: %s so far (log: %s).\n", arguments[0],
				time.Since(began).Round(time.Second), path)
		}
	}
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
