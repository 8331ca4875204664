package main

import (
	"context"
	"errors"
	"slices"

	"github.com/seatrial/seatrial/chaos/nodeagent/volfault"
	"github.com/seatrial/seatrial/fixtures/datafiles"
)

func thisVolumes() *volfault.Node {
	return &volfault.Node{Notes: volfault.NotesDir, BootNotes: volfault.BootNotesDir, Run: here(commandBound)}
}

// runDamageInflict prints a volfault.Report for each volume.
func runDamageInflict(ctx context.Context, std stdio, args []string) error {
	fs := flags()
	owner := ownerFlags(fs)
	kind := fs.String("kind", "", "what damage")
	file := fs.String("file", "", "of kinds that damage one: which, relative to the pod's directory")
	pvs, err := parseOwner(fs, owner, args, 1, orMore)
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
	reports, err := thisVolumes().Inflict(ctx, k, *owner, *file, pvs...)
	return errors.Join(err, std.say(reports))
}

// runDamageLook prints a volfault.Report for each volume.
func runDamageLook(_ context.Context, std stdio, args []string) error {
	fs := flags()
	owner := ownerFlags(fs)
	pvs, err := parseOwner(fs, owner, args, 1, orMore)
	if err != nil {
		return err
	}
	reports, errs := []volfault.Report{}, []error{}
	for _, pv := range pvs {
		r, err := volfault.Look(pv, *owner)
		reports, errs = append(reports, r), append(errs, err)
	}
	return errors.Join(append(errs, std.say(reports))...)
}

// runDamageMend prints a volfault.Report for each volume that was damaged.
func runDamageMend(ctx context.Context, std stdio, args []string) error {
	fs := flags()
	owner := ownerFlags(fs)
	pvs, err := parseOwner(fs, owner, args, 0, orMore)
	if err != nil {
		return err
	}
	reports, err := thisVolumes().Mend(ctx, *owner, pvs...)
	return errors.Join(err, std.say(reports))
}

// runDamageFile prints a volfault.FileView.
func runDamageFile(_ context.Context, std stdio, args []string) error {
	fs := flags()
	owner := ownerFlags(fs)
	file := fs.String("file", "", "which file, relative to the pod's directory")
	page := fs.Int64("page", 0, "which page of it")
	pvs, err := parseOwner(fs, owner, args, 1, exactly)
	if err != nil {
		return err
	}
	seen, err := volfault.ReadFile(pvs[0], *file, *page)
	if err != nil {
		return err
	}
	return std.say(seen)
}

const databaseUsage = "reference of the database image whose programs verify the data files; empty: none are verified"

// runInspect prints a list of history.Inspection.
func runInspect(ctx context.Context, std stdio, args []string) error {
	fs := flags()
	fileSystem := fs.String("file-system", "", "file system in the image: ext4 or xfs")
	database := fs.String("database", "", databaseUsage)
	operands, err := parse(fs, args, 1, exactly)
	if err != nil {
		return err
	}
	inspections, err := datafiles.Volume(ctx, *fileSystem, operands[0], *database)
	if err != nil {
		return badArguments("%w", err)
	}
	return std.say(inspections)
}
