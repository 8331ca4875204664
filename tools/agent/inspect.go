package main

import (
	"context"
	"encoding/json"
	"flag"

	"github.com/seatrial/seatrial/fixtures/fsck"
)

func inspectCommand() command {
	return command{
		name:    "inspect",
		usage:   "--file-system FS IMAGE",
		summary: "look for damage in a file system that nobody has mounted; prints JSON",
		run: func(ctx context.Context, std stdio, args []string) error {
			fs := flag.NewFlagSet("inspect", flag.ContinueOnError)
			fileSystem := fs.String("file-system", "", "file system in the image: ext4 or xfs")
			operands, err := parseFlags(fs, args, 1)
			if err != nil {
				return err
			}
			said, err := fsck.Look(ctx, *fileSystem, operands[0])
			if err != nil {
				return badArguments("%w", err)
			}
			return json.NewEncoder(std.out).Encode(said)
		},
	}
}
