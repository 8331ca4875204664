package undo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/seatrial/seatrial/chaos/nodeagent"
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

// Action is one command of an undo. It may run at any time and more than once.
type Action struct {
	Argv  []string `json:"argv"`
	Stdin string   `json:"stdin,omitempty"`
	Tells bool     `json:"tells,omitempty"` // It prints what it has undone, line by line, for the report.
}

// Command returns the action of a command without standard input.
func Command(argv ...string) Action { return Action{Argv: argv} }

// Task is the undo of a fault on one node.
type Task struct {
	Node    clusters.Node
	Actions []Action
	// UntilBoot says that a boot of the node undoes it as well.
	UntilBoot bool
	// Power says that the node itself is brought back: no timer on the node could do that, so the watchdog does.
	Power bool
	// Longer is added to the life of the fault.
	Longer time.Duration
}

// OnControlPlane returns a task for each node of the control plane, where an undo reaches API objects.
func OnControlPlane(ctx context.Context, c clusters.Cluster, actions ...Action) ([]Task, error) {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var tasks []Task
	for _, n := range nodes {
		if n.Role() == clusters.RoleControlPlane {
			tasks = append(tasks, Task{Node: n, Actions: actions})
		}
	}
	if len(tasks) == 0 {
		return nil, errors.New("list nodes: none is of the control plane")
	}
	return tasks, nil
}

// Arm keeps the undo on the node and starts the timer that carries it out when life is over. An undo of the same owner
// that is armed already is replaced.
func Arm(ctx context.Context, task Task, owner Owner, life time.Duration) error {
	err := owner.Check()
	if err == nil {
		var actions []byte
		if actions, err = json.Marshal(task.Actions); err == nil {
			args := append([]string{"arm"}, owner.Flags()...)
			args = append(args, "--life", (life + task.Longer).String())
			if task.UntilBoot {
				args = append(args, "--until-boot")
			}
			err = nodeagent.On(task.Node).Call(ctx, nil, actions, args...)
		}
	}
	if err != nil {
		return fmt.Errorf("arm undo on node %q: %w", task.Node.Name(), err)
	}
	return nil
}

// Disarm stops the owner's timer and removes its undo. What is not there is no error.
func Disarm(ctx context.Context, node clusters.Node, owner Owner) error {
	if err := nodeagent.On(node).Call(ctx, nil, nil, append([]string{"disarm"}, owner.Flags()...)...); err != nil {
		return fmt.Errorf("disarm undo: %w", err)
	}
	return nil
}

// The time within which what is armed is carried out again after it has failed: an API server that does not answer, a
// Node that is not registered, or systemd on a node that is coming up.
const (
	healBound     = 45 * time.Second // By somebody who waits for it.
	carryOutBound = 20 * time.Second // Within the guard's bound of a heal.
)

// CarryOut carries out what the owner has armed on a node. Nothing armed is no error.
func CarryOut(ctx context.Context, node clusters.Node, owner Owner) error {
	return nodeagent.On(node).Call(ctx, &Report{}, nil,
		append([]string{"undo", "--bound", carryOutBound.String()}, owner.Flags()...)...)
}

// Node carries out what is armed on a node and returns what that was. It may run at any time, again, and beside
// itself. A node without the agent has nothing armed.
func Node(ctx context.Context, node clusters.Node, only Only) (Report, error) {
	report := Report{Undone: []string{}}
	there, err := installed(ctx, node)
	if err == nil && there {
		args := append([]string{"undo", "--bound", healBound.String()}, flagsOf(only)...)
		err = nodeagent.On(node).Call(ctx, &report, nil, args...)
	}
	report.Node = node.Name()
	return report, err
}

// Armed returns what is armed on a node, in the order of the owners' names. It undoes nothing.
func Armed(ctx context.Context, node clusters.Node, only Only) (armed []Record, err error) {
	there, err := installed(ctx, node)
	if err == nil && there {
		err = nodeagent.On(node).Call(ctx, &armed, nil, append([]string{"armed"}, flagsOf(only)...)...)
	}
	return armed, err
}

// installed reports whether the agent is on a node.
func installed(ctx context.Context, node clusters.Node) (bool, error) {
	_, err := clusters.Run(ctx, node, "test", "-x", nodeagent.Path)
	var exit *clusters.ExitError
	if errors.As(err, &exit) && exit.ExitCode == 1 {
		return false, nil
	}
	return err == nil, err
}

// Cluster heals all nodes at once: one that is stopped is started and one that is paused is thawed first, since a fault
// may have left it so. It goes on after an error, and returns all of them. The reports are in the order of the nodes.
//
// What it could not undo, because the API server does not answer, stays armed: the timers on the nodes undo it later.
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

// The states of a node in which nothing on it goes on.
const (
	Paused = "paused"
	Exited = "exited"
)

// BringBack starts a node that is down and thaws one that is paused, and says what it did. A node without power stays.
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
	case Exited:
		return "started", node.Start(ctx)
	case Paused:
		return "thawed", node.Unpause(ctx)
	}
	return "", nil
}
