// Package leaks lists what is on a node that a fault could have left there, whoever made it. Comparing a list from
// before the trial with one from after it gives the leaks: history.Left. It runs on the node (seatrial-agent leaks);
// package undo/apileaks lists API objects.
//
// A class is listed if a fault can leave one of it. What a healthy cluster makes and removes by itself is left out.
// Everything else is listed, with its owner if it bears an owner's mark.
//
//   - nftables: every table by name, except those that iptables makes on first use.
//   - iptables, both families: policies of chains, and rules that name no chain of kube-proxy, the network plugin or
//     the container engine.
//   - Routes, both families: blackhole, unreachable, prohibit and throw; others change with pods and nodes. All routing
//     rules.
//   - Qdiscs: those that are no default of the kernel.
//   - Mounts of the node, except those of the kubelet, the container runtime, systemd and the kernel's own file
//     systems. The mount checks judge what the kubelet leaves mounted.
//   - Loop devices over files below /var/lib/seatrial of this node, except shared disks: those move with their pods.
//   - Processes that are stopped or in a frozen cgroup.
//   - Units: ours without a unit file (files are listed as such), failed ones, transient timers, and the kubelet and
//     containerd if they are not active.
//   - Files: armed undos, notes of damage, our files in system directories, drop-ins of systemd, and static pod
//     manifests by content.
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

// Report lists what is on a node.
type Report struct {
	Things []history.Thing `json:"things"` // Never null.
	Blind  []history.Blind `json:"blind"`  // Never null: classes that could not be listed, and why.
}

// Node is the machine to list.
type Node struct {
	Run   undo.Runner
	Root  string                          // "/"; another for tests.
	Loops func() ([]history.Thing, error) // Lists the loop devices.
}

// Of returns the report of the agent on a node.
func Of(ctx context.Context, node clusters.Node) (report Report, err error) {
	return report, nodeagent.On(node).Call(ctx, &report, nil, "leaks")
}

// OnNode is the machine that this program runs on.
func OnNode(run undo.Runner) Node { return Node{Run: run, Root: "/", Loops: loops} }

// Look lists all classes. One that cannot be listed is reported as blind.
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

// owned adds the owner that the name of a table, unit or file contains. Volume names contain a run, but no owner.
func owned(t history.Thing) history.Thing {
	if t.Class != history.ThingTable && t.Class != history.ThingUnit && t.Class != history.ThingFile {
		return t
	}
	for _, word := range strings.FieldsFunc(t.Name, func(r rune) bool { return r == ' ' || r == '/' }) {
		stem := strings.TrimSuffix(word, ".json") // The record of an undo.
		stem = strings.TrimSuffix(strings.TrimSuffix(stem, ".service"), ".timer")
		for _, read := range []func(string) (undo.Owner, bool){
			undo.FromTable,
			func(stem string) (undo.Owner, bool) { return undo.FromTimer(stem + ".timer") }, // Before the next.
			undo.FromName,
		} {
			if owner, ok := read(stem); ok {
				t.Run, t.Step = owner.Run, owner.Step
				return t
			}
		}
	}
	return t
}

// lines runs a command and returns the lines it printed, without empty ones.
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
