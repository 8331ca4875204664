package main

import (
	"context"
	"fmt"
	"runtime/debug"
)

func versionCommand() command {
	return command{name: "version", summary: "print the version the agent was built from", run: runVersion}
}

func runVersion(_ context.Context, std stdio, args []string) error {
	if len(args) > 0 {
		return badArguments("version takes no arguments")
	}
	_, err := fmt.Fprintln(std.out, buildVersion())
	return err
}

func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			version += " " + s.Value
		}
		if s.Key == "vcs.modified" && s.Value == "true" {
			version += " modified"
		}
	}
	return version + " " + info.GoVersion
}
