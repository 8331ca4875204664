package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/seatrial/seatrial/clusters/program"
	"github.com/seatrial/seatrial/tools/offline/layers"
)

const (
	// probeBound bounds loading, starting and removing a container of one small program. It takes a second; a loaded
	// machine with a slow disk took ten.
	probeBound = 90 * time.Second
	// probeLabel marks our containers, so that Clean finds those of a killed process.
	probeLabel = "seatrial.dev/enginecheck"
)

// probe shows that the engine runs a privileged container and commands in it, by doing so.
func probe(ctx context.Context, options Options, engine Engine) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, probeBound,
		fmt.Errorf("a privileged container did not run within %s", probeBound))
	defer cancel()
	binary, err := program.EngineCheck().Find(ctx, options.Log)
	if err != nil {
		return err
	}
	// Each probe has names of its own: several may probe one engine at once.
	id := fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano())
	image := "localhost/seatrial/enginecheck:" + id // No registry has it.
	var archive bytes.Buffer
	if err := layers.WriteProgram(&archive, image, binary, "/enginecheck"); err != nil {
		return err
	}
	if _, err := options.Machine.RunWith(ctx, &archive, engine.Path, "load"); err != nil {
		return fmt.Errorf("load the probe's image: %w", err)
	}
	container := "seatrial-enginecheck-" + id
	defer func() {
		err = errors.Join(err, unprobe(ctx, options.Machine, engine, container, image))
	}()
	_, err = options.Machine.Run(ctx, engine.Path, "run", "--detach", "--privileged", "--pull=never",
		"--name", container, "--label", probeLabel, image, "wait")
	if err != nil {
		return fmt.Errorf("start a privileged container: %w", err)
	}
	said, err := options.Machine.Run(ctx, engine.Path, "exec", "--privileged", container, "/enginecheck", "try")
	if err != nil {
		return fmt.Errorf("run a command in a privileged container: %w", err)
	}
	if got := strings.TrimSpace(string(said)); got != "privileged" {
		return fmt.Errorf("run a command in a privileged container: it said %q", got)
	}
	return nil
}

// unprobe removes what probe made, also after the end of ctx. A container that does not exist is no error.
func unprobe(ctx context.Context, machine Machine, engine Engine, container, image string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	var errs []error
	if _, err := machine.Run(ctx, engine.Path, "rm", "--force", container); err != nil && !isMissing(err) {
		errs = append(errs, fmt.Errorf("remove the probe's container: %w", err))
	}
	if _, err := machine.Run(ctx, engine.Path, "rmi", image); err != nil && !isMissing(err) {
		errs = append(errs, fmt.Errorf("remove the probe's image: %w", err))
	}
	return errors.Join(errs...)
}

// isMissing reports whether an engine's error means that an object does not exist.
func isMissing(err error) bool {
	said := strings.ToLower(err.Error())
	return strings.Contains(said, "no such") || strings.Contains(said, "not known") ||
		strings.Contains(said, "not found")
}
