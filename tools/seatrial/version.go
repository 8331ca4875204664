package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build is what the Go toolchain wrote into the binary.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Dirty   bool   `json:"dirty"`
	Go      string `json:"go"`
}

func readBuild() build {
	b := build{Version: "(devel)", Commit: "unknown", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Dirty = s.Value == "true"
		}
	}
	return b
}

// String is the build in one line.
func (b build) String() string {
	return fmt.Sprintf("seatrial %s, commit %s, dirty %t, %s", b.Version, b.Commit, b.Dirty, b.Go)
}

func newVersion() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := readBuild()
			return writeAs(cmd.OutOrStdout(), output, b, []string{b.Version}, func() error {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), b)
				return err
			})
		},
	}
	outputFlag(cmd, &output, "version")
	return cmd
}
