package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/fixtures/recorded"
)

func newDemo() *cobra.Command {
	var output string
	var all, open bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a recorded run: two nodes on one volume, and the rows lost; needs no cluster",
		Long: `Demo judges a recorded run that seatrial carries, and shows it as report shows a saved run. A node was
cut off and its pods were force-deleted; six minutes later two MySQL servers wrote to one volume
(kubernetes/kubernetes issue 61832). The exit code is 0.`,
		Example: "  seatrial demo\n  seatrial demo --open\n  seatrial demo -o html > demo.html",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			dir, err := os.MkdirTemp("", "seatrial-demo-")
			if err != nil {
				return fmt.Errorf("place the recorded run: %w", err)
			}
			carried, err := fs.Sub(recorded.Demo, recorded.DemoDir)
			if err != nil {
				return err
			}
			run := filepath.Join(dir, recorded.DemoDir)
			defer func() { err = errors.Join(err, removeRun(dir, run)) }()
			if err := os.CopyFS(run, carried); err != nil {
				return fmt.Errorf("place the recorded run: %w", err)
			}
			return show(cmd, run, output, all, open)
		},
	}
	showFlags(cmd, &output, "chronicle", &all, &open)
	return cmd
}

// removeRun removes a directory with a run. A page of the run stays: a browser reads it later.
func removeRun(dir, run string) error {
	files, err := os.ReadDir(run)
	page := false
	for _, f := range files {
		if f.Name() == rundir.PageFile {
			page = true
			continue
		}
		err = errors.Join(err, os.RemoveAll(filepath.Join(run, f.Name())))
	}
	if page {
		return err
	}
	return os.RemoveAll(dir)
}
