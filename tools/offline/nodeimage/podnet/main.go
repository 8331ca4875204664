package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Where things are on a node, as the manifest mounts them.
const (
	conflistPath = "/etc/cni/net.d/10-podnet.conflist"
	alivePath    = "/run/podnet/alive"
)

// aliveWithin is how old the last good look at the node may be before the daemon counts as stuck.
const aliveWithin = 3 * resyncEvery

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if len(os.Args) > 1 && os.Args[1] == "alive" {
		if err := alive(alivePath, time.Now()); err != nil {
			log.Error("not alive", "error", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := run(ctx, log)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Error("stopped", "error", err)
		os.Exit(1)
	}
}

// run starts the daemon for the node that NODE_NAME names.
func run(ctx context.Context, log *slog.Logger) error {
	name := os.Getenv("NODE_NAME")
	if name == "" {
		return errors.New("start podnet: NODE_NAME is not set: set it to spec.nodeName")
	}
	client, err := newClient(os.Getenv("CONTROL_PLANE_ENDPOINT"))
	if err != nil {
		return err
	}
	d := &daemon{node: name, log: log, kernel: kernel{}, conflist: conflistPath, alive: alivePath}
	return d.run(ctx, client)
}

// alive tells whether the daemon that writes path has had a good look at the node lately.
func alive(path string, now time.Time) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("look for a sign of life: %w", err)
	}
	if age := now.Sub(info.ModTime()); age > aliveWithin {
		return fmt.Errorf("last good look at the node was %s ago, the bound is %s", age.Round(time.Second), aliveWithin)
	}
	return nil
}
