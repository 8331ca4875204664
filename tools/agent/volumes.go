package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/volfault"
	"github.com/seatrial/seatrial/fixtures/datafiles"
	"github.com/seatrial/seatrial/fixtures/localpv/nodevolume"
)

// runVolumesMake prints a nodevolume.Report for each volume.
func runVolumesMake(ctx context.Context, std stdio, args []string) error {
	fs := flags()
	fileSystem := fs.String("file-system", nodevolume.FileSystemExt4, "file system of the volumes: ext4 or xfs")
	names, err := parse(fs, args, 1, orMore)
	if err != nil {
		return err
	}
	volumes := make([]nodevolume.Volume, 0, len(names))
	for _, name := range names {
		name, size, _ := strings.Cut(name, "=")
		mib, err := strconv.Atoi(size)
		if err != nil {
			return badArguments("volume %q has size %q: use NAME=MIB, a size in MiB", name, size)
		}
		v := nodevolume.Volume{PV: name, FileSystem: *fileSystem, SizeMiB: mib}
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
	dataFiles := fs.Bool("data-files", false, dataFilesUsage)
	names, err := parse(fs, args, 1, orMore)
	if err != nil {
		return err
	}
	all := []history.Inspection{}
	for _, name := range names {
		of, err := nodevolume.OnNode().Inspect(ctx, name, *dataFiles)
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

func thisVolumes() *volfault.Node {
	return &volfault.Node{Notes: volfault.NotesDir, BootNotes: volfault.BootNotesDir, Run: here(commandBound)}
}

// runDamageInflict prints a volfault.Report for each volume.
func runDamageInflict(ctx context.Context, std stdio, args []string) error {
	fs := flags()
	kind := fs.String("kind", "", "what damage")
	file := fs.String("file", "", "of kinds that damage one: which, relative to the pod's directory")
	owner, pvs, err := parseOwned(fs, args, 1, orMore)
	if err != nil {
		return err
	}
	k := volfault.Kind(*kind)
	if !slices.Contains(volfault.Kinds(), k) {
		return badArguments("no kind %q of damage: use one of %q", k, volfault.Kinds())
	}
	if k.Stays() != (*file != "") {
		return badArguments("kind %q and file %q do not go together", k, *file)
	}
	reports, err := thisVolumes().Inflict(ctx, k, owner, *file, pvs...)
	return errors.Join(err, std.say(reports))
}

// runDamageLook prints a volfault.Report for each volume.
func runDamageLook(_ context.Context, std stdio, args []string) error {
	owner, pvs, err := parseOwned(flags(), args, 1, orMore)
	if err != nil {
		return err
	}
	reports, errs := []volfault.Report{}, []error{}
	for _, pv := range pvs {
		r, err := volfault.Look(pv, owner)
		reports, errs = append(reports, r), append(errs, err)
	}
	return errors.Join(append(errs, std.say(reports))...)
}

// runDamageMend prints a volfault.Report for each volume that was damaged.
func runDamageMend(ctx context.Context, std stdio, args []string) error {
	owner, pvs, err := parseOwned(flags(), args, 0, orMore)
	if err != nil {
		return err
	}
	reports, err := thisVolumes().Mend(ctx, owner, pvs...)
	return errors.Join(err, std.say(reports))
}

// runDamageFile prints a volfault.FileView.
func runDamageFile(_ context.Context, std stdio, args []string) error {
	fs := flags()
	file := fs.String("file", "", "which file, relative to the pod's directory")
	page := fs.Int64("page", 0, "which page of it")
	_, pvs, err := parseOwned(fs, args, 1, exactly)
	if err != nil {
		return err
	}
	seen, err := volfault.ReadFile(pvs[0], *file, *page)
	if err != nil {
		return err
	}
	return std.say(seen)
}

const dataFilesUsage = "verify the files of a database, too"

// runInspect prints a list of history.Inspection.
func runInspect(ctx context.Context, std stdio, args []string) error {
	fs := flags()
	fileSystem := fs.String("file-system", "", "file system in the image: ext4 or xfs")
	dataFiles := fs.Bool("data-files", false, dataFilesUsage)
	operands, err := parse(fs, args, 1, exactly)
	if err != nil {
		return err
	}
	inspections, err := datafiles.Volume(ctx, *fileSystem, operands[0], *dataFiles)
	if err != nil {
		return badArguments("%w", err)
	}
	return std.say(inspections)
}
