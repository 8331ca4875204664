package kind

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/seatrial/seatrial/clusters"
)

// sharedDirs are the directories on this machine that the nodes of each cluster share, all in one directory.
type sharedDirs struct {
	root string
}

// sharedName is the name of the directory of all of them.
const sharedName = "shared"

func sharedBeside(kubeconfig string) sharedDirs {
	return sharedDirs{root: filepath.Join(filepath.Dir(kubeconfig), sharedName)}
}

func (s sharedDirs) dir(cluster string) string { return filepath.Join(s.root, cluster) }

// make makes the directory of a new cluster. It must have been removed before.
func (s sharedDirs) make(cluster string) error {
	if err := os.MkdirAll(s.dir(cluster), 0o755); err != nil {
		return fmt.Errorf("make the directory that nodes share: %w", err)
	}
	return nil
}

// names returns the clusters that have a directory.
func (s sharedDirs) names() ([]string, error) {
	entries, err := os.ReadDir(s.root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the directories that nodes share: %w", err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// of returns the directories of a cluster: ours, and those mounted in its nodes if it was made with another kubeconfig.
// It leaves out mounts that do not look like ours.
func (s sharedDirs) of(cluster string, nodes []container) []string {
	dirs := []string{s.dir(cluster)}
	for _, c := range nodes {
		for _, m := range c.Mounts {
			ours := filepath.Base(m.Source) == cluster && filepath.Base(filepath.Dir(m.Source)) == sharedName
			if m.Destination == clusters.SharedDir && ours && !slices.Contains(dirs, m.Source) {
				dirs = append(dirs, m.Source)
			}
		}
	}
	return dirs
}

// removeShared frees the loop devices over files in the directories of a deleted cluster and removes the directories.
// The files identify the devices, so they go last.
func (p *Provider) removeShared(ctx context.Context, cluster string, dirs []string) error {
	of, err := goneWith(cluster, dirs)
	if err != nil {
		return err
	}
	if err := p.loops.release(ctx, p.log, of); err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		if err := os.RemoveAll(dir); err != nil {
			errs = append(errs, fmt.Errorf("remove the directory that nodes shared: %w", err))
		}
		_ = os.Remove(filepath.Dir(dir)) // It goes with the last one; that it holds others is no error.
	}
	return errors.Join(errs...)
}

// removeOutside removes directories that nodes mounted from the engine's host, which a harness in a container of that
// engine does not see: it has other directories under these names.
func (p *Provider) removeOutside(ctx context.Context, dirs []string, nodes []container) error {
	if _, inside := p.engine.self(ctx); !inside {
		return nil
	}
	for _, dir := range dirs {
		mounted := func(c container) bool {
			return slices.ContainsFunc(c.Mounts, func(m mount) bool { return m.Source == dir })
		}
		if !slices.ContainsFunc(nodes, mounted) {
			continue
		}
		root, name := filepath.Dir(filepath.Dir(dir)), filepath.Base(dir)
		_, err := p.engine.output(ctx, "run", "--rm", "--network=none", "--mount=type=bind,src="+root+",dst=/mnt",
			"--entrypoint=/bin/sh", nodes[0].Image, "-c",
			`rm -rf "/mnt/$1/$2" && rmdir --ignore-fail-on-non-empty "/mnt/$1"`, "sh", sharedName, name)
		if err != nil {
			return fmt.Errorf("remove the directory that nodes shared, on the engine's host: %w", err)
		}
	}
	return nil
}
