package kind

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cgroupRoot is where the cgroups of this machine are.
const cgroupRoot = "/sys/fs/cgroup"

// thaw thaws what is frozen inside the nodes of a cluster. A container runtime freezes a container for a moment to
// change its limits; if it is killed then, a process is left that no signal ends, and with it the node.
func (p *Provider) thaw(ctx context.Context, name string) {
	list, err := p.engine.containers(ctx, clusterLabel+"="+name)
	ids := make([]string, 0, len(list))
	for _, c := range list {
		ids = append(ids, c.ID)
	}
	thawed, walkErr := thawBelow(cgroupRoot, ids)
	if len(thawed) > 0 {
		p.log.Warn("processes that were left frozen kept nodes from ending, and were thawed", "cgroups", thawed)
	}
	if err := errors.Join(err, walkErr); err != nil {
		p.log.Debug("look for frozen processes", "cluster", name, "error", err)
	}
}

// thawBelow thaws every frozen cgroup below those of the containers, of either version, and returns their directories.
// The containers' own stay as they are: the engine knows that it paused a container.
func thawBelow(root string, ids []string) (thawed []string, err error) {
	files := map[string]struct{ frozen, thaw string }{ // By name.
		"freezer.state": {"FROZEN", "THAWED"}, // Version 1.
		"cgroup.freeze": {"1", "0"},           // Version 2.
	}
	var errs []error
	err = filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		file, known := files[filepath.Base(path)]
		if err != nil || !known { // A cgroup may go while it is looked at.
			return nil //nolint:nilerr // The others are looked at all the same.
		}
		dir := filepath.Dir(path)
		if !slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(filepath.Dir(dir), id) }) {
			return nil
		}
		state, err := os.ReadFile(path)
		if err != nil || strings.TrimSpace(string(state)) != file.frozen {
			return nil //nolint:nilerr // As above.
		}
		if err := os.WriteFile(path, []byte(file.thaw), 0o644); err != nil {
			errs = append(errs, err)
			return nil
		}
		thawed = append(thawed, dir)
		return nil
	})
	return thawed, errors.Join(append(errs, err)...)
}
