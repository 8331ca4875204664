package main

import (
	"context"
	"encoding/json"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/procs"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

func bootCommand() command {
	return command{name: "boot", summary: "print as JSON which boot of the node this is", run: runBoot}
}

// bootReport is what the boot command prints. Boot is what facts carry as Mount.Boot and Observer.Boot.
type bootReport struct {
	Boot      string       `json:"boot"`
	PID1Start history.Time `json:"pid1Start"`
	BootID    string       `json:"bootID"` // The kernel's, /proc/sys/kernel/random/boot_id: kind nodes share it.
	Now       history.Time `json:"now"`
}

func runBoot(_ context.Context, std stdio, args []string) error {
	if len(args) > 0 {
		return badArguments("boot takes no arguments")
	}
	boot, err := procs.ReadBoot()
	if err != nil {
		return err
	}
	report := bootReport{Boot: boot.Name(), PID1Start: boot.PID1Start, BootID: boot.KernelBootID, Now: bootclock.Now()}
	return json.NewEncoder(std.out).Encode(report)
}
