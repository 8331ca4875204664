package undo

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
// have left it so. What is left of API objects comes when that is done, through one node of the control plane: the API
// server may have been what was hurt, and a Node that was deleted is there again when its kubelet has registered it. It
// goes on after an error, and returns all of them. The reports are in the order of the nodes.
//
// While the API server does not answer, the timers on the control plane are left armed: they will undo what is left.
func Cluster(ctx context.Context, nodes []clusters.Node, only Only) ([]Report, error) {
	only = orAll(only)
	var errs []error
	failed := func(n clusters.Node, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("heal node %q: %w", n.Name(), err))
		}
	}
	reports := make([]Report, len(nodes))
	for i, n := range nodes {
		did, err := power(ctx, n)
		failed(n, err)
		reports[i] = Report{Node: n.Name(), Power: did, Undone: []string{}, Timers: []string{}}
		failed(n, things(ctx, On(n), only, &reports[i]))
	}
	apiErr := throughOne(ctx, nodes, only, reports)
	errs = append(errs, apiErr)
	for i, n := range nodes {
		if apiErr == nil || n.Role() != clusters.RoleControlPlane {
			failed(n, timers(ctx, On(n), only, &reports[i]))
		}
	}
	return reports, errors.Join(errs...)
}

// throughOne undoes what is left of API objects through the first node of the control plane that can. What the others
// keep of deleted Nodes is given back as well.
func throughOne(ctx context.Context, nodes []clusters.Node, only Only, reports []Report) error {
	var errs []error
	done := false
	for i, n := range nodes {
		if n.Role() != clusters.RoleControlPlane {
			continue
		}
		if done {
			kept, err := keptNodes(ctx, On(n), only)
			if err == nil && len(kept) == 0 {
				continue
			}
		}
		if err := API(ctx, On(n), only, apiBound, &reports[i]); err != nil {
			errs = append(errs, fmt.Errorf("heal API objects through node %q: %w", n.Name(), err))
			continue
		}
		done = true
	}
	if done {
		return nil
	}
	return errors.Join(errs...)
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
