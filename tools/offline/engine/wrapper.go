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

	"github.com/seatrial/seatrial/clusters/program"
	"github.com/seatrial/seatrial/tools/offline/engine/ociwrap"
)

// lacking returns the capabilities that the kernel knows and the engine's daemon cannot have. The containers inherit
// the bounding set of the daemon; one that does not run inherits that of the process which starts it.
func lacking(machine Machine) (ociwrap.Set, error) {
	process := "self"
	if pid := dockerPID(machine); pid != 0 {
		process = strconv.Itoa(pid)
	} else if hasSystemd(machine) {
		process = "1"
	}
	return ociwrap.Lacking(machine.ReadFile, process)
}

// register places the wrapper and makes it the default runtime in docker's configuration. A running docker must reload
// it.
func register(ctx context.Context, options Options, state *State) error {
	config, err := readDaemon(options.DaemonConfig)
	if err != nil {
		return err
	}
	previous := config.previous()
	if state.Wrapper != nil && config.isDefault() {
		previous = state.Wrapper.Previous // It was registered before.
	}
	real, err := config.realRuntime(previous.DefaultRuntime)
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
	state.Wrapper = &Wrapper{Path: built, Real: real, Config: options.DaemonConfig, Previous: previous}
	if err := saveState(options.StateDir, *state); err != nil {
		return err
	}
	if config, err = config.register(built); err == nil {
		err = config.write(options.DaemonConfig)
	}
	if err != nil {
		return fmt.Errorf("register the runtime wrapper in %q: %w", options.DaemonConfig, err)
	}
	return nil
}

// placeWrapper copies the wrapper into dir, links the real runtime beside it, and returns its path. The name has a hash
// of both, so that a wrapper which docker may be using is never changed.
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

// unregister removes the wrapper from docker's configuration and makes a running docker use the runtime it had before.
// Then it removes the program.
func unregister(ctx context.Context, options Options, wrapper Wrapper) error {
	config, err := readDaemon(wrapper.Config)
	if err != nil {
		return err
	}
	// Somebody may have removed it already; then docker need not read anything.
	if config.isRegistered() {
		if err := removeFrom(ctx, options, config, wrapper); err != nil {
			return fmt.Errorf("remove the runtime wrapper from %q: %w", wrapper.Config, err)
		}
	}
	return removeFiles(options.StateDir, "runcwrap-*")
}

func removeFrom(ctx context.Context, options Options, config daemonConfig, wrapper Wrapper) error {
	if dockerPID(options.Machine) != 0 {
		explicit := config.unregister(wrapper.Previous, true)
		if err := explicit.write(wrapper.Config); err != nil {
			return err
		}
		if err := reload(ctx, options, *explicit.defaultRuntime); err != nil {
			return err
		}
	}
	rest := config.unregister(wrapper.Previous, false)
	if rest.isVoid() {
		return os.Remove(wrapper.Config)
	}
	return rest.write(wrapper.Config)
}
