package main

import (
	"context"
	"encoding/json"
	"flag"

	"github.com/seatrial/seatrial/fixtures/datafiles"
)

const databaseUsage = "reference of the database image whose programs verify the data files; empty: none are verified"

func inspectCommand() command {
	return command{
		name:    "inspect",
		usage:   "--file-system FS [--database IMAGE] FILE",
		summary: "look for damage in a file system that nobody has mounted, and in data files on it; prints JSON",
		run: func(ctx context.Context, std stdio, args []string) error {
			fs := flag.NewFlagSet("inspect", flag.ContinueOnError)
			fileSystem := fs.String("file-system", "", "file system in the image: ext4 or xfs")
			database := fs.String("database", "", databaseUsage)
			operands, err := parseFlags(fs, args, 1)
			if err != nil {
				return err
			}
			said, err := datafiles.Volume(ctx, *fileSystem, operands[0], *database)
			if err != nil {
				return badArguments("%w", err)
			}
			return json.NewEncoder(std.out).Encode(said)
		},
	}
}
