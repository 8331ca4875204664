package undo

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// brief undoes what is held on the node until its next boot at the most: volumes whose file systems were shut down for
// a loss of power that did not come.
func brief(ctx context.Context, run Runner, only Only, report *Report) error {
	dir := path.Clean(BriefDir)
	out, err := run(ctx, []string{
		"find", path.Dir(path.Dir(dir)), "-ignore_readdir_race", "-mindepth", "1", "-maxdepth", "3",
		"!", "-path", path.Dir(dir), "!", "-path", dir, "!", "-path", BriefDir + "*", "-prune",
		"-o", "-path", BriefDir + "*", "-print",
	}, "")
	if err != nil {
		return fmt.Errorf("look for what is below %s: %w", dir, err)
	}
	var errs []error
	for _, line := range strings.Fields(out) {
		owner, ours := FromName(strings.TrimPrefix(line, BriefDir))
		if !ours || !only(owner) {
			continue
		}
		if err := ReleaseBrief(ctx, run, owner); err != nil {
			errs = append(errs, err)
			continue
		}
		report.Held = append(report.Held, owner.Name()+" until the next boot")
	}
	return errors.Join(errs...)
}

// ReleaseBrief undoes what the owner holds on the node until its next boot, if it does. The mark goes last.
func ReleaseBrief(ctx context.Context, run Runner, owner Owner) error {
	for _, argv := range [][]string{MendVolumes(owner), {"rm", "-rf", owner.Brief("")}} {
		if _, err := run(ctx, argv, ""); err != nil {
			return fmt.Errorf("release what %s holds until the next boot: %w", owner.Name(), err)
		}
	}
	return nil
}

// MendVolumes is the command that undoes the harm that the owner has done to volumes of the node.
func MendVolumes(owner Owner) []string {
	return []string{AgentPath, "injury", "mend", "--run", owner.Run, "--step", strconv.Itoa(owner.Step)}
}

// mend undoes the harm that was done to volumes, if any was.
func (h holding) mend(ctx context.Context, run Runner) error {
	if !slices.ContainsFunc(h.things, func(t string) bool { return strings.HasPrefix(t, HeldVolume) }) {
		return nil
	}
	_, err := run(ctx, MendVolumes(h.owner), "")
	return err
}
