package main

import (
	"context"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/e2e/rundir"
)

// completionBound is how long a completion may look for a container engine: somebody waits at the prompt.
const completionBound = 3 * time.Second

// complete completes every argument with the names of kinds.
func complete(kinds ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var names []string
		for _, k := range kinds {
			names = append(names, namesOf(k)...)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// oneOf completes a flag that takes one of some words.
func oneOf(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

// completeRuns completes the first argument with run directories, the newest first; elsewhere it completes directories.
func completeRuns(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	root := defaultRunsDir()
	found, err := rundir.List(root)
	if err != nil || len(found) == 0 {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	paths := []string{filepath.Join(root, "latest")}
	for _, d := range found {
		paths = append(paths, d.Path())
	}
	paths = slices.DeleteFunc(paths, func(p string) bool { return !strings.HasPrefix(p, begun) })
	if len(paths) == 0 {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return paths, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeClusters completes with the clusters that Seatrial made. It makes no engine.
func completeClusters(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionBound)
	defer cancel()
	m, ok, err := maker(ctx, io.Discard)
	if err != nil || !ok {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	owned, err := m.List(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, c := range owned {
		if c.Ours {
			names = append(names, c.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeFlag completes the values of a flag that the command has.
func completeFlag(cmd *cobra.Command, flag string, with cobra.CompletionFunc) {
	// The only errors are a flag that is not there and a second completion of it: TestCompletion would fail.
	_ = cmd.RegisterFlagCompletionFunc(flag, with)
}
