package heal

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/seatrial/seatrial/clusters"
)

// On returns a Runner for a node of a cluster, through the container runtime or a login.
func On(node clusters.Node) Runner {
	return func(ctx context.Context, argv []string, stdin string) (string, error) {
		cmd := clusters.Command{Argv: argv}
		if stdin != "" {
			cmd.Stdin = strings.NewReader(stdin)
		}
		res, err := node.Exec(ctx, cmd)
		return string(res.Stdout), err
	}
}

// Cluster heals every node: one that is stopped is started and one that is paused is thawed first, since a fault may
// have left it so. It goes on after an error, and returns all of them. The reports are in the order of the nodes.
func Cluster(ctx context.Context, nodes []clusters.Node, only Only) ([]Report, error) {
	var errs []error
	reports := make([]Report, 0, len(nodes))
	for _, n := range nodes {
		did, err := power(ctx, n)
		if err != nil {
			errs = append(errs, fmt.Errorf("heal node %q: %w", n.Name(), err))
		}
		report, err := Node(ctx, On(n), only)
		if err != nil {
			errs = append(errs, fmt.Errorf("heal node %q: %w", n.Name(), err))
		}
		report.Node, report.Power = n.Name(), did
		reports = append(reports, report)
	}
	return reports, errors.Join(errs...)
}

// power brings a node back that is stopped or paused, and says what it did.
func power(ctx context.Context, n clusters.Node) (string, error) {
	node, ok := n.(clusters.PowerNode)
	if !ok {
		return "", nil
	}
	state, err := node.State(ctx)
	if err != nil {
		return "", fmt.Errorf("get state: %w", err)
	}
	switch state {
	case "exited":
		return "started", node.Start(ctx)
	case "paused":
		return "thawed", node.Unpause(ctx)
	}
	return "", nil
}
