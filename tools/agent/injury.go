package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"slices"

	"github.com/seatrial/seatrial/chaos/nodeagent/volfault"
	"github.com/seatrial/seatrial/chaos/undo"
)

func injuryCommand() command {
	return command{
		name: "injury",
		usage: "inflict --run RUN --step N --kind KIND [--file FILE] VOLUME...\n" +
			"       seatrial-agent injury look --run RUN --step N VOLUME...\n" +
			"       seatrial-agent injury sight --run RUN --step N --file FILE --page N VOLUME\n" +
			"       seatrial-agent injury mend --run RUN --step N [VOLUME...]",
		summary: "do harm to the file systems of volumes on this node, look at them, undo it; prints JSON",
		run: func(ctx context.Context, std stdio, args []string) error {
			node := &volfault.Node{Notes: volfault.NotesDir, BootNotes: volfault.BootNotesDir, Run: here(commandBound)}
			return runInjury(ctx, node, std, args)
		},
	}
}

func runInjury(ctx context.Context, node *volfault.Node, std stdio, args []string) error {
	if len(args) == 0 || !slices.Contains([]string{"inflict", "look", "mend", "sight"}, args[0]) {
		return badArguments("injury takes inflict, look, mend or sight")
	}
	fs := flag.NewFlagSet("injury "+args[0], flag.ContinueOnError)
	fs.SetOutput(std.err)
	var owner undo.Owner
	var kind, file string
	fs.StringVar(&owner.Run, "run", "", "whose harm it is")
	fs.IntVar(&owner.Step, "step", 0, "which step's")
	var page int64
	if args[0] == "inflict" {
		fs.StringVar(&kind, "kind", "", "what harm")
	}
	if args[0] == "sight" {
		fs.Int64Var(&page, "page", 0, "which page of the file")
	}
	if args[0] == "inflict" || args[0] == "sight" {
		fs.StringVar(&file, "file", "", "of kinds that damage one: which, relative to the pod's directory")
	}
	if err := fs.Parse(args[1:]); err != nil {
		return badArguments("%w", err)
	}
	if err := owner.Check(); err != nil {
		return badArguments("%w", err)
	}
	if args[0] != "mend" && fs.NArg() == 0 {
		return badArguments("injury %s takes the names of volumes", args[0])
	}
	if args[0] == "sight" {
		seen, err := volfault.ReadFile(fs.Arg(0), file, page)
		if err != nil {
			return err
		}
		return json.NewEncoder(std.out).Encode(seen)
	}
	var reports []volfault.Report
	var err error
	switch args[0] {
	case "inflict":
		if !slices.Contains(volfault.Kinds(), volfault.Kind(kind)) {
			return badArguments("no kind %q of harm: use one of %q", kind, volfault.Kinds())
		}
		if volfault.Kind(kind).Stays() != (file != "") {
			return badArguments("kind %q and file %q do not go together", kind, file)
		}
		reports, err = node.Inflict(ctx, volfault.Kind(kind), owner, file, fs.Args()...)
	case "look":
		for _, pv := range fs.Args() {
			r, failed := volfault.Look(pv, owner)
			reports, err = append(reports, r), errors.Join(err, failed)
		}
	case "mend":
		reports, err = node.Mend(ctx, owner, fs.Args()...)
	}
	return errors.Join(err, json.NewEncoder(std.out).Encode(reports))
}
