package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/tools/offline/steps"
)

// Ensure returns an engine that works, and makes one when none does and it can: it installs Debian's docker, starts it,
// and puts a runtime wrapper in front of runc where the host cannot grant every capability. It says on Options.Out what
// it is about to do and how long that takes. An engine that works is not touched. The error wraps an
// *offline.NotFoundError if there is no engine and no way to get one. It may be called again after any failure, and by
// several processes at once.
func Ensure(ctx context.Context, options Options) (Engine, error) {
	options, err := options.withDefaults()
	if err != nil {
		return Engine{}, err
	}
	if err := raiseLimits(ctx, options); err != nil {
		return Engine{}, err
	}
	engine, err := find(ctx, options)
	if err == nil {
		return engine, nil
	}
	var missing *notFoundError
	if !errors.As(err, &missing) {
		return Engine{}, err
	}
	if why, fix := cannotMake(ctx, options, missing); why != "" {
		missing.Why, missing.Fix = why, fix
		return Engine{}, missing
	}
	if options.Machine.Getenv(offline.ChangesVariable) != "yes" { // Not even the lock is made.
		todo, err := outlook(options)
		if err != nil {
			return Engine{}, err
		}
		open := &offline.ChangesError{}
		for _, step := range todo {
			open.Changes = append(open.Changes, step.Name)
		}
		return Engine{}, open
	}
	unlock, err := lock(ctx, options.StateDir)
	if err != nil {
		return Engine{}, err
	}
	defer unlock()
	// Another process may have made one while this one waited.
	if engine, err := find(ctx, options); err == nil {
		return engine, nil
	}
	return makeEngine(ctx, options)
}

// cannotMake returns why no engine can be made here, and what the user can do; nothing if one can be made.
func cannotMake(ctx context.Context, options Options, missing *notFoundError) (why, fix string) {
	docker := missing.findings[0]
	machine := options.Machine
	if docker.name != "docker" {
		return fmt.Sprintf("KIND_EXPERIMENTAL_PROVIDER asks for %s, and seatrial can make a docker only", docker.name),
			"unset KIND_EXPERIMENTAL_PROVIDER, or start " + docker.name
	}
	if !isLocal(ctx, machine, docker.path) {
		return "docker is set to talk to a daemon other than this host's",
			"unset DOCKER_HOST and docker context use default"
	}
	if machine.UserID() != 0 {
		return "an engine can be made by root only", `sudo -E env PATH="$PATH" ` + offline.EnsureCommand
	}
	if docker.stage == stagePrivileged {
		if lacks, err := lacking(machine); err != nil || lacks == 0 || dockerPID(machine) == 0 {
			return "the host grants docker every capability, so that is not the cause",
				"docker run --privileged, and see"
		}
		return "", ""
	}
	if installed(machine) {
		return "", ""
	}
	if _, err := machine.LookPath("apt-get"); err != nil {
		return "this host has no apt-get to install docker with", "install docker with the host's own tools"
	}
	return "", ""
}

// makeEngine does what is missing, in order, and shows that the result works.
func makeEngine(ctx context.Context, options Options) (Engine, error) {
	began := time.Now()
	todo, err := outlook(options)
	if err != nil {
		return Engine{}, err
	}
	fmt.Fprintln(options.Out, "No container engine works here. As root on this host, seatrial will now:")
	for i, step := range todo {
		fmt.Fprintf(options.Out, "  %d. %s (about %s)\n", i+1, step.Name, step.About)
	}
	fmt.Fprintf(options.Out,
		"It keeps its record and logs in %s; `seatrial clean --all` undoes it, the packages excepted.\n",
		options.StateDir)
	if err := steps.Run(ctx, options.Out, "container engine", todo); err != nil {
		return Engine{}, fmt.Errorf("make a container engine: %w", err)
	}
	engine, err := find(ctx, options)
	if err != nil {
		return Engine{}, fmt.Errorf("make a container engine: all was done, and still: %w", err)
	}
	fmt.Fprintf(options.Out, "%s works, privileged containers included; %s in all.\n", engine,
		time.Since(began).Round(100*time.Millisecond))
	return engine, nil
}

// installed reports whether docker's daemon and client exist.
func installed(machine Machine) bool {
	_, daemon := machine.LookPath("dockerd")
	_, client := machine.LookPath("docker")
	return daemon == nil && client == nil
}

// outlook returns the steps to a docker that works on this host.
func outlook(options Options) ([]steps.Step, error) {
	state, err := loadState(options.StateDir)
	if err != nil {
		return nil, err
	}
	lacks, err := lacking(options.Machine)
	return missingSteps(options, &state, lacks.Names()), err
}

// missingSteps lists the steps to a docker that works on this host.
func missingSteps(options Options, state *State, lacks []string) []steps.Step {
	var todo []steps.Step
	running := dockerPID(options.Machine) != 0
	if !installed(options.Machine) {
		todo = append(todo, steps.Step{
			Name: "install docker.io and iptables from the host's Debian archive", About: time.Minute,
			Do: func(ctx context.Context) error {
				packages, err := install(ctx, options)
				state.Packages = append(state.Packages, packages...)
				return errors.Join(err, saveState(options.StateDir, *state))
			}})
	}
	if len(lacks) > 0 {
		what := fmt.Sprintf(
			"put a runtime wrapper in front of runc, since this host cannot grant %s, and register it in %s",
			strings.Join(lacks, ", "), options.DaemonConfig)
		todo = append(todo, steps.Step{Name: what, About: 10 * time.Second, Do: func(ctx context.Context) error {
			// A docker that runs by now may be one that its package has just started.
			if err := register(ctx, options, state); err != nil || dockerPID(options.Machine) == 0 {
				return err
			}
			return reload(ctx, options, runtimeName)
		}})
	}
	if !running {
		todo = append(todo, steps.Step{Name: "start dockerd", About: 5 * time.Second,
			Do: func(ctx context.Context) error {
				if _, err := ask(ctx, options.Machine, Engine{Name: "docker", Path: "docker"}); err == nil {
					return nil // The package's own scripts started it.
				}
				return startDaemon(ctx, options, state)
			}})
	}
	return todo
}
