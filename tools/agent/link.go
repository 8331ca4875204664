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
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/existing/link"
)

func runLink(ctx context.Context, std stdio, args []string) error {
	if len(args) == 3 && args[0] == "serve" && link.IsSession(args[1]) {
		end, err := strconv.ParseInt(args[2], 10, 64)
		if err != nil {
			return badArguments("read the end on the boot clock, in nanoseconds: %w", err)
		}
		return serveLink(ctx, link.Session(args[1]), history.Time(end))
	}
	if len(args) != 2 || !link.IsSession(args[1]) {
		return badArguments("link takes a command and a session, got %q", args)
	}
	switch s := link.Session(args[1]); args[0] {
	case "stdio":
		bounds, err := s.Bounds()
		if err != nil {
			std.log.Warn("no fault may begin", "error", err)
		}
		link.ServeOne(ctx, pipes{std.in, std.out}, bounds)
		return nil
	case "start":
		return startLink(ctx, std, s)
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

// startLink reads an identity, keeps its limits, starts the unit that serves with it, and prints the port. The identity
// lies in memory only: where it would reach a disk nothing is started.
func startLink(ctx context.Context, std stdio, s link.Session) error {
	text, err := io.ReadAll(std.in)
	if err != nil {
		return fmt.Errorf("read identity: %w", err)
	}
	var identity link.Identity
	if err := json.Unmarshal(text, &identity); err != nil {
		return fmt.Errorf("read identity: %w", err)
	}
	if err := s.Keep(identity); err != nil {
		return err
	}
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
	if err := os.WriteFile(s.IdentityFile(), text, 0o600); err != nil {
		return err
	}
	if _, err := systemd(ctx, "is-active", "--quiet", s.Unit()); err != nil {
		_, _ = systemd(ctx, "stop", s.Unit()) // One that has failed, or waits for its restart, keeps the name.
		end := bootclock.Now().Add(sessionLife)
		out, err := exec.CommandContext(ctx, "systemd-run", "--quiet", "--collect", "--unit="+s.Unit(),
			"--property=Type=notify", "--property=Restart=always", "--property=RestartSec=100ms",
			s.Program(), "link", "serve", string(s), strconv.FormatInt(int64(end), 10)).CombinedOutput()
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

// sessionLife is how long a unit serves at most: nobody else removes that of a harness that was killed.
const sessionLife = 24 * time.Hour

// serveLink serves until a time on the boot clock, then removes the session. A restart keeps the port.
func serveLink(ctx context.Context, s link.Session, end history.Time) error {
	text, err := os.ReadFile(s.IdentityFile())
	if err != nil {
		return err
	}
	var identity link.Identity
	if err := json.Unmarshal(text, &identity); err != nil {
		return fmt.Errorf("read identity: %w", err)
	}
	bounds, err := s.Bounds()
	if err != nil {
		return err
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
	return serveUntil(ctx, tls.NewListener(listener, config), bounds, end,
		func(ctx context.Context) error { return stopLink(ctx, s) })
}

// serveUntil serves until a time on the boot clock and then calls over, unless ctx ends before.
func serveUntil(
	ctx context.Context, l net.Listener, b *link.Bounds, end history.Time, over func(context.Context) error,
) error {
	bounded, cancel := context.WithTimeout(ctx, end.Sub(bootclock.Now()))
	defer cancel()
	if err := link.Serve(bounded, l, b); err != nil || ctx.Err() != nil {
		return err
	}
	return over(ctx)
}

// stopLink removes everything of a session from the node. The unit goes last, since it may be what runs this.
func stopLink(ctx context.Context, s link.Session) error {
	if err := errors.Join(os.RemoveAll(s.RunDir()), os.RemoveAll(filepath.Dir(s.Program()))); err != nil {
		return err
	}
	state, err := systemd(ctx, "show", "--property=LoadState", "--value", s.Unit())
	if err != nil || strings.TrimSpace(state) == "not-found" {
		return nil //nolint:nilerr // A node without systemd has no unit.
	}
	_, err = systemd(ctx, "stop", "--no-block", s.Unit())
	return err
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

func systemd(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), err
}

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

func runWait(ctx context.Context, _ stdio, args []string) error {
	if _, err := parse(flags(), args, 0, exactly); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
