package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/seatrial/seatrial/clusters/existing/link"
	"golang.org/x/sys/unix"
)

func runLink(ctx context.Context, std stdio, args []string) error {
	if len(args) == 1 && args[0] == "stdio" {
		link.ServeOne(ctx, pipes{std.in, std.out})
		return nil
	}
	if len(args) != 2 || !link.IsSession(args[1]) {
		return badArguments("link takes a command and a session, got %q", args)
	}
	switch s := link.Session(args[1]); args[0] {
	case "start":
		return startLink(ctx, std, s)
	case "serve":
		return serveLink(ctx, s)
	case "stop":
		return stopLink(ctx, s)
	case "stop-others":
		return stopOtherLinks(ctx, s)
	}
	return badArguments("link has no command %q", args[0])
}

// pipes are standard input and output as one connection.
type pipes struct {
	io.Reader
	io.Writer
}

func (p pipes) Close() error {
	var errs []error
	for _, end := range []any{p.Reader, p.Writer} {
		if c, ok := end.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// startLink reads an identity, starts the unit that serves with it, and prints the port. The identity lies in memory
// only: where it would reach a disk nothing is started.
func startLink(ctx context.Context, std stdio, s link.Session) error {
	if err := os.MkdirAll(s.RunDir(), 0o700); err != nil {
		return err
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(s.RunDir(), &fs); err != nil {
		return fmt.Errorf("ask for the file system of %q: %w", s.RunDir(), err)
	}
	if fs.Type != unix.TMPFS_MAGIC && fs.Type != unix.RAMFS_MAGIC {
		return fmt.Errorf("%q is on a disk: a key will not be written there", s.RunDir())
	}
	identity, err := io.ReadAll(std.in)
	if err != nil {
		return fmt.Errorf("read identity: %w", err)
	}
	if err := os.WriteFile(s.IdentityFile(), identity, 0o600); err != nil {
		return err
	}
	if err := systemd(ctx, "is-active", "--quiet", s.Unit()); err != nil {
		out, err := exec.CommandContext(ctx, "systemd-run", "--quiet", "--unit="+s.Unit(), "--property=Type=notify",
			"--property=Restart=always", "--property=RestartSec=100ms", "--property=RuntimeMaxSec=1d",
			s.Program(), "link", "serve", string(s)).CombinedOutput()
		if err != nil {
			return fmt.Errorf("start unit %s: %w: %s", s.Unit(), err, strings.TrimSpace(string(out)))
		}
	}
	port, err := os.ReadFile(s.PortFile())
	if err != nil {
		return err
	}
	_, err = std.out.Write(port)
	return err
}

// serveLink listens on the port that it had before, if it is a restart.
func serveLink(ctx context.Context, s link.Session) error {
	text, err := os.ReadFile(s.IdentityFile())
	if err != nil {
		return err
	}
	var identity link.Identity
	if err := json.Unmarshal(text, &identity); err != nil {
		return fmt.Errorf("read identity: %w", err)
	}
	config, err := identity.Server()
	if err != nil {
		return err
	}
	port, err := os.ReadFile(s.PortFile())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("", strings.TrimSpace(string(port))))
	if err != nil {
		return err
	}
	bound := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	if err := os.WriteFile(s.PortFile(), []byte(bound), 0o600); err != nil {
		return errors.Join(err, listener.Close())
	}
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		return errors.Join(err, listener.Close())
	}
	return link.Serve(ctx, tls.NewListener(listener, config))
}

// stopLink removes everything of a session from the node. The unit goes last, since it may be what runs this.
func stopLink(ctx context.Context, s link.Session) error {
	if err := errors.Join(os.RemoveAll(s.RunDir()), os.RemoveAll(filepath.Dir(s.Program()))); err != nil {
		return err
	}
	if systemd(ctx, "is-active", "--quiet", s.Unit()) != nil {
		return nil //nolint:nilerr // It says that the unit is not there.
	}
	return systemd(ctx, "stop", "--no-block", s.Unit())
}

// stopOtherLinks removes what sessions that were not ended in order have left.
func stopOtherLinks(ctx context.Context, own link.Session) error {
	var errs []error
	for _, other := range link.SessionsIn("/run", "/var/lib") {
		if other != own {
			errs = append(errs, stopLink(ctx, other))
		}
	}
	return errors.Join(errs...)
}

func systemd(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
