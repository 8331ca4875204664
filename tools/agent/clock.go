package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

func clockCommand() command {
	return command{
		name:    "clock",
		usage:   "[--ahead DURATION --boot ID]",
		summary: "print the clocks; with --ahead, put the wall clock that much ahead of the boot clock before",
		run:     runClock,
	}
}

// runClock prints a probe.Clock as JSON. In another boot than that of --boot it sets nothing: the boot clock has begun
// anew, and what is ahead of it is not what it was.
func runClock(_ context.Context, std stdio, args []string) error {
	fs := flag.NewFlagSet("clock", flag.ContinueOnError)
	ahead := fs.Duration("ahead", 0, "how far the wall clock is to be ahead of the boot clock")
	boot := fs.String("boot", "", "the boot in which that holds")
	if _, err := parseFlags(fs, args, 0); err != nil {
		return err
	}
	if (*ahead == 0) != (*boot == "") || *ahead < 0 {
		return badArguments("--ahead (above 0) and --boot go together, got %s and %q", *ahead, *boot)
	}
	now, err := readClock()
	if err != nil {
		return err
	}
	if *boot == now.Boot {
		wall := unix.NsecToTimespec(int64(bootclock.Now().Add(*ahead)))
		if err := unix.ClockSettime(unix.CLOCK_REALTIME, &wall); err != nil {
			return fmt.Errorf("set the wall clock: %w", err)
		}
		if now, err = readClock(); err != nil {
			return err
		}
	}
	return json.NewEncoder(std.out).Encode(now)
}

func readClock() (probe.Clock, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return probe.Clock{}, fmt.Errorf("read the id of the boot: %w", err)
	}
	at := bootclock.Now()
	return probe.Clock{At: at, Wall: time.Now().UnixNano(), Boot: string(bytes.TrimSpace(boot))}, nil
}
