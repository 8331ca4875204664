package kind

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/seatrial/seatrial/clusters"
)

// waitDelay bounds the wait for the output of an ended command while something else holds its pipes open.
const waitDelay = 5 * time.Second

// engine is the command line of a container engine.
type engine struct {
	name string // "docker", "podman" or "nerdctl".
	path string
}

// engineError is a call of the engine that failed.
type engineError struct {
	argv   []string
	cause  error
	stderr string
}

func (e *engineError) Error() string {
	return fmt.Sprintf("%s: %v: %s", strings.Join(e.argv, " "), e.cause, lastLine(e.stderr))
}

func (e *engineError) Unwrap() error { return e.cause }

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// findEngine resolves the name or path of an engine. Kind calls docker and podman by name, so a path must be the one
// that the name finds.
func findEngine(nameOrPath string) (engine, error) {
	path, err := exec.LookPath(nameOrPath)
	if err != nil {
		return engine{}, fmt.Errorf("find container engine %q: %w", nameOrPath, err)
	}
	e := engine{name: filepath.Base(path), path: path}
	switch e.name {
	case "docker", "podman":
		if byName, err := exec.LookPath(e.name); err != nil || byName != path {
			return engine{}, fmt.Errorf("use container engine %q: kind runs %q from PATH, which is %q; "+
				"put it first in PATH", path, e.name, byName)
		}
	case "finch":
		e.name = "nerdctl" // It has nerdctl's commands and output.
	case "nerdctl":
	default:
		return engine{}, fmt.Errorf("use container engine %q: want docker, podman or nerdctl", nameOrPath)
	}
	return e, nil
}

// command makes a call of the engine in a process group of its own: a Ctrl-C in the terminal must not end the call,
// which healing may need.
func (e engine) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, e.path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return killGroup(cmd) }
	cmd.WaitDelay = waitDelay
	return cmd
}

func killGroup(cmd *exec.Cmd) error {
	return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}

func (e engine) failed(args []string, cause error, stderr string) error {
	return &engineError{argv: append([]string{e.name}, args...), cause: cause, stderr: stderr}
}

// output runs the engine to its end and returns its standard output, also beside an error.
func (e engine) output(ctx context.Context, args ...string) ([]byte, error) {
	cmd := e.command(ctx, args...)
	var stdout bytes.Buffer
	stderr := &clusters.Tail{Max: stderrCap}
	cmd.Stdout, cmd.Stderr = &stdout, stderr
	err := cmd.Run()
	switch {
	case err == nil:
		return stdout.Bytes(), nil
	case ctx.Err() != nil:
		err = ctx.Err()
	}
	return stdout.Bytes(), e.failed(args, err, string(stderr.Data))
}

// unattended runs the engine to its end even if ctx ends or the harness dies: it only stops waiting. A restart must not
// end half-way and leave the node down.
func (e engine) unattended(ctx context.Context, args ...string) error {
	if err := ctx.Err(); err != nil {
		return e.failed(args, err, "")
	}
	done := make(chan error, 1)
	go func() {
		_, err := e.output(context.WithoutCancel(ctx), args...)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return e.failed(args, ctx.Err(), "not waited for; it goes on by itself")
	}
}

// container is what docker, podman and nerdctl all report of a container.
type container struct {
	ID    string `json:"Id"`
	Name  string `json:"Name"`
	Image string `json:"Image"` // By its ID.
	State struct {
		Status    string    `json:"Status"`
		Pid       int       `json:"Pid"`
		StartedAt time.Time `json:"StartedAt"`
	} `json:"State"`
	Config struct {
		Labels map[string]string `json:"Labels"`
	} `json:"Config"`
	Mounts          []mount `json:"Mounts"`
	NetworkSettings struct {
		Networks map[string]struct {
			IPAddress         string `json:"IPAddress"`
			GlobalIPv6Address string `json:"GlobalIPv6Address"`
		} `json:"Networks"`
		Ports map[string][]struct {
			HostPort string `json:"HostPort"`
		} `json:"Ports"`
	} `json:"NetworkSettings"`
}

// mount is a mount of a container.
type mount struct {
	Source      string `json:"Source"` // On the engine's machine.
	Destination string `json:"Destination"`
}

// state is the container's state as a clusters.PowerNode names it.
func (c container) state() string {
	switch c.State.Status {
	case clusters.StateRunning, clusters.StatePaused:
		return c.State.Status
	default: // Created, stopped, exited, restarting, removing, dead: nothing runs in it.
		return clusters.StateExited
	}
}

// addresses returns the container's addresses, IPv4 first.
func (c container) addresses() []netip.Addr {
	var out []netip.Addr
	for _, network := range c.NetworkSettings.Networks {
		for _, text := range []string{network.IPAddress, network.GlobalIPv6Address} {
			if addr, err := netip.ParseAddr(text); err == nil {
				out = append(out, addr)
			}
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// publishes reports whether a port of the container, such as "6443/tcp", is a port of the engine's machine.
func (c container) publishes(port, hostPort string) bool {
	for _, at := range c.NetworkSettings.Ports[port] {
		if at.HostPort == hostPort {
			return true
		}
	}
	return false
}

// run returns the run ID in the container's ownership mark, and whether it has one.
func (c container) run() (string, bool) {
	for _, m := range c.Mounts {
		if id, ok := strings.CutPrefix(m.Destination, markDir); ok {
			return id, true
		}
	}
	return "", false
}

// inspect returns the containers of the given names, without those that do not exist.
func (e engine) inspect(ctx context.Context, names ...string) ([]container, error) {
	out, err := e.output(ctx, append([]string{"inspect", "--type", "container"}, names...)...)
	var list []container
	if jsonErr := json.Unmarshal(out, &list); jsonErr != nil {
		if err == nil {
			err = jsonErr
		}
		return nil, fmt.Errorf("inspect containers %q: %w", names, err)
	}
	if err != nil && (ctx.Err() != nil || !notThere(err)) {
		return nil, fmt.Errorf("inspect containers %q: %w", names, err)
	}
	for i := range list {
		list[i].Name = strings.TrimPrefix(list[i].Name, "/")
	}
	return list, nil
}

// self returns the container of this engine that the harness runs in, if it does. Engines name containers by their ID
// unless told otherwise.
func (e engine) self(ctx context.Context) (container, bool) {
	name, err := os.Hostname()
	if err != nil {
		return container{}, false
	}
	list, err := e.inspect(ctx, name)
	if err != nil || len(list) != 1 || !strings.HasPrefix(list[0].ID, name) {
		return container{}, false
	}
	return list[0], true
}

// notThere reports whether the engine failed because a container does not exist.
func notThere(err error) bool {
	text := strings.ToLower(errStderr(err))
	return strings.Contains(text, "no such") || strings.Contains(text, "no container")
}

// containers returns the containers with a label, running or not.
func (e engine) containers(ctx context.Context, label string) ([]container, error) {
	out, err := e.output(ctx, "ps", "--all", "--filter", "label="+label, "--format", "{{.Names}}")
	if err != nil {
		return nil, fmt.Errorf("list containers with label %q: %w", label, err)
	}
	names := strings.Fields(string(out))
	if len(names) == 0 {
		return nil, nil
	}
	slices.Sort(names)
	return e.inspect(ctx, names...)
}

// cgroupV1 reports whether the engine's machine has cgroup v1.
func (e engine) cgroupV1(ctx context.Context) (bool, error) {
	format := "{{.CgroupVersion}}"
	if e.name == "podman" {
		format = "{{.Host.CgroupsVersion}}"
	}
	out, err := e.output(ctx, "info", "--format", format)
	if err != nil {
		return false, fmt.Errorf("get cgroup version: %w", err)
	}
	switch version := strings.TrimPrefix(strings.TrimSpace(string(out)), "v"); version {
	case "1":
		return true, nil
	case "2":
		return false, nil
	default:
		return false, fmt.Errorf("get cgroup version: %s says %q, want 1 or 2", e.name, version)
	}
}
