package trial

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/program"
)

// OutsideCommand is the command of the seatrial program that is a dead-man beside a cluster.
const OutsideCommand = "deadman"

// findProgram returns the path of the seatrial program, of which a command outlives the harness.
func findProgram(ctx context.Context, m ClusterOptions) (string, error) {
	if m.Program != "" {
		return m.Program, nil
	}
	seatrial := program.Program{
		Name: "seatrial", Source: "github.com/seatrial/seatrial/tools/seatrial", Variable: "SEATRIAL_PROGRAM",
	}
	path, err := seatrial.Find(ctx, m.Log)
	if err != nil {
		return "", fmt.Errorf("find what outlives the harness: %w", err)
	}
	return path, nil
}

// outside returns what brings nodes of the place back when the harness cannot.
func (p *Place) outside() (undo.HostWatchdog, error) {
	dir, err := undo.WatchdogDir()
	return undo.HostWatchdog{
		Argv: []string{p.record.Program, OutsideCommand}, Dir: dir, Engine: p.record.Engine,
		Cluster: p.record.ClusterName,
	}, err
}

// OpenOrdered finds the node of an order, through the provider of its cluster.
func OpenOrdered(log *slog.Logger) undo.OpenNode {
	return func(ctx context.Context, o undo.Order) (clusters.Node, error) {
		provider, err := NewProvider(o.Engine, log)
		if err != nil {
			return nil, err
		}
		cluster, err := provider.Open(ctx, o.Cluster)
		if err != nil {
			return nil, err
		}
		nodes, err := cluster.Nodes(ctx)
		if err != nil {
			return nil, fmt.Errorf("list nodes: %w", err)
		}
		for _, n := range nodes {
			if n.Name() == o.Node {
				return n, nil
			}
		}
		return nil, fmt.Errorf("cluster %q has no node %q", o.Cluster, o.Node)
	}
}
