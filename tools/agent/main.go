package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

// The exit codes of the agent.
const (
	exitOK           = 0
	exitFailed       = 1
	exitBadArguments = 254
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	code := run(ctx, stdio{in: os.Stdin, out: os.Stdout, err: os.Stderr, log: log}, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, std stdio, args []string) int {
	if len(args) == 0 {
		printUsage(std.err)
		return exitBadArguments
	}
	for _, c := range commands() {
		if c.name != args[0] {
			continue
		}
		err := c.run(ctx, std, args[1:])
		var bad *argumentError
		switch {
		case err == nil:
			return exitOK
		case errors.As(err, &bad):
			fmt.Fprintf(std.err, "seatrial-agent %s: %v\nusage: seatrial-agent %s %s\n", c.name, err, c.name, c.usage)
			return exitBadArguments
		default:
			fmt.Fprintf(std.err, "seatrial-agent %s: %v\n", c.name, err)
			return exitFailed
		}
	}
	fmt.Fprintf(std.err, "seatrial-agent: no command %q\n", args[0])
	printUsage(std.err)
	return exitBadArguments
}

func printUsage(w io.Writer) {
	fmt.Fprint(w, "usage: seatrial-agent COMMAND [ARGUMENTS]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-8s %s\n", c.name, c.summary)
	}
}
