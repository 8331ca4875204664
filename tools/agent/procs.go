package main

import (
	"context"
	"encoding/json"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/procs"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

func procsCommand() command {
	return command{
		name: "procs", usage: "NAME...",
		summary: "print as JSON the running processes of the given names", run: runProcs,
	}
}

// procsReport is what the procs command prints: what ran between From and To.
type procsReport struct {
	Boot      string          `json:"boot"`
	From      history.Time    `json:"from"`
	To        history.Time    `json:"to"`
	Processes []procs.Process `json:"processes"` // Never null; in the order of pids.
}

func runProcs(_ context.Context, std stdio, args []string) error {
	if len(args) == 0 {
		return badArguments("procs needs the name of at least one program")
	}
	boot, err := procs.ReadBoot()
	if err != nil {
		return err
	}
	report := procsReport{Boot: boot.Name(), From: bootclock.Now(), Processes: []procs.Process{}}
	found, err := procs.List(args...)
	if err != nil {
		return err
	}
	report.Processes = append(report.Processes, found...)
	report.To = bootclock.Now()
	return json.NewEncoder(std.out).Encode(report)
}
