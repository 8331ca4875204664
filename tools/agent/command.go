package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
)

// command is one command of the agent: a file of its own and one line in commands.
type command struct {
	name    string
	usage   string // What follows the name, for example "[--follow] FILE".
	summary string // One line, without a full stop.
	// run carries the command out. An error made by badArguments ends the program with exit code 254, any other
	// error with 1; ctx ends on SIGINT and SIGTERM.
	run func(ctx context.Context, std stdio, args []string) error
}

// stdio is what a command may read and write.
type stdio struct {
	in  io.Reader
	out io.Writer    // Data.
	err io.Writer    // Messages.
	log *slog.Logger // Writes to err.
}

// commands lists what the agent can do, in the order of the alphabet. A new command is one new file with a
// <name>Command function, and one line here.
func commands() []command {
	return []command{
		armCommand(),
		bootCommand(),
		clockCommand(),
		dialCommand(),
		disarmCommand(),
		enterCommand(),
		injuryCommand(),
		inspectCommand(),
		ledgerCommand(),
		linkCommand(),
		probeCommand(),
		procsCommand(),
		qdiscCommand(),
		residueCommand(),
		restoreCommand(),
		tailCommand(),
		thawCommand(),
		triggerCommand(),
		undoCommand(),
		versionCommand(),
		volumesCommand(),
	}
}

// argumentError is an error in the arguments of a command.
type argumentError struct{ err error }

func (e *argumentError) Error() string { return e.err.Error() }
func (e *argumentError) Unwrap() error { return e.err }

// badArguments makes an error that ends the program with exit code 254.
func badArguments(format string, args ...any) error {
	return &argumentError{fmt.Errorf(format, args...)}
}

// parseFlags parses args into fs and returns what follows the flags; want is the number of operands.
func parseFlags(fs *flag.FlagSet, args []string, want int) ([]string, error) {
	fs.SetOutput(io.Discard)
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, badArguments("flags of %s: %s", fs.Name(), flagNames(fs))
		}
		return nil, badArguments("%w", err)
	}
	if fs.NArg() != want {
		return nil, badArguments("%s takes %d operands, got %d", fs.Name(), want, fs.NArg())
	}
	return fs.Args(), nil
}

func flagNames(fs *flag.FlagSet) string {
	var names string
	fs.VisitAll(func(f *flag.Flag) { names += fmt.Sprintf("\n  --%s (default %q): %s", f.Name, f.DefValue, f.Usage) })
	return names
}
