package main

import (
	"io"

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
				{Ref: offline.NodeImageRepository, Fix: offline.EnsureCommand},
			}})
			if err != nil {
				return err
			}
			write := rep.WriteText
			switch output {
			case "json":
				write = rep.WriteJSON
			case "yaml":
				write = func(w io.Writer) error { return writeYAML(w, rep.WriteJSON) }
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
	outputFlag(cmd, &output, "text", "json", "yaml")
	cmd.Flags().StringVar(&runs, "runs", ".", "parent of the run directories, whose disk is checked")
	return cmd
}
