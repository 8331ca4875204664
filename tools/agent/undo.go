package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// timerBound is how long an undo that fails is tried again: the timer of an armed undo runs it, and nobody else may be
// left to heal.
const timerBound = 30 * time.Minute

// commandBound is how long one command of a heal may take: one that hangs must not keep the rest from being undone.
const commandBound = 2 * time.Minute

// thisHost is the node that the agent runs on.
func thisHost() undo.Host { return undo.Host{Root: "/", Run: here(commandBound)} }

// here runs commands on this machine, each for at most a bound.
func here(bound time.Duration) undo.Runner {
	return func(ctx context.Context, argv []string, stdin string) (string, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("it has not ended within %s", bound))
		defer cancel()
		var stdout, stderr bytes.Buffer
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
		cmd.WaitDelay = time.Second // A child of it may hold its output open.
		err := cmd.Run()
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause // Why it was killed.
		}
		if err != nil {
			err = fmt.Errorf("run %q: %w: %s", argv, err, bytes.TrimSpace(stderr.Bytes()))
		}
		return stdout.String(), err
	}
}

// parseOwned parses flags and those that name an owner, and returns the operands that follow them.
func parseOwned(fs *flag.FlagSet, args []string, least int, more bool) (o undo.Owner, operands []string, err error) {
	ownerFlags(fs, &o)
	operands, err = parse(fs, args, least, more)
	if err == nil {
		if err = o.Check(); err != nil {
			err = badArguments("%w", err)
		}
	}
	return o, operands, err
}

func ownerFlags(fs *flag.FlagSet, o *undo.Owner) {
	fs.StringVar(&o.Run, "run", "", "the owner's run")
	fs.IntVar(&o.Step, "step", 0, "the owner's step of the run")
}

// parseOnly parses flags with those of an owner among them; without any, all owners are meant.
func parseOnly(fs *flag.FlagSet, args []string) (undo.Only, error) {
	var owner undo.Owner
	ownerFlags(fs, &owner)
	if _, err := parse(fs, args, 0, exactly); err != nil {
		return nil, err
	}
	if owner == (undo.Owner{}) {
		return nil, nil
	}
	if err := owner.Check(); err != nil {
		return nil, badArguments("%w", err)
	}
	return undo.Of(owner.Run, owner.Step), nil
}

// runUndo prints an undo.Report. It is what the timer of an armed undo runs.
func runUndo(ctx context.Context, std stdio, args []string) error {
	fs := flags()
	bound := fs.Duration("bound", timerBound, "how long what fails is tried again")
	only, err := parseOnly(fs, args)
	if err != nil {
		return err
	}
	report, err := thisHost().Undo(ctx, only, *bound)
	return errors.Join(err, std.say(report))
}

// runArmed prints a list of undo.Record.
func runArmed(_ context.Context, std stdio, args []string) error {
	only, err := parseOnly(flags(), args)
	if err != nil {
		return err
	}
	armed, err := thisHost().Armed(only)
	return errors.Join(err, std.say(armed))
}

// runArm counts the life from its own start: what it takes to arm does not make the undo late.
func runArm(ctx context.Context, std stdio, args []string) error {
	begin, fs := bootclock.Now(), flags()
	life := fs.Duration("life", 0, "how long until the undo is carried out")
	untilBoot := fs.Bool("until-boot", false, "the next boot undoes it as well")
	owner, _, err := parseOwned(fs, args, 0, exactly)
	if err != nil {
		return err
	}
	if *life <= 0 {
		return badArguments("--life is %s, want more than 0s", *life)
	}
	record := undo.Record{Owner: owner, Deadline: begin.Add(*life)}
	if err := json.NewDecoder(std.in).Decode(&record.Actions); err != nil {
		return badArguments("read actions: %w", err)
	}
	return thisHost().Arm(ctx, record, *untilBoot)
}

func runDisarm(ctx context.Context, _ stdio, args []string) error {
	owner, _, err := parseOwned(flags(), args, 0, exactly)
	if err != nil {
		return err
	}
	return thisHost().Disarm(ctx, owner)
}

func runQdisc(ctx context.Context, _ stdio, args []string) error {
	owner, operands, err := parseOwned(flags(), args, 1, exactly)
	if err != nil {
		return err
	}
	return undo.QdiscGone(ctx, here(commandBound), owner, operands[0])
}

// runMarks prints a line for each thing that it has undone.
func runMarks(ctx context.Context, std stdio, args []string) error {
	owner, operands, err := parseOwned(flags(), args, 1, exactly)
	if err != nil {
		return err
	}
	did, err := undo.Unmark(ctx, undo.Kubectl(here(commandBound)), &owner, operands[0])
	return errors.Join(err, printLines(std.out, did...))
}

func runRestoreNode(ctx context.Context, std stdio, args []string) error {
	if _, err := parse(flags(), args, 0, exactly); err != nil {
		return err
	}
	var was undo.NodeWas
	if err := json.NewDecoder(std.in).Decode(&was); err != nil || was.Name == "" {
		return badArguments("read what the Node had: its name is %q: %w", was.Name, err)
	}
	did, err := was.Restore(ctx, undo.Kubectl(here(commandBound)))
	if err != nil || did == "" {
		return err
	}
	return printLines(std.out, did)
}

func printLines(out io.Writer, lines ...string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}

func runRestore(_ context.Context, std stdio, args []string) error {
	if len(args) != 1 || !filepath.IsAbs(args[0]) {
		return badArguments("restore takes the absolute path of a file")
	}
	content, err := io.ReadAll(std.in)
	if err != nil {
		return err
	}
	return undo.WriteFile(args[0], content)
}

func runThaw(_ context.Context, _ stdio, args []string) error { return thaw(args, unix.Kill) }

// thaw leaves alone a later process that has the pid of one, and one that has ended.
func thaw(args []string, kill func(pid int, signal unix.Signal) error) error {
	type process struct {
		pid   int
		ticks int64
	}
	var all []process
	for _, text := range args {
		var p process
		n, err := fmt.Sscanf(text, "%d:%d", &p.pid, &p.ticks)
		if err != nil || n != 2 || p.pid <= 1 {
			return badArguments("thaw takes a pid above 1, a colon and a start time, not %q", text)
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		return badArguments("thaw takes a process at least")
	}
	var errs []error
	for _, p := range all {
		now, running, err := probe.Read(p.pid)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if !running || now.Ticks() != p.ticks {
			continue
		}
		if err := kill(p.pid, unix.SIGCONT); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("continue pid %d: %w", p.pid, err))
		}
	}
	return errors.Join(errs...)
}
