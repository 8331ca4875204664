// Package leaks lists what there is on a node of the things that a fault can leave behind, whoever left them, for two
// looks to be compared: history.Left. It runs on the node (seatrial-agent leaks); package undo/apileaks does the
// same for API objects.
//
// The rule: a class of things is looked at when a fault can leave one of it. Of a class, what the cluster makes and
// takes away by itself while nothing is wrong is left out, and everything else is listed, with its owner when it bears
// a mark of ours.
//
//   - nftables: every table by its name, but those that iptables makes when it is first asked for one.
//   - iptables, both families: the policies of chains, and rules that name no chain of kube-proxy, of the network
//     plugin, or of the container engine.
//   - Routes, both families: those that lead nowhere (blackhole, unreachable, prohibit, throw). Others come and go with
//     pods and nodes. Routing rules: all.
//   - Qdiscs: those that are no kernel's default.
//   - Mounts of the node: but those of the kubelet, the container runtime and systemd, and of the kernel's own file
//     systems. What the kubelet leaves mounted is for the checks of mounts.
//   - Loop devices: those over a file below /var/lib/seatrial of this node, but for the disks that nodes share: they
//     are attached and detached as their pods move.
//   - Processes: those that are stopped, or in a frozen cgroup.
//   - Units: ours, but those that are installed by a file, which are looked at as files; those that have failed; timers
//     that were started by hand; the kubelet and the container runtime when they are not active.
//   - Files: what is armed and noted by faults, what is ours in the directories of the system, drop-ins of systemd, and
//     the manifests of static pods by their content.
package leaks

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// Report is what there is on a node.
type Report struct {
	Things []history.Thing `json:"things"` // Never null.
	Blind  []history.Blind `json:"blind"`  // Never null: classes that could not be looked at, and why.
}

// Node is where a look is made: a machine with its commands and its files.
type Node struct {
	Run  undo.Runner
	Root string // "/"; another for tests.
	// Loops returns the loop devices to list.
	Loops func() ([]history.Thing, error)
}

// Of asks the agent on a node.
func Of(ctx context.Context, node clusters.Node) (report Report, err error) {
	return report, nodeagent.On(node).Call(ctx, &report, nil, "leaks")
}

// OnNode is the machine that this program runs on.
func OnNode(run undo.Runner) Node { return Node{Run: run, Root: "/", Loops: loops} }

// Look lists what there is. A class that could not be looked at is said to be, and does not keep the others from it.
func (n Node) Look(ctx context.Context) Report {
	report := Report{Things: []history.Thing{}, Blind: []history.Blind{}}
	for _, c := range []struct {
		class string
		look  func(context.Context) ([]history.Thing, error)
	}{
		{history.ThingTable, n.tables},
		{history.ThingRule, n.filters},
		{history.ThingRoute, n.routes},
		{history.ThingRouteRule, n.routeRules},
		{history.ThingQdisc, n.qdiscs},
		{history.ThingMount, n.mounts},
		{history.ThingLoop, func(context.Context) ([]history.Thing, error) { return n.Loops() }},
		{history.ThingProcess, n.processes},
		{history.ThingUnit, n.units},
		{history.ThingFile, n.files},
	} {
		things, err := c.look(ctx)
		if err != nil {
			report.Blind = append(report.Blind, history.Blind{Class: c.class, Why: err.Error()})
		}
		for _, t := range things {
			t.Class = c.class
			report.Things = append(report.Things, owned(t))
		}
	}
	return report
}

// owned adds the owner, where the thing's name has one in it. Names of volumes are made of the run's as well, and have
// no owner in this sense.
func owned(t history.Thing) history.Thing {
	if t.Class != history.ThingTable && t.Class != history.ThingUnit && t.Class != history.ThingFile {
		return t
	}
	for _, word := range strings.FieldsFunc(t.Name, func(r rune) bool { return r == ' ' || r == '/' }) {
		word = strings.TrimSuffix(word, ".json") // The record of an undo.
		stem := strings.TrimSuffix(strings.TrimSuffix(word, ".service"), ".timer")
		for _, read := range []func(string) (undo.Owner, bool){
			undo.FromTable, func(string) (undo.Owner, bool) { return undo.FromTimer(stem + ".timer") }, undo.FromName,
		} {
			if owner, ok := read(word); ok {
				t.Run, t.Step = owner.Run, owner.Step
				return t
			}
		}
	}
	return t
}

// lines runs a command and returns what it said, without empty lines.
func (n Node) lines(ctx context.Context, argv ...string) ([]string, error) {
	out, err := n.Run(ctx, argv, "")
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(strings.Split(out, "\n"), func(l string) bool { return strings.TrimSpace(l) == "" }), nil
}

func named(format string, args ...any) history.Thing {
	return history.Thing{Name: fmt.Sprintf(format, args...)}
}
