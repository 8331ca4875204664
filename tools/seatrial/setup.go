package main

import (
	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/trial"
)

func newSetup() *cobra.Command {
	var f clusterFlags
	var output string
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Make what a trial needs: a container engine, the node image, the database image",
		Long: `Setup does what run does before it makes a cluster. A container engine that works is not touched.
Images are built only if their inputs changed; an interrupted build continues where it stopped.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "text" && output != "env" {
				return badArguments("output %q is not known; give text or env", output)
			}
			m, err := f.options(cmd.Context(), plan.Plan{}, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			m.Storages = plan.Storages()
			images, err := trial.EnsureImages(cmd.Context(), m)
			if err != nil {
				return err
			}
			if err := trial.EnsureStorages(cmd.Context(), m); err != nil {
				return err
			}
			if output == "env" {
				say(cmd.OutOrStdout(), "SEATRIAL_ENGINE=%s\nSEATRIAL_NODE_IMAGE=%s", m.Engine, images.Node)
				return nil
			}
			say(cmd.OutOrStdout(), "engine %s\nnode image %s (%s)\ndatabase image %s",
				m.Engine, images.Node, images.Source, images.Database.Ref)
			return nil
		},
	}
	f.registerImages(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, or env (NAME=value lines)")
	return cmd
}
