package engine

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/tools/offline/system"
)

// raiseLimits raises inotify limits that are too low, if this process may. One that cannot be read or written is left
// to the doctor.
func raiseLimits(ctx context.Context, options Options) error {
	if options.Machine.UserID() != 0 {
		return nil
	}
	for _, floor := range system.InotifyFloors() {
		text, err := options.Machine.ReadFile(floor.Path)
		if err != nil {
			continue
		}
		was, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil || was >= floor.Need {
			continue
		}
		if options.Machine.Getenv(offline.ChangesVariable) == "no" {
			fmt.Fprintf(options.Out, "%s is %d, which may be too low for kind's nodes: sysctl -w %s=%d\n", floor.Path,
				was, strings.ReplaceAll(strings.TrimPrefix(floor.Path, "/proc/sys/"), "/", "."), floor.Need)
			continue
		}
		if err := recordLimit(ctx, options, floor, was); err != nil {
			return err
		}
		if err := os.WriteFile(floor.Path, []byte(strconv.Itoa(floor.Need)), 0o644); err != nil {
			options.Log.WarnContext(ctx, "limit not raised", "path", floor.Path, "err", err)
			continue
		}
		fmt.Fprintf(options.Out, "Raised %s from %d to %d, which kind's nodes need.\n", floor.Path, was, floor.Need)
	}
	return nil
}

func recordLimit(ctx context.Context, options Options, floor system.Floor, was int) error {
	unlock, err := lock(ctx, options.StateDir)
	if err != nil {
		return err
	}
	defer unlock()
	state, err := loadState(options.StateDir)
	if err != nil {
		return err
	}
	if state.Limits == nil {
		state.Limits = map[string]Limit{}
	}
	if _, ok := state.Limits[floor.Path]; !ok {
		state.Limits[floor.Path] = Limit{Was: was, Set: floor.Need}
	}
	return saveState(options.StateDir, state)
}

// lowerLimits resets the limits that raiseLimits raised and that nobody changed since.
func lowerLimits(options Options, limits map[string]Limit) error {
	for _, path := range slices.Sorted(maps.Keys(limits)) {
		limit := limits[path]
		text, err := options.Machine.ReadFile(path)
		if err != nil || strings.TrimSpace(string(text)) != strconv.Itoa(limit.Set) {
			continue
		}
		if err := os.WriteFile(path, []byte(strconv.Itoa(limit.Was)), 0o644); err != nil {
			return fmt.Errorf("put back %s: %w", path, err)
		}
		fmt.Fprintf(options.Out, "Put %s back to %d.\n", path, limit.Was)
	}
	return nil
}
