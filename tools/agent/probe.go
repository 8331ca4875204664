package main

import (
	"context"
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
)

func probeCommand() command {
	return command{
		name: "probe",
		usage: "tcp [--timeout DURATION] ADDRESS...\n" +
			"       seatrial-agent probe dns [--timeout DURATION] --name NAME ADDRESS...\n" +
			"       seatrial-agent probe flow [--silence DURATION] [--watch DURATION] ADDRESS\n" +
			"       seatrial-agent probe ping [--count N] [--interval DURATION] [--timeout DURATION] [--size N] " +
			"ADDRESS...\n" +
			"       seatrial-agent probe process [--pid PID]... [--program NAME]... [--pod UID]...",
		summary: "look whether addresses and DNS servers answer and how often, when a flow goes dead, or which " +
			"processes live",
		run: runProbe,
	}
}

func runProbe(ctx context.Context, std stdio, args []string) error {
	if len(args) == 0 {
		return badArguments("probe takes tcp, dns, flow, ping or process")
	}
	switch args[0] {
	case "tcp":
		return probeTCP(ctx, std, args[1:])
	case "dns":
		return probeDNS(ctx, std, args[1:])
	case "flow":
		return probeFlow(ctx, std, args[1:])
	case "ping":
		return probePing(ctx, std, args[1:])
	case "process":
		return probeProcess(std, args[1:])
	}
	return badArguments("no probe %q, want tcp, dns, flow, ping or process", args[0])
}

// probeTCP prints a JSON list with one probe.Connect for each address. That an address does not answer is an answer,
// not a failure.
func probeTCP(ctx context.Context, std stdio, args []string) error {
	fs := flag.NewFlagSet("probe tcp", flag.ContinueOnError)
	timeout := fs.Duration("timeout", time.Second, "bound of each connection attempt")
	fs.SetOutput(std.err)
	if err := fs.Parse(args); err != nil {
		return badArguments("%w", err)
	}
	if fs.NArg() == 0 || *timeout <= 0 {
		return badArguments("probe tcp takes addresses and a timeout above 0, got %d and %s", fs.NArg(), *timeout)
	}
	return json.NewEncoder(std.out).Encode(probe.TCP(ctx, fs.Args(), *timeout))
}

// probeDNS prints a JSON list with two probe.Answer for each address of a server, by UDP and by TCP.
func probeDNS(ctx context.Context, std stdio, args []string) error {
	fs := flag.NewFlagSet("probe dns", flag.ContinueOnError)
	timeout := fs.Duration("timeout", time.Second, "bound of each question")
	name := fs.String("name", "", "the name that the servers are asked for")
	fs.SetOutput(std.err)
	if err := fs.Parse(args); err != nil {
		return badArguments("%w", err)
	}
	if fs.NArg() == 0 || *timeout <= 0 || *name == "" {
		return badArguments("probe dns takes a name, addresses and a timeout above 0, got %q, %d and %s", *name,
			fs.NArg(), *timeout)
	}
	return json.NewEncoder(std.out).Encode(probe.DNS(ctx, *name, fs.Args(), *timeout))
}

// probeFlow prints a probe.FlowReport as a line of JSON for each thing that becomes of the flow.
func probeFlow(ctx context.Context, std stdio, args []string) error {
	fs := flag.NewFlagSet("probe flow", flag.ContinueOnError)
	silence := fs.Duration("silence", 3*time.Second, "how long nothing is heard until the flow is dead")
	watch := fs.Duration("watch", time.Minute, "how long the flow is watched")
	operands, err := parseFlags(fs, args, 1)
	if err != nil {
		return err
	}
	out := json.NewEncoder(std.out)
	return probe.Flow(ctx, operands[0], *silence, *watch, func(r probe.FlowReport) error { return out.Encode(r) })
}

// probePing prints a JSON list with one probe.Echo for each address.
func probePing(ctx context.Context, std stdio, args []string) error {
	fs := flag.NewFlagSet("probe ping", flag.ContinueOnError)
	var v probe.Volley
	fs.IntVar(&v.Count, "count", 3, "how many requests each address is sent")
	fs.DurationVar(&v.Interval, "interval", 100*time.Millisecond, "time between two requests")
	fs.DurationVar(&v.Timeout, "timeout", time.Second, "how long answers are awaited after the last request")
	fs.IntVar(&v.Size, "size", probe.MinEchoSize, "bytes of each request")
	fs.SetOutput(std.err)
	if err := fs.Parse(args); err != nil {
		return badArguments("%w", err)
	}
	if fs.NArg() == 0 || v.Count < 1 || v.Count > probe.MaxEchoes || v.Interval <= 0 || v.Timeout <= 0 {
		return badArguments("probe ping takes addresses, 1 to %d requests, and times above 0", probe.MaxEchoes)
	}
	addresses := make([]netip.Addr, fs.NArg())
	for i, text := range fs.Args() {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return badArguments("probe ping takes IP addresses: %w", err)
		}
		addresses[i] = address
	}
	answers, err := probe.Ping(ctx, addresses, v)
	if err != nil {
		return err
	}
	return json.NewEncoder(std.out).Encode(answers)
}

// probeProcess prints probe.Processes as JSON.
func probeProcess(std stdio, args []string) error {
	fs := flag.NewFlagSet("probe process", flag.ContinueOnError)
	var q probe.Query
	fs.Func("pid", "a process to look for; may be given again", func(s string) error {
		pid, err := strconv.Atoi(s)
		q.PIDs = append(q.PIDs, pid)
		return err
	})
	fs.Func("program", "name of a program whose processes to look for; may be given again", func(s string) error {
		q.Programs = append(q.Programs, s)
		return nil
	})
	fs.Func("pod", "UID of a pod whose processes to look for; may be given again", func(s string) error {
		q.PodUIDs = append(q.PodUIDs, s)
		return nil
	})
	if _, err := parseFlags(fs, args, 0); err != nil {
		return err
	}
	if slices.Contains(q.PodUIDs, "") || slices.Contains(q.Programs, "") {
		return badArguments("the UID of a pod or the name of a program is empty")
	}
	found, err := probe.Lookup(os.DirFS("/proc"), q)
	if err != nil {
		return err
	}
	return json.NewEncoder(std.out).Encode(found)
}
