package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/clusters"
)

const (
	// dockerSocket is where a docker of this host listens by default; no other one is started or configured here.
	dockerSocket = "unix:///var/run/docker.sock"
	// dockerPIDFile is where it writes its process's number.
	dockerPIDFile = "/var/run/docker.pid"
	// containerdPIDFile is where it writes the number of the containerd that it has started.
	containerdPIDFile = "/var/run/docker/containerd/containerd.pid"
	// startBound is how long a new dockerd may take to answer. It takes three seconds; one that finds many
	// containers from before takes longer.
	startBound = 90 * time.Second
)

// dockerPID returns the process of the running dockerd of this host, or 0 when there is none.
func dockerPID(machine Machine) int { return runningPID(machine, dockerPIDFile, "dockerd") }

// runningPID returns the process that a file names, or 0 if it has ended or is another program now.
func runningPID(machine Machine, file, program string) int {
	text, err := machine.ReadFile(file)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || !lives(machine, pid, program) {
		return 0
	}
	return pid
}

// lives reports whether a process exists, is that program, and has not ended. One that has ended keeps its number and
// name, in state Z or X, until its parent reaps it, which can take half a minute (proc(5)).
func lives(machine Machine, pid int, program string) bool {
	name, err := machine.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil || strings.TrimSpace(string(name)) != program {
		return false
	}
	stat, err := machine.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || clusters.ProcessStart(string(stat)) != ""
}

// removeStalePIDs removes the pid files of killed daemons: dockerd takes any process with that number, even a zombie,
// for a running daemon, and then does not start, or waits for its containerd in vain.
func removeStalePIDs(machine Machine) error {
	for file, program := range map[string]string{dockerPIDFile: "dockerd", containerdPIDFile: "containerd"} {
		if runningPID(machine, file, program) != 0 {
			continue
		}
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove stale pid file: %w", err)
		}
	}
	return nil
}

// isLocal reports whether the docker client at path connects to this host's own daemon at its default socket.
func isLocal(ctx context.Context, machine Machine, path string) bool {
	if host := machine.Getenv("DOCKER_HOST"); host != "" {
		return host == dockerSocket
	}
	if path == "" {
		return true
	}
	text, err := machine.Run(ctx, path, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
	return err == nil && strings.TrimSpace(string(text)) == dockerSocket
}

// hasSystemd reports whether systemd is the first process.
func hasSystemd(machine Machine) bool {
	name, err := machine.ReadFile("/proc/1/comm")
	return err == nil && strings.TrimSpace(string(name)) == "systemd"
}

// startDaemon starts dockerd and returns when it answers. Without systemd, dockerd outlives this process.
func startDaemon(ctx context.Context, options Options, state *State) error {
	if hasSystemd(options.Machine) {
		state.Daemon = &StartedDaemon{Systemd: true, Started: time.Now().UTC()}
		if err := saveState(options.StateDir, *state); err != nil {
			return err
		}
		if _, err := options.Machine.Run(ctx, "systemctl", "start", "docker.service"); err != nil {
			return fmt.Errorf("start dockerd: %w", err)
		}
		return awaitDaemon(ctx, options, nil)
	}
	program, err := options.Machine.LookPath("dockerd")
	if err != nil {
		return fmt.Errorf("start dockerd: %w", err)
	}
	logPath := filepath.Join(options.StateDir, "dockerd.log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start dockerd: %w", err)
	}
	defer func() { _ = log.Close() }() // Dockerd has its own, and this one wrote nothing.
	if err := removeStalePIDs(options.Machine); err != nil {
		return fmt.Errorf("start dockerd: %w", err)
	}
	command := exec.Command(program) //nolint:noctx // It outlives this process, and so any context.
	command.Dir = "/"
	command.Stdout, command.Stderr = log, log
	// In a session of its own: neither a hang-up of our terminal nor an interrupt reaches it.
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start dockerd: %w", err)
	}
	started := &StartedDaemon{PID: command.Process.Pid, Log: logPath, Started: time.Now().UTC()}
	raiseOpenFiles(ctx, options, started.PID)
	exited := make(chan error, 1)
	go func() { exited <- command.Wait() }()
	started.StartTicks, err = startTicks(options.Machine, started.PID)
	if err == nil {
		state.Daemon = started
		err = saveState(options.StateDir, *state)
	}
	if err == nil {
		err = awaitDaemon(ctx, options, exited)
	}
	if err != nil {
		return fmt.Errorf("start dockerd: %w; its log %s ends: %s", err, logPath, tail(logPath))
	}
	return nil
}

// raiseOpenFiles lets dockerd, and so the nodes, open as many files as the hard limit allows; Debian's unit does more.
func raiseOpenFiles(ctx context.Context, options Options, pid int) {
	var limit unix.Rlimit
	err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit)
	if err == nil && limit.Cur < limit.Max {
		limit.Cur = limit.Max
		err = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil)
	}
	if err != nil {
		options.Log.WarnContext(ctx, "dockerd's limit of open files not raised", "err", err)
	}
}

// awaitDaemon waits until the daemon answers, or until exited, if not nil, has its end.
func awaitDaemon(ctx context.Context, options Options, exited <-chan error) error {
	path, err := options.Machine.LookPath("docker")
	if err != nil {
		return err
	}
	look := func(ctx context.Context) (bool, string, error) {
		select {
		case err := <-exited:
			return false, "", await.Stop(fmt.Errorf("it ended: %v", err)) //nolint:errorlint // Nil says exit status 0.
		default:
		}
		_, err := ask(ctx, options.Machine, Engine{Name: "docker", Path: path})
		return err == nil, "", err
	}
	return await.Until(ctx, "dockerd to answer", 200*time.Millisecond, startBound, look)
}

// reload makes the running dockerd read its configuration again and waits until its default runtime is the given one.
func reload(ctx context.Context, options Options, runtime string) error {
	pid := dockerPID(options.Machine)
	if pid == 0 {
		return fmt.Errorf("reload dockerd: no running dockerd in %s; fix: restart docker", dockerPIDFile)
	}
	path, err := options.Machine.LookPath("docker")
	if err != nil {
		return fmt.Errorf("reload dockerd: %w", err)
	}
	if err := unix.Kill(pid, unix.SIGHUP); err != nil {
		return fmt.Errorf("reload dockerd (pid %d): %w", pid, err)
	}
	look := func(ctx context.Context) (bool, string, error) {
		engine, err := ask(ctx, options.Machine, Engine{Name: "docker", Path: path})
		return engine.Runtime == runtime, engine.Runtime, err
	}
	return await.Until(ctx, "dockerd's default runtime to be "+runtime, 100*time.Millisecond, 30*time.Second, look)
}

// stopDaemon stops a dockerd that we started, when it is still that one, and waits until it is gone.
func stopDaemon(ctx context.Context, options Options, daemon StartedDaemon) (stopped bool, err error) {
	if daemon.Systemd {
		if _, err := options.Machine.Run(ctx, "systemctl", "stop", "docker.socket", "docker.service"); err != nil {
			return false, fmt.Errorf("stop dockerd: %w", err)
		}
		return true, nil
	}
	if !isOurs(options.Machine, daemon) {
		return false, nil
	}
	if err := unix.Kill(daemon.PID, unix.SIGTERM); err != nil && !errors.Is(err, unix.ESRCH) {
		return false, fmt.Errorf("stop dockerd (pid %d): %w", daemon.PID, err)
	}
	// It stops its containers first, each with a grace of its own.
	what := fmt.Sprintf("dockerd (pid %d) to end", daemon.PID)
	err = await.Until(ctx, what, 100*time.Millisecond, 2*time.Minute, func(context.Context) (bool, string, error) {
		return !isOurs(options.Machine, daemon), "still there", nil
	})
	return err == nil, err
}

// isOurs reports whether the process is still the recorded dockerd, and not another with its number, or a zombie.
func isOurs(machine Machine, daemon StartedDaemon) bool {
	ticks, err := startTicks(machine, daemon.PID)
	return err == nil && ticks == daemon.StartTicks && lives(machine, daemon.PID, "dockerd")
}
