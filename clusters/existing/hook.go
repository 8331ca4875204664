package existing

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/clusters"
)

// hook is a program of the user's that has power over nodes. It is called as HOOK VERB NODE, through no shell. The
// verbs are state, stop, kill, start, pause and unpause; state prints running, stopped or paused.
type hook string

const (
	// hookBound is how long a call may take, and how long the state may take after it to be what was asked for.
	hookBound = 45 * time.Second
	hookEvery = time.Second
	hookWait  = 2 * time.Second // For the output of a hook that was killed.
)

func (h hook) call(ctx context.Context, verb, node string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, hookBound, fmt.Errorf("it did not end within %s", hookBound))
	defer cancel()
	var out bytes.Buffer
	said := &clusters.Tail{Max: stderrCap}
	cmd := exec.CommandContext(ctx, string(h), verb, node)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, said, hookWait
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // A Ctrl-C must not end it: healing may need it.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("node hook %s %s %s: %w: %s", h, verb, node, err, bytes.TrimSpace(said.Data))
	}
	return strings.TrimSpace(out.String()), nil
}

func (h hook) state(ctx context.Context, node string) (string, error) {
	said, err := h.call(ctx, "state", node)
	switch said {
	case "running":
		return clusters.StateRunning, err
	case "paused":
		return clusters.StatePaused, err
	case "stopped":
		return clusters.StateExited, err
	}
	if err == nil {
		err = fmt.Errorf("node hook %s state %s: it printed %.80q; want running, stopped or paused", h, node, said)
	}
	return "", err
}

// powered is a node that the hook has power over.
type powered struct {
	*node
	hook hook
}

var _ clusters.PowerNode = powered{}

// HookedNode returns a node without a cluster, of which nothing may be called but what a hook does.
func HookedNode(program, name string) clusters.PowerNode {
	return powered{&node{name: name}, hook(program)}
}

// act calls the hook, and waits until it tells the state that was asked for. Whether that is so, the cluster must show.
func (p powered) act(ctx context.Context, verb, want string) error {
	if _, err := p.hook.call(ctx, verb, p.name); err != nil {
		return err
	}
	what := fmt.Sprintf("node hook %s to say that node %q is %s", p.hook, p.name, want)
	return await.Until(ctx, what, hookEvery, hookBound, func(ctx context.Context) (bool, string, error) {
		now, err := p.State(ctx)
		return now == want, "it says " + now, err
	})
}

func (p powered) State(ctx context.Context) (string, error) { return p.hook.state(ctx, p.name) }

// Stop has the hook shut the node down; how long that may take is the hook's to know.
func (p powered) Stop(ctx context.Context, _ time.Duration) error { return p.down(ctx, "stop") }

func (p powered) Kill(ctx context.Context) error { return p.down(ctx, "kill") }

func (p powered) down(ctx context.Context, verb string) error {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	return p.act(ctx, verb, clusters.StateExited)
}

func (p powered) Start(ctx context.Context) error { return p.act(ctx, "start", clusters.StateRunning) }

func (p powered) Pause(ctx context.Context) error { return p.act(ctx, "pause", clusters.StatePaused) }

func (p powered) Unpause(ctx context.Context) error {
	return p.act(ctx, "unpause", clusters.StateRunning)
}

// Reboot without grace is a loss of power, which nothing on the node can do.
func (p powered) Reboot(ctx context.Context, grace time.Duration) error {
	if grace > 0 {
		return p.node.Reboot(ctx, grace)
	}
	if err := p.Kill(ctx); err != nil {
		return err
	}
	return p.Start(ctx)
}

// EndFault gives the leave back. That of a node which was taken down ended with its boot, and its agent may not answer
// yet.
func (p powered) EndFault(ctx context.Context, owner string) error {
	p.mu.Lock()
	ended := p.ended
	p.ended = false
	p.mu.Unlock()
	if ended {
		return nil
	}
	return p.node.EndFault(ctx, owner)
}
