package undo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seatrial/seatrial/clusters"
)

// notLoaded is how systemctl exits for a unit that is not there (LSB: program is not installed).
const notLoaded = 5

// Arm makes the node heal what the owner left after life, to a tenth of a second, and looks that the timer runs. A
// timer that is armed already is replaced.
func Arm(ctx context.Context, node clusters.Node, owner Owner, life time.Duration) error {
	if err := owner.Check(); err != nil {
		return fmt.Errorf("arm dead-man timer on node %q: %w", node.Name(), err)
	}
	if err := Disarm(ctx, node, owner); err != nil {
		return err
	}
	_, err := clusters.Run(ctx, node, "systemd-run",
		"--quiet",
		"--collect", // A heal that failed must not keep the name of the unit.
		"--unit="+owner.Unit(),
		"--on-active="+strconv.FormatFloat(life.Seconds(), 'f', -1, 64)+"s",
		"--timer-property=AccuracySec=1ms", // The default is a minute.
		AgentPath, "heal", "--run", owner.Run, "--step", strconv.Itoa(owner.Step))
	if err != nil {
		return fmt.Errorf("arm dead-man timer on node %q: %w", node.Name(), err)
	}
	state, err := clusters.Run(ctx, node, "systemctl", "is-active", owner.Timer())
	if err != nil {
		return fmt.Errorf("arm dead-man timer on node %q: state %q: %w", node.Name(), strings.TrimSpace(state), err)
	}
	return nil
}

// Disarm stops the owner's timer. One that is not there is no error.
func Disarm(ctx context.Context, node clusters.Node, owner Owner) error {
	_, err := clusters.Run(ctx, node, "systemctl", "stop", owner.Timer())
	var exit *clusters.ExitError
	if errors.As(err, &exit) && exit.ExitCode == notLoaded {
		return nil
	}
	if err != nil {
		return fmt.Errorf("disarm dead-man timer on node %q: %w", node.Name(), err)
	}
	return nil
}

// ArmControlPlane arms on every node of the control plane: a heal there reaches API objects as well.
func ArmControlPlane(ctx context.Context, c clusters.Cluster, owner Owner, life time.Duration) error {
	return onControlPlane(ctx, c, func(n clusters.Node) error { return Arm(ctx, n, owner, life) })
}

// DisarmControlPlane stops what ArmControlPlane has armed.
func DisarmControlPlane(ctx context.Context, c clusters.Cluster, owner Owner) error {
	return onControlPlane(ctx, c, func(n clusters.Node) error { return Disarm(ctx, n, owner) })
}

// onControlPlane does something on every node of the control plane, and goes on after an error.
func onControlPlane(ctx context.Context, c clusters.Cluster, do func(clusters.Node) error) error {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	var errs []error
	none := true
	for _, n := range nodes {
		if n.Role() == clusters.RoleControlPlane {
			none = false
			errs = append(errs, do(n))
		}
	}
	if none {
		return errors.New("list nodes: none is of the control plane")
	}
	return errors.Join(errs...)
}
