package undo

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/nodefile"
)

// frozenPrefix begins the names of the marks of frozen processes. The mark is a file with a line for each process: its
// pid and its start time in clock ticks, so that a later process with that pid is left alone.
const frozenPrefix = "frozen-"

// HeldFrozen is the name of the mark of a frozen component, for example of "etcd".
func HeldFrozen(component string) string { return frozenPrefix + component }

// isFrozen reports whether a thing is such a mark. One that was never finished is not.
func isFrozen(thing string) bool {
	return strings.HasPrefix(thing, frozenPrefix) && path.Ext(thing) == ""
}

// Freeze stops the processes of a component with SIGSTOP. It leaves the owner's mark first, which says which processes
// to let go on.
func Freeze(ctx context.Context, node clusters.Node, owner Owner, component string, all ...probe.Process) error {
	var content strings.Builder
	argv := []string{"kill", "-s", "STOP"}
	for _, p := range all {
		fmt.Fprintf(&content, "%d %d\n", p.PID, p.Ticks())
		argv = append(argv, strconv.Itoa(p.PID))
	}
	if len(all) == 0 || strings.ContainsAny(component, "./") {
		return fmt.Errorf("freeze %q: it has %d processes, and may not have a dot or slash in its name", component,
			len(all))
	}
	if _, err := clusters.Run(ctx, node, "mkdir", "-p", owner.Held("")); err != nil {
		return fmt.Errorf("freeze %q: leave mark: %w", component, err)
	}
	thing := owner.Held(HeldFrozen(component))
	if _, err := nodefile.Place(ctx, node, thing, []byte(content.String()), "0600"); err != nil {
		return fmt.Errorf("freeze %q: leave mark: %w", component, err)
	}
	if _, err := clusters.Run(ctx, node, argv...); err != nil {
		return fmt.Errorf("freeze %q: %w", component, err)
	}
	return nil
}

// thaw lets the processes of a mark go on. One that has ended is no error.
func (h holding) thaw(ctx context.Context, run Runner, thing string) error {
	content, err := run(ctx, []string{"cat", h.owner.Held(thing)}, "")
	if err != nil {
		return fmt.Errorf("read mark %q: %w", thing, err)
	}
	for line := range strings.Lines(content) {
		var pid int
		var ticks int64
		if n, err := fmt.Sscanf(line, "%d %d\n", &pid, &ticks); n != 2 || err != nil || pid <= 1 {
			return fmt.Errorf("read mark %q: line %q, want a pid and a start time", thing, line)
		}
		if err := thawOne(ctx, run, pid, ticks); err != nil {
			return fmt.Errorf("let pid %d go on: %w", pid, err)
		}
	}
	return nil
}

func thawOne(ctx context.Context, run Runner, pid int, ticks int64) error {
	name := strconv.Itoa(pid)
	alive := func() (bool, error) {
		out, err := run(ctx, []string{"find", "/proc", "-ignore_readdir_race", "-maxdepth", "1", "-name", name}, "")
		return strings.TrimSpace(out) != "", err
	}
	if there, err := alive(); err != nil || !there {
		return err
	}
	err := func() error {
		stat, err := run(ctx, []string{"cat", path.Join("/proc", name, "stat")}, "")
		if err != nil {
			return err
		}
		p, err := probe.ParseStat(stat)
		if err != nil || p.Ticks() != ticks {
			return err // A later process that has its pid.
		}
		_, err = run(ctx, []string{"kill", "-s", "CONT", name}, "")
		return err
	}()
	if err == nil {
		return nil
	}
	if there, again := alive(); again == nil && !there {
		return nil // It has ended in between.
	}
	return err
}
