package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/nodeagent/leaks"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// runProbeTCP prints a list with one probe.Connect for each address. That an address does not answer is an answer, not
// a failure.
func runProbeTCP(ctx context.Context, std stdio, args []string) error {
	fs := flags()
	timeout := fs.Duration("timeout", time.Second, "bound of each connection attempt")
	operands, err := parse(fs, args, 1, orMore)
	if err != nil {
		return err
	}
	if *timeout <= 0 {
		return badArguments("--timeout is %s, want more than 0s", *timeout)
	}
	return std.say(probe.TCP(ctx, operands, *timeout))
}

// runProbeDNS prints a list with two probe.Answer for each address of a server, by UDP and by TCP.
func runProbeDNS(ctx context.Context, std stdio, args []string) error {
	fs := flags()
	timeout := fs.Duration("timeout", time.Second, "bound of each question")
	name := fs.String("name", "", "the name that the servers are asked for")
	operands, err := parse(fs, args, 1, orMore)
	if err != nil {
		return err
	}
	if *timeout <= 0 || *name == "" {
		return badArguments("--timeout is %s and --name %q, want more than 0s and a name", *timeout, *name)
	}
	return std.say(probe.DNS(ctx, *name, operands, *timeout))
}

// runProbeFlow prints a probe.FlowReport for each thing that becomes of the flow.
func runProbeFlow(ctx context.Context, std stdio, args []string) error {
	fs := flags()
	silence := fs.Duration("silence", 3*time.Second, "how long nothing is heard until the flow is dead")
	watch := fs.Duration("watch", time.Minute, "how long the flow is watched")
	operands, err := parse(fs, args, 1, exactly)
	if err != nil {
		return err
	}
	return probe.Flow(ctx, operands[0], *silence, *watch, func(r probe.FlowReport) error { return std.say(r) })
}

// runProbePing prints a list with one probe.Echo for each address.
func runProbePing(ctx context.Context, std stdio, args []string) error {
	fs := flags()
	var v probe.Volley
	fs.IntVar(&v.Count, "count", 3, "how many requests each address is sent")
	fs.DurationVar(&v.Interval, "interval", 100*time.Millisecond, "time between two requests")
	fs.DurationVar(&v.Timeout, "timeout", time.Second, "how long answers are awaited after the last request")
	fs.IntVar(&v.Size, "size", probe.MinEchoSize, "bytes of each request")
	operands, err := parse(fs, args, 1, orMore)
	if err == nil {
		if err = v.Check(); err != nil {
			err = badArguments("%w", err)
		}
	}
	if err != nil {
		return err
	}
	addresses := make([]netip.Addr, len(operands))
	for i, text := range operands {
		if addresses[i], err = netip.ParseAddr(text); err != nil {
			return badArguments("probe ping takes IP addresses: %w", err)
		}
	}
	answers, err := probe.Ping(ctx, addresses, v)
	if err != nil {
		return err
	}
	return std.say(answers)
}

// runProbeProcess prints probe.Processes.
func runProbeProcess(_ context.Context, std stdio, args []string) error {
	fs := flags()
	var q probe.Query
	fs.Func("pid", "a process to look for; may be given again", func(s string) error {
		pid, err := strconv.Atoi(s)
		q.PIDs = append(q.PIDs, pid)
		return err
	})
	for name, list := range map[string]*[]string{"program": &q.Programs, "pod": &q.PodUIDs} {
		fs.Func(name, "name of a program or UID of a pod to look for; may be given again", func(s string) error {
			*list = append(*list, s)
			return nil
		})
	}
	if _, err := parse(fs, args, 0, exactly); err != nil {
		return err
	}
	if slices.Contains(q.PodUIDs, "") || slices.Contains(q.Programs, "") {
		return badArguments("the UID of a pod or the name of a program is empty")
	}
	found, err := probe.Lookup("/proc", q)
	if err != nil {
		return err
	}
	return std.say(found)
}

// runLeaks prints a leaks.Report.
func runLeaks(ctx context.Context, std stdio, args []string) error {
	if _, err := parse(flags(), args, 0, exactly); err != nil {
		return err
	}
	return std.say(leaks.OnNode(here(commandBound)).Look(ctx))
}

// runClock prints a probe.Clock. In another boot than that of --boot it sets nothing: the boot clock began again, and
// what is ahead of it is not what it was.
func runClock(_ context.Context, std stdio, args []string) error {
	fs := flags()
	ahead := fs.Duration("ahead", 0, "how far the wall clock is to be ahead of the boot clock")
	boot := fs.String("boot", "", "the boot in which that holds")
	if _, err := parse(fs, args, 0, exactly); err != nil {
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
	return std.say(now)
}

func readClock() (probe.Clock, error) {
	boot, err := probe.ReadBoot()
	return probe.Clock{At: bootclock.Now(), Wall: time.Now().UnixNano(), Boot: boot.Kernel}, err
}
