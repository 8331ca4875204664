// Program offline makes a container engine that kind can use, where there is none, and takes it away again.
//
// Data goes to standard output, messages to standard error; it exits 0 when done, 254 for bad arguments and 255 when
// it failed.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/seatrial/seatrial/tools/offline/engine"
)

const usage = `usage: offline COMMAND

  ensure   find a container engine that works, or make one; prints it
  status   find a container engine that works; prints it, changes nothing
  clean    undo what ensure did to this host
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 {
		fmt.Fprint(stderr, usage)
		return 254
	}
	level := slog.LevelWarn
	if os.Getenv("SEATRIAL_DEBUG") != "" {
		level = slog.LevelDebug
	}
	options := engine.Options{
		Log: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})),
		Out: stderr,
	}
	var found engine.Engine
	var err error
	switch args[0] {
	case "ensure":
		found, err = engine.Ensure(ctx, options)
	case "status":
		found, err = engine.FindWith(ctx, options)
	case "clean":
		err = engine.Clean(ctx, options)
	default:
		fmt.Fprintf(stderr, "offline: unknown command %q\n%s", args[0], usage)
		return 254
	}
	if err != nil {
		fmt.Fprintf(stderr, "offline: %v\n", err)
		return 255
	}
	if found.Name != "" {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(found); err != nil {
			fmt.Fprintf(stderr, "offline: %v\n", err)
			return 255
		}
	}
	return 0
}
