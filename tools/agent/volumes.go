package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/fixtures/localpv/nodevolume"
)

func volumesCommand() command {
	return command{
		name: "volumes",
		usage: "make --file-system FS --size-mib N NAME... | mount | inspect [--database IMAGE] NAME... | " +
			"remove NAME...",
		summary: "make, mount, inspect and remove the node's local volumes; prints JSON",
		run: func(ctx context.Context, std stdio, args []string) error {
			return runVolumes(ctx, nodevolume.OnNode(), std.out, args)
		},
	}
}

func runVolumes(ctx context.Context, store nodevolume.Store, out io.Writer, args []string) error {
	if len(args) == 0 {
		return badArguments("volumes needs one of make, mount, inspect, remove")
	}
	switch args[0] {
	case "make":
		return makeVolumes(ctx, store, out, args[1:])
	case "mount":
		if len(args) > 1 {
			return badArguments("volumes mount takes no operands")
		}
		reports, err := store.MountAll(ctx)
		return errors.Join(err, printReports(out, reports))
	case "inspect":
		return inspectVolumes(ctx, store, out, args[1:])
	case "remove":
		return removeVolumes(ctx, store, args[1:])
	}
	return badArguments("volumes has no %q: want make, mount, inspect or remove", args[0])
}

func makeVolumes(ctx context.Context, store nodevolume.Store, out io.Writer, args []string) error {
	fs := flag.NewFlagSet("volumes make", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fileSystem := fs.String("file-system", nodevolume.FileSystemExt4, "file system of the volumes: ext4 or xfs")
	size := fs.Int("size-mib", 0, "size of each volume in MiB")
	if err := fs.Parse(args); err != nil {
		return badArguments("%w", err)
	}
	if fs.NArg() == 0 {
		return badArguments("volumes make needs the name of a volume")
	}
	volumes := make([]nodevolume.Volume, 0, fs.NArg())
	for _, name := range fs.Args() {
		v := nodevolume.Volume{PV: name, FileSystem: *fileSystem, SizeMiB: *size}
		if err := v.Validate(); err != nil {
			return badArguments("%w", err)
		}
		volumes = append(volumes, v)
	}
	var reports []nodevolume.Report
	for _, v := range volumes {
		report, err := store.Make(ctx, v)
		if err != nil {
			return errors.Join(err, printReports(out, reports))
		}
		reports = append(reports, report)
	}
	return printReports(out, reports)
}

// inspectVolumes prints what is said of each volume; that one could not be looked at is said of it as well.
func inspectVolumes(ctx context.Context, store nodevolume.Store, out io.Writer, args []string) error {
	fs := flag.NewFlagSet("volumes inspect", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	database := fs.String("database", "", databaseUsage)
	if err := fs.Parse(args); err != nil {
		return badArguments("%w", err)
	}
	if fs.NArg() == 0 {
		return badArguments("volumes inspect needs the name of a volume")
	}
	said := []history.Inspection{}
	for _, name := range fs.Args() {
		of, err := store.Inspect(ctx, name, *database)
		if err != nil {
			of = append(of, history.Inspection{PV: name, Error: err.Error()})
		}
		said = append(said, of...)
	}
	return json.NewEncoder(out).Encode(said)
}

func removeVolumes(ctx context.Context, store nodevolume.Store, names []string) error {
	if len(names) == 0 {
		return badArguments("volumes remove needs the name of a volume")
	}
	var failed []error
	for _, name := range names {
		failed = append(failed, store.Remove(ctx, name))
	}
	return errors.Join(failed...)
}

func printReports(out io.Writer, reports []nodevolume.Report) error {
	if reports == nil {
		reports = []nodevolume.Report{}
	}
	return json.NewEncoder(out).Encode(reports)
}
