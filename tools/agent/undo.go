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

	"github.com/seatrial/seatrial/chaos/nodeagent/procs"
	"github.com/seatrial/seatrial/chaos/undo"
)

// apiBound is how long the agent waits for an API server that does not answer: nobody else may be left to heal.
const apiBound = 30 * time.Minute

func undoCommand() command {
	return command{
		name: "undo", usage: "[--run RUN [--step N]]",
		summary: "undo what faults have left on this node, of all runs or of one", run: runUndo,
	}
}

// ownerFlags adds the flags that name an owner.
func ownerFlags(fs *flag.FlagSet) *undo.Owner {
	var o undo.Owner
	fs.StringVar(&o.Run, "run", "", "whose: the run")
	fs.IntVar(&o.Step, "step", 0, "whose: the step of the run")
	return &o
}

// runUndo prints an undo.Report as JSON. It is what the timer of an armed undo runs.
func runUndo(ctx context.Context, std stdio, args []string) error {
	fs := flag.NewFlagSet("undo", flag.ContinueOnError)
	owner := ownerFlags(fs)
	if _, err := parseFlags(fs, args, 0); err != nil {
		return err
	}
	var only undo.Only
	switch {
	case owner.Run != "":
		if err := owner.Check(); err != nil {
			return badArguments("%w", err)
		}
		only = undo.Of(owner.Run, owner.Step)
	case owner.Step != 0:
		return badArguments("--step %d needs --run", owner.Step)
	}
	report, err := undo.Within(ctx, here(commandBound), only, apiBound)
	return errors.Join(err, json.NewEncoder(std.out).Encode(report))
}

func armCommand() command {
	return command{
		name: "arm", usage: "--run RUN --step N --life DURATION [--until-boot]",
		summary: "keep an undo, a JSON list of actions on standard input, and start the timer that carries it out",
		run: func(ctx context.Context, std stdio, args []string) error {
			fs := flag.NewFlagSet("arm", flag.ContinueOnError)
			owner := ownerFlags(fs)
			life := fs.Duration("life", 0, "how long until the undo is carried out")
			untilBoot := fs.Bool("until-boot", false, "the next boot undoes it as well")
			if _, err := parseFlags(fs, args, 0); err != nil {
				return err
			}
			if err := owner.Check(); err != nil || *life <= 0 {
				return badArguments("--life is %s, want more than 0s; %w", *life, err)
			}
			var actions []undo.Action
			if err := json.NewDecoder(std.in).Decode(&actions); err != nil {
				return badArguments("read actions: %w", err)
			}
			return undo.ArmHere(ctx, here(commandBound), "/", *owner, *life, *untilBoot, actions)
		},
	}
}

func disarmCommand() command {
	return command{
		name: "disarm", usage: "--run RUN --step N",
		summary: "stop the timer of an undo and remove the undo",
		run: func(ctx context.Context, _ stdio, args []string) error {
			fs := flag.NewFlagSet("disarm", flag.ContinueOnError)
			owner := ownerFlags(fs)
			if _, err := parseFlags(fs, args, 0); err != nil {
				return err
			}
			if err := owner.Check(); err != nil {
				return badArguments("%w", err)
			}
			return undo.DisarmHere(ctx, here(commandBound), "/", *owner)
		},
	}
}

func qdiscCommand() command {
	return command{
		name: "qdisc", usage: "--run RUN --step N DEVICE",
		summary: "remove the owner's queueing discipline from a device, if it is there",
		run: func(ctx context.Context, _ stdio, args []string) error {
			fs := flag.NewFlagSet("qdisc", flag.ContinueOnError)
			owner := ownerFlags(fs)
			operands, err := parseFlags(fs, args, 1)
			if err != nil {
				return err
			}
			if err := owner.Check(); err != nil {
				return badArguments("%w", err)
			}
			return undo.QdiscGone(ctx, here(commandBound), *owner, operands[0])
		},
	}
}

func restoreCommand() command {
	return command{
		name: "restore", usage: "FILE",
		summary: "put standard input into a file, unless it is there already",
		run: func(_ context.Context, std stdio, args []string) error {
			if len(args) != 1 || !filepath.IsAbs(args[0]) {
				return badArguments("restore takes the absolute path of a file")
			}
			content, err := io.ReadAll(std.in)
			if err != nil {
				return err
			}
			return undo.WriteFile(args[0], content)
		},
	}
}

func thawCommand() command {
	return command{
		name: "thaw", usage: "PID:TICKS...",
		summary: "let processes go on that a signal has stopped; TICKS is the start time in /proc/PID/stat",
		run:     func(_ context.Context, _ stdio, args []string) error { return thaw(args, unix.Kill) },
	}
}

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
		now, there, err := procs.Read(p.pid)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if !there || now.Ticks() != p.ticks {
			continue
		}
		if err := kill(p.pid, unix.SIGCONT); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("continue pid %d: %w", p.pid, err))
		}
	}
	return errors.Join(errs...)
}

// commandBound is how long one command of a heal may take: one that hangs must not keep the rest from being undone.
// systemd itself gives a unit 90 s to start.
const commandBound = 2 * time.Minute

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
			return "", fmt.Errorf("run %q: %w: %s", argv, err, bytes.TrimSpace(stderr.Bytes()))
		}
		return stdout.String(), nil
	}
}
