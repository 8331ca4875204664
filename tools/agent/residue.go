package main

import (
	"context"
	"encoding/json"

	"github.com/seatrial/seatrial/chaos/nodeagent/leaks"
)

func residueCommand() command {
	return command{
		name:    "residue",
		summary: "print as JSON what there is of the things that a fault can leave on a node",
		run: func(ctx context.Context, std stdio, args []string) error {
			if len(args) > 0 {
				return badArguments("residue takes no arguments")
			}
			return json.NewEncoder(std.out).Encode(leaks.OnNode(here(commandBound)).Look(ctx))
		},
	}
}
