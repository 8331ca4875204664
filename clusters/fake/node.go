package fake

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/clusters"
)

// Node is a node in memory. It is a clusters.PowerNode and safe for concurrent use.
type Node struct {
	name       string
	role       clusters.Role
	transcript *Transcript

	mu        sync.Mutex
	state     string
	boots     int
	addresses []netip.Addr
	execs     []*script
	powers    []*script
}

// NewNode returns a running node that has been booted once. Acts go to the transcript, which may be nil.
func NewNode(name string, role clusters.Role, transcript *Transcript, addresses ...netip.Addr) *Node {
	if transcript == nil {
		transcript = &Transcript{}
	}
	return &Node{
		name: name, role: role, transcript: transcript, state: clusters.StateRunning, boots: 1, addresses: addresses,
	}
}

// On scripts the answers to commands of a pattern, in which "*" stands for any one argument and a last "..." for any
// rest. The answers are given one after the other, the last one ever again; without any, the command succeeds and
// says nothing. The script that was added last is asked first.
func (n *Node) On(pattern []string, replies ...Reply) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.execs = set(n.execs, pattern, replies)
}

// OnPower scripts a power act: "reboot", "reset", "stop", "start", "kill", "pause", "unpause" or "state". Without a
// script it succeeds.
func (n *Node) OnPower(act string, replies ...Reply) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.powers = set(n.powers, []string{act}, replies)
}

// Boots returns how often the node was started.
func (n *Node) Boots() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.boots
}

// WithoutPower returns the node as one that runs commands and can do nothing more.
func (n *Node) WithoutPower() clusters.Node {
	return struct{ clusters.Node }{n}
}

// Name returns the node's name.
func (n *Node) Name() string { return n.name }

// Role returns the node's role.
func (n *Node) Role() clusters.Role { return n.role }

// Addresses returns the addresses it was given, and an error when it does not run.
func (n *Node) Addresses(ctx context.Context) ([]netip.Addr, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("get addresses of node %q: %w", n.name, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state == clusters.StateExited {
		return nil, fmt.Errorf("get addresses of node %q: its state is %s", n.name, n.state)
	}
	return slices.Clone(n.addresses), nil
}

// Exec records the command, with all of its standard input, and does what was scripted.
func (n *Node) Exec(ctx context.Context, cmd clusters.Command) (clusters.Result, error) {
	what := fmt.Sprintf("run %q on node %q", cmd.Argv, n.name)
	if err := ctx.Err(); err != nil {
		return clusters.Result{}, fmt.Errorf("%s: %w", what, err)
	}
	var stdin []byte
	if cmd.Stdin != nil {
		var err error
		if stdin, err = io.ReadAll(cmd.Stdin); err != nil {
			return clusters.Result{}, fmt.Errorf("%s: read standard input: %w", what, err)
		}
	}
	before, after := n.transcript.record(Act{n.name, "exec", slices.Clone(cmd.Argv), string(stdin)})
	if before != nil {
		return clusters.Result{}, fmt.Errorf("%s: %w", what, before)
	}
	reply, state, ok := n.scripted(&n.execs, cmd.Argv)
	if state != clusters.StateRunning {
		return clusters.Result{}, fmt.Errorf("%s: the node's state is %s", what, state)
	}
	if !ok {
		return clusters.Result{}, fmt.Errorf("%s: no answer is scripted for it", what)
	}
	if err := reply.before(ctx, what); err != nil {
		return clusters.Result{}, err
	}
	res, err := reply.answer(ctx, n.name, cmd, string(stdin))
	if after != nil {
		return clusters.Result{}, fmt.Errorf("%s: %w", what, after)
	}
	return res, err
}

// scripted takes the next answer off a list of scripts, and tells the node's state.
func (n *Node) scripted(list *[]*script, argv []string) (Reply, string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.IndexFunc(*list, func(s *script) bool { return match(s.pattern, argv) })
	if i < 0 || n.state != clusters.StateRunning && list != &n.powers {
		return Reply{}, n.state, i >= 0
	}
	return (*list)[i].next(), n.state, true
}

// Dial records the connection and refuses it.
func (n *Node) Dial(ctx context.Context, address string) (net.Conn, error) {
	what := fmt.Sprintf("dial tcp %s from node %q", address, n.name)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	before, after := n.transcript.record(Act{n.name, "dial", []string{"tcp", address}, ""})
	if err := cmp.Or(before, after); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return nil, fmt.Errorf("%s: %w", what, unix.ECONNREFUSED)
}

// Reboot stops and starts the node.
func (n *Node) Reboot(ctx context.Context, grace time.Duration) error {
	return n.power(ctx, "reboot", []string{grace.String()}, n.boot)
}

// Reset stops and starts the node at once.
func (n *Node) Reset(ctx context.Context) error {
	return n.power(ctx, "reset", nil, n.boot)
}

func (n *Node) boot() { n.state, n.boots = clusters.StateRunning, n.boots+1 }

// Stop stops the node.
func (n *Node) Stop(ctx context.Context, grace time.Duration) error {
	return n.power(ctx, "stop", []string{grace.String()}, func() { n.state = clusters.StateExited })
}

// Start starts the node when it is stopped.
func (n *Node) Start(ctx context.Context) error {
	return n.power(ctx, "start", nil, func() {
		if n.state == clusters.StateExited {
			n.boot()
		}
	})
}

// Kill stops the node at once.
func (n *Node) Kill(ctx context.Context) error {
	return n.power(ctx, "kill", nil, func() { n.state = clusters.StateExited })
}

// Pause freezes the node.
func (n *Node) Pause(ctx context.Context) error {
	return n.power(ctx, "pause", nil, func() {
		if n.state == clusters.StateRunning {
			n.state = clusters.StatePaused
		}
	})
}

// Unpause thaws the node.
func (n *Node) Unpause(ctx context.Context) error {
	return n.power(ctx, "unpause", nil, func() {
		if n.state == clusters.StatePaused {
			n.state = clusters.StateRunning
		}
	})
}

// BringBack starts or thaws the node as somebody beside the harness does it: it is not recorded, and no crash of the
// harness keeps it from happening.
func (n *Node) BringBack() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state == clusters.StateExited {
		n.boots++
	}
	n.state = clusters.StateRunning
}

// State returns the node's state. It is not recorded, since callers ask it in a loop.
func (n *Node) State(ctx context.Context) (string, error) {
	what := fmt.Sprintf("get state of node %q", n.name)
	reply, state, _ := n.scripted(&n.powers, []string{"state"})
	if err := reply.before(ctx, what); err != nil {
		return "", err
	}
	if reply.Err != nil {
		return "", fmt.Errorf("%s: %w", what, reply.Err)
	}
	return state, nil
}

// power records an act and carries it out as scripted.
func (n *Node) power(ctx context.Context, act string, argv []string, do func()) error {
	what := fmt.Sprintf("%s node %q", act, n.name)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	before, after := n.transcript.record(Act{n.name, act, argv, ""})
	if before != nil {
		return fmt.Errorf("%s: %w", what, before)
	}
	reply, _, _ := n.scripted(&n.powers, []string{act})
	if err := reply.before(ctx, what); err != nil {
		return err
	}
	if reply.Err == nil {
		n.mu.Lock()
		do()
		n.mu.Unlock()
	}
	if err := cmp.Or(reply.Err, after); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
