package main

import (
	"context"
	"errors"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/fixtures/localpv/nodevolume"
)

// runVolumesMake prints a nodevolume.Report for each volume.
func runVolumesMake(ctx context.Context, std stdio, args []string) error {
	fs := flags()
	fileSystem := fs.String("file-system", nodevolume.FileSystemExt4, "file system of the volumes: ext4 or xfs")
	size := fs.Int("size-mib", 0, "size of each volume in MiB")
	names, err := parse(fs, args, 1, orMore)
	if err != nil {
		return err
	}
	volumes := make([]nodevolume.Volume, 0, len(names))
	for _, name := range names {
		v := nodevolume.Volume{PV: name, FileSystem: *fileSystem, SizeMiB: *size}
		if err := v.Validate(); err != nil {
			return badArguments("%w", err)
		}
		volumes = append(volumes, v)
	}
	reports := []nodevolume.Report{}
	for _, v := range volumes {
		report, err := nodevolume.OnNode().Make(ctx, v)
		if err != nil {
			return errors.Join(err, std.say(reports))
		}
		reports = append(reports, report)
	}
	return std.say(reports)
}

// runVolumesMount prints a nodevolume.Report for each volume. The unit of a node runs it on every boot.
func runVolumesMount(ctx context.Context, std stdio, args []string) error {
	if _, err := parse(flags(), args, 0, exactly); err != nil {
		return err
	}
	reports, err := nodevolume.OnNode().MountAll(ctx)
	return errors.Join(err, std.say(reports))
}

// runVolumesInspect prints a list of history.Inspection. That a volume could not be looked at is one, too.
func runVolumesInspect(ctx context.Context, std stdio, args []string) error {
	fs := flags()
	database := fs.String("database", "", databaseUsage)
	names, err := parse(fs, args, 1, orMore)
	if err != nil {
		return err
	}
	all := []history.Inspection{}
	for _, name := range names {
		of, err := nodevolume.OnNode().Inspect(ctx, name, *database)
		if err != nil {
			of = append(of, history.Inspection{PV: name, Error: err.Error()})
		}
		all = append(all, of...)
	}
	return std.say(all)
}

func runVolumesRemove(ctx context.Context, _ stdio, args []string) error {
	names, err := parse(flags(), args, 1, orMore)
	if err != nil {
		return err
	}
	var failed []error
	for _, name := range names {
		failed = append(failed, nodevolume.OnNode().Remove(ctx, name))
	}
	return errors.Join(failed...)
}
