package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/undo"
)

func healCommand() command {
	return command{
		name: "heal", usage: "[--run RUN [--step N]]",
		summary: "undo what faults have left on this node, of all runs or of one", run: runHeal,
	}
}

// apiBound is how long the agent waits for an API server that does not answer: nobody else may be left to heal.
const apiBound = 30 * time.Minute

// runHeal prints a undo.Report as JSON. It is what a dead-man timer runs.
func runHeal(ctx context.Context, std stdio, args []string) error {
	fs := flag.NewFlagSet("heal", flag.ContinueOnError)
	run := fs.String("run", "", "undo only what this run left")
	step := fs.Int("step", 0, "undo only what this step of the run left")
	if _, err := parseFlags(fs, args, 0); err != nil {
		return err
	}
	var only undo.Only
	switch {
	case *run != "":
		if err := (undo.Owner{Run: *run, Step: *step}).Check(); err != nil {
			return badArguments("%w", err)
		}
		only = undo.Of(*run, *step)
	case *step != 0:
		return badArguments("--step %d needs --run", *step)
	}
	report, err := undo.Within(ctx, here(commandBound), only, apiBound)
	return errors.Join(err, json.NewEncoder(std.out).Encode(report))
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
