package main

import (
	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/tools/doctor"
)

func newDoctor() *cobra.Command {
	var output, runs string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether this host can run a trial, and say how to add what is missing; changes nothing",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			rep, err := doctor.Run(cmd.Context(), doctor.Options{RunDir: runs, Images: []doctor.Image{
				{Ref: offline.NodeImageRepository, Fix: "seatrial setup"},
			}})
			if err != nil {
				return err
			}
			write := rep.WriteText
			if output == "json" {
				write = rep.WriteJSON
			}
			if err := write(cmd.OutOrStdout()); err != nil {
				return err
			}
			if rep.Failed() {
				return &exitError{code: rep.ExitCode()}
			}
			return nil
		},
	}
	outputFlag(cmd, &output, "text", "json")
	cmd.Flags().StringVar(&runs, "runs", ".", "parent of the run directories, whose disk is checked")
	return cmd
}
