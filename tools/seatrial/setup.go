package main

import (
	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/e2e/trial"
)

func newSetup() *cobra.Command {
	var f mooringFlags
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Make what a trial needs of this host: a container engine, the node image, the database image",
		Long: `Setup does what run does before it makes a cluster. A container engine that works is not touched. Images are built
only when their inputs changed; an interrupted build goes on where it stopped.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := f.moorings(cmd.Context(), 0, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			images, err := trial.EnsureImages(cmd.Context(), m)
			if err != nil {
				return err
			}
			say(cmd.OutOrStdout(), "engine %s\nnode image %s (%s)\ndatabase image %s", m.Engine, images.Node, images.Source, images.Database)
			return nil
		},
	}
	f.registerImages(cmd)
	return cmd
}
