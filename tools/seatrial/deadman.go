package main

import (
	"context"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/e2e/trial"
)

// releaseOutside ends what is armed beside the clusters.
func releaseOutside(ctx context.Context, only undo.Only, stdout io.Writer) error {
	dir, err := undo.WatchdogDir()
	if err != nil {
		return err
	}
	names, err := undo.HostWatchdog{Dir: dir}.Release(ctx, only)
	for _, name := range names {
		say(stdout, "ended the dead-man %s beside its cluster", name)
	}
	return err
}

// newDeadman is started by a trial, for a fault that takes a whole node away, and outlives it when it must.
func newDeadman() *cobra.Command {
	return &cobra.Command{
		Use:    trial.OutsideCommand + " ORDER",
		Short:  "Bring a node back when its time is over, as a file says",
		Hidden: true, // Trials call it.
		Args:   exactly("ORDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			return undo.Watch(cmd.Context(), args[0], trial.OpenOrdered(log), cmd.OutOrStdout(), log)
		},
	}
}
