package undo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/clusters"
)

// On returns a Runner for a node, through the container runtime or a login.
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

// Action is one command of an undo. It may run at any time and more than once.
type Action struct {
	Argv  []string `json:"argv"`
	Stdin string   `json:"stdin,omitempty"`
	Tells bool     `json:"tells,omitempty"` // It prints a line for the report for each thing that it undoes.
}

// Command returns the action of a command without standard input.
func Command(argv ...string) Action { return Action{Argv: argv} }

// Task is the undo of a fault on one node, or of its marks.
type Task struct {
	Node      clusters.Node
	Actions   []Action
	UntilBoot bool          // A boot of the node undoes it too.
	Power     bool          // The watchdog brings the node back; no timer on the node could.
	Marks     string        // In place of a node, the resource from whose objects the watchdog removes marks.
	Longer    time.Duration // Added to the life of the fault.
}

// Arm stores the undo on the node and starts the timer that carries it out after life. It replaces an armed undo of the
// same owner.
func Arm(ctx context.Context, task Task, owner Owner, life time.Duration) error {
	fail := func(err error) error { return fmt.Errorf("arm undo on node %q: %w", task.Node.Name(), err) }
	if err := owner.Check(); err != nil {
		return fail(err)
	}
	actions, err := json.Marshal(task.Actions)
	if err != nil {
		return fail(err)
	}
	args := slices.Concat([]string{"arm"}, owner.Flags(), []string{"--life", (life + task.Longer).String()})
	if task.UntilBoot {
		args = append(args, "--until-boot")
	}
	if err := nodeagent.On(task.Node).Call(ctx, nil, actions, args...); err != nil {
		return fail(err)
	}
	return nil
}

// Disarm stops the owner's timer and removes its undo, if they exist.
func Disarm(ctx context.Context, node clusters.Node, owner Owner) error {
	if err := nodeagent.On(node).Call(ctx, nil, nil, append([]string{"disarm"}, owner.Flags()...)...); err != nil {
		return fmt.Errorf("disarm undo: %w", err)
	}
	return nil
}

// How long a failed undo is retried: the API server may not answer, a Node not be registered, systemd not be up yet.
const (
	healBound     = 45 * time.Second // By heal.
	carryOutBound = 20 * time.Second // By the guard, whose own bound is longer by carryOutEnd at least.
	carryOutEnd   = 10 * time.Second
)

// CarryOut carries out the undo that the owner armed on a node, if any. What fails is tried again for as long as ctx
// allows.
func CarryOut(ctx context.Context, node clusters.Node, owner Owner) error {
	bound := carryOutBound
	if deadline, ok := ctx.Deadline(); ok {
		bound = max(bound, (time.Until(deadline) - carryOutEnd).Truncate(carryOutEnd))
	}
	return nodeagent.On(node).Call(ctx, &Report{}, nil,
		append([]string{"undo", "--bound", bound.String()}, owner.Flags()...)...)
}

// Node carries out the selected undos armed on a node. It may run at any time, repeatedly and concurrently. A node
// without the agent has nothing armed.
func Node(ctx context.Context, node clusters.Node, only Only) (Report, error) {
	report := Report{Undone: []string{}}
	args := append([]string{"undo", "--bound", healBound.String()}, flagsOf(only)...)
	err := nodeagent.On(node).Call(ctx, &report, nil, args...)
	if err != nil && missing(ctx, node) {
		report, err = Report{Undone: []string{}}, nil
	}
	report.Node = node.Name()
	return report, err
}

// Armed lists the selected undos armed on a node, sorted by owner.
func Armed(ctx context.Context, node clusters.Node, only Only) (armed []Record, err error) {
	err = nodeagent.On(node).Call(ctx, &armed, nil, append([]string{"armed"}, flagsOf(only)...)...)
	if err != nil && missing(ctx, node) {
		return nil, nil
	}
	return armed, err
}

// missing reports whether the agent is certainly not on a node. It is asked only after a call failed.
func missing(ctx context.Context, node clusters.Node) bool {
	_, err := clusters.Run(ctx, node, "test", "-x", nodeagent.Path)
	var exit *clusters.ExitError
	return errors.As(err, &exit) && exit.ExitCode == 1
}

// Cluster heals all nodes concurrently, after starting those that are stopped and thawing those that are paused. It
// returns a report for each node, in their order, and all errors. What it cannot undo stays armed for the timers.
func Cluster(ctx context.Context, nodes []clusters.Node, only Only) ([]Report, error) {
	reports, errs := make([]Report, len(nodes)), make([]error, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() {
			did, err := BringBack(ctx, n)
			report, failed := Node(ctx, n, only)
			report.Power = did
			reports[i] = report
			if err = errors.Join(err, failed); err != nil {
				errs[i] = fmt.Errorf("heal node %q: %w", n.Name(), err)
			}
		})
	}
	all.Wait()
	return reports, errors.Join(errs...)
}

// BringBack starts a stopped node or thaws a paused one, and returns which. It skips nodes that are no PowerNode.
func BringBack(ctx context.Context, n clusters.Node) (did string, err error) {
	node, ok := n.(clusters.PowerNode)
	if !ok {
		return "", nil
	}
	state, err := node.State(ctx)
	if err != nil {
		return "", fmt.Errorf("get state: %w", err)
	}
	switch state {
	case clusters.StateExited:
		return "started", node.Start(ctx)
	case clusters.StatePaused:
		return "thawed", node.Unpause(ctx)
	}
	return "", nil
}
