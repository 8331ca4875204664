package main

import (
	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/tools/doctor"
)

func newDoctor() *cobra.Command {
	var output, runs string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether this host can run a trial, and say how to add what is missing; changes nothing",
		Long: `Doctor checks whether this host can run a trial, and prints for each failure the command that adds
what is missing. It changes nothing. The exit code is 0 if a trial can run, 1 if not.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			rep, err := doctor.Run(cmd.Context(), doctor.Options{RunDir: runs})
			if err != nil {
				return err
			}
			var lacking []string
			for _, c := range rep.Checks {
				if c.Status != doctor.OK {
					lacking = append(lacking, c.What)
				}
			}
			w := cmd.OutOrStdout()
			err = writeAs(w, output, rep, lacking, func() error { return rep.WriteText(w) })
			if err == nil && !rep.OK {
				err = &exitError{code: 1}
			}
			return err
		},
	}
	outputFlag(cmd, &output, "checks that are not ok")
	cmd.Flags().StringVar(&runs, "runs", ".", "parent of the run directories, whose disk is checked")
	return cmd
}
