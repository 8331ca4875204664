package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Clean undoes what Ensure did to this host, and nothing else: it removes leaks of killed probes, stops the dockerd
// that Ensure started, removes the wrapper from docker's configuration and resets limits. Packages and logs stay. If
// one step fails, it does the others and returns the error.
func Clean(ctx context.Context, options Options) error {
	options, err := options.withDefaults()
	if err != nil {
		return err
	}
	if _, err := os.Stat(options.StateDir); errors.Is(err, os.ErrNotExist) {
		fmt.Fprintln(options.Out, "Nothing to undo on this host.")
		return nil
	}
	unlock, err := lock(ctx, options.StateDir)
	if err != nil {
		return err
	}
	defer unlock()
	state, err := loadState(options.StateDir)
	if err != nil {
		return err
	}
	errs := []error{removeProbes(ctx, options)}
	if state.Daemon != nil {
		stopped, err := stopDaemon(ctx, options, *state.Daemon)
		if stopped {
			fmt.Fprintln(options.Out, "Stopped the dockerd that seatrial had started.")
		}
		if err == nil {
			state.Daemon = nil
		}
		errs = append(errs, err)
	}
	if state.Wrapper != nil {
		err := unregister(ctx, options, *state.Wrapper)
		if err == nil {
			fmt.Fprintf(options.Out, "Took the runtime wrapper out of %s.\n", state.Wrapper.Config)
			state.Wrapper = nil
		}
		errs = append(errs, err)
	}
	errs = append(errs, removeFiles(options.StateDir, "enginecheck-*"))
	err = lowerLimits(options, state.Limits)
	if err == nil {
		state.Limits = nil
	}
	errs = append(errs, err)
	if len(state.Packages) > 0 {
		fmt.Fprintf(options.Out, "The packages seatrial installed stay; to remove them: apt-get purge %s\n",
			strings.Join(state.Packages, " "))
	}
	return errors.Join(append(errs, saveState(options.StateDir, state))...)
}

func removeFiles(dir, pattern string) error {
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	for _, path := range found {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// removeProbes removes the containers and images that killed probes left in engines that answer.
func removeProbes(ctx context.Context, options Options) error {
	var errs []error
	for _, candidate := range candidates("") {
		path, err := options.Machine.LookPath(candidate.programs[0])
		if err != nil {
			continue
		}
		if _, err := ask(ctx, options.Machine, Engine{Name: candidate.name, Path: path}); err != nil {
			continue
		}
		for _, kind := range []struct{ list, remove []string }{
			{[]string{"ps", "-aq", "--filter", "label=" + probeLabel}, []string{"rm", "--force"}},
			{[]string{"images", "-q", "localhost/seatrial/enginecheck"}, []string{"rmi", "--force"}},
		} {
			listed, err := options.Machine.Run(ctx, append([]string{path}, kind.list...)...)
			errs = append(errs, err)
			if ids := strings.Fields(string(listed)); len(ids) > 0 {
				_, err := options.Machine.Run(ctx, append(append([]string{path}, kind.remove...), ids...)...)
				errs = append(errs, err)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove what a probe left: %w", err)
	}
	return nil
}
