package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/seatrial/seatrial/clusters/program"
	"github.com/seatrial/seatrial/tools/offline/engine/ociwrap"
)

// lacking returns the capabilities that the kernel knows and the engine's daemon cannot have: the ones outside its
// bounding set, or, when it does not run, outside the set of the process it would be started from.
func lacking(machine Machine) (ociwrap.Set, error) {
	text, err := machine.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err != nil {
		return 0, fmt.Errorf("read the kernel's last capability: %w", err)
	}
	last, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("read the kernel's last capability: %w", err)
	}
	process := "self"
	if pid := dockerPID(machine); pid != 0 {
		process = strconv.Itoa(pid)
	} else if hasSystemd(machine) {
		process = "1"
	}
	status, err := machine.ReadFile("/proc/" + process + "/status")
	if err != nil {
		return 0, fmt.Errorf("read the bounding set: %w", err)
	}
	bounding, err := ociwrap.ParseBounding(status)
	if err != nil {
		return 0, err
	}
	return ociwrap.Known(last) &^ bounding, nil
}

// register places the wrapper and writes it into docker's configuration as the default runtime. It does not make a
// running docker read it.
func register(ctx context.Context, options Options, state *State) error {
	config, err := readConfig(options.DaemonConfig)
	if err != nil {
		return err
	}
	var before *string
	if state.Wrapper != nil {
		before = state.Wrapper.Previous.DefaultRuntime
	}
	real, err := realRuntime(config, before)
	if err != nil {
		return err
	}
	if real, err = options.Machine.LookPath(real); err != nil {
		return fmt.Errorf("find the runtime behind the wrapper: %w", err)
	}
	wrapper, err := program.RuncWrap().Find(ctx, options.Log)
	if err != nil {
		return err
	}
	built, err := placeWrapper(options.StateDir, wrapper, real)
	if err != nil {
		return fmt.Errorf("place the runtime wrapper: %w", err)
	}
	merged, previous, err := mergeDaemon(config, built)
	if err != nil {
		return fmt.Errorf("register the runtime wrapper in %q: %w", options.DaemonConfig, err)
	}
	record := Wrapper{Path: built, Real: real, Config: options.DaemonConfig, Previous: previous}
	if isOurDefault(previous) && state.Wrapper != nil {
		record.Previous = state.Wrapper.Previous
	}
	state.Wrapper = &record
	if err := saveState(options.StateDir, *state); err != nil {
		return err
	}
	if err := writeFile(options.DaemonConfig, merged); err != nil {
		return fmt.Errorf("register the runtime wrapper: %w", err)
	}
	return nil
}

// placeWrapper copies the wrapper into dir, with a link beside it to the runtime behind it, and returns its path. Its
// name has a hash of both: what docker may be using is never changed.
func placeWrapper(dir, wrapper, real string) (string, error) {
	text, err := os.ReadFile(wrapper)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	hash.Write(text)
	hash.Write([]byte(real))
	path := filepath.Join(dir, "runcwrap-"+hex.EncodeToString(hash.Sum(nil)[:6]))
	if err := writeFile(path, text); err != nil {
		return "", err
	}
	if err := os.Symlink(real, path+".runtime"); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return path, os.Chmod(path, 0o755)
}

func isOurDefault(previous Previous) bool {
	return previous.DefaultRuntime != nil && *previous.DefaultRuntime == runtimeName
}

// unregister takes the wrapper out of docker's configuration, makes a docker that still runs go back to the runtime it
// had, and removes the program.
func unregister(ctx context.Context, options Options, wrapper Wrapper) error {
	options.DaemonConfig = wrapper.Config
	config, err := readConfig(wrapper.Config)
	if err != nil {
		return err
	}
	// Somebody may have taken it out already; then there is no reason to make docker read anything.
	if isRegistered(config) {
		if err := takeOut(ctx, options, config, wrapper.Previous); err != nil {
			return fmt.Errorf("take the runtime wrapper out of %q: %w", wrapper.Config, err)
		}
	}
	return removeFiles(options.StateDir, "runcwrap-*")
}

// takeOut makes a docker that runs forget the wrapper first, and leaves the file as it would have been without us.
func takeOut(ctx context.Context, options Options, config []byte, previous Previous) error {
	if dockerPID(options.Machine) != 0 {
		spelled, err := unmergeDaemon(config, previous, true)
		if err != nil {
			return err
		}
		if err := writeFile(options.DaemonConfig, spelled); err != nil {
			return err
		}
		if err := reload(ctx, options, defaultIn(spelled)); err != nil {
			return err
		}
	}
	rest, err := unmergeDaemon(config, previous, false)
	if err != nil {
		return err
	}
	if rest == nil {
		return os.Remove(options.DaemonConfig)
	}
	return writeFile(options.DaemonConfig, rest)
}

// defaultIn returns the default runtime that a configuration asks for.
func defaultIn(text []byte) string {
	config, _, err := parseDaemon(text)
	if err != nil {
		return ""
	}
	return strings.Trim(string(config["default-runtime"]), `"`)
}

// readConfig returns nil when there is no file.
func readConfig(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read docker's configuration: %w", err)
	}
	return text, nil
}
