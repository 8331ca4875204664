// Package clusters declares where a trial runs: the ports Provider, Cluster and Node, and what a node can do beyond
// running commands. Concrete providers are in its folders.
package clusters

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"
)

// SharedDir is a directory that all nodes of a cluster share: what one writes there the others see, on one file
// system and so by the same inodes. It begins empty with each cluster, outlives reboots, and goes with the cluster.
// Mounts made below it stay in the node that made them.
const SharedDir = "/var/lib/seatrial/shared"

// Spec is the cluster that a trial needs.
type Spec struct {
	Name              string
	Workers           int
	NodeImage         string // Reference of the node image, present in the engine.
	KubernetesVersion string // "v1.37.0".
	RunID             string // The run that makes it; kept as a label, so that clean finds it after a crash.
}

// Owned is a cluster as found in the engine, running or not.
type Owned struct {
	Name  string
	RunID string // Empty when it was not made by Seatrial, and when that is no longer known.
	Ours  bool
	Nodes []string // Empty when only what it leaves behind on the host is there; Delete removes that too.
}

// Provider opens clusters.
type Provider interface {
	Name() string
	// Open returns a cluster that exists, or an error that wraps ErrNotFound.
	Open(ctx context.Context, name string) (Cluster, error)
}

// Maker is a provider that makes, lists and deletes clusters too. All methods may be called again after a crash.
type Maker interface {
	Provider
	// Create makes a cluster and returns when it is shown to be ready: nodes Ready, DNS answers, pods reach pods
	// across nodes. When ctx ends, what was made is deleted before it returns.
	Create(ctx context.Context, spec Spec) (Cluster, error)
	List(ctx context.Context) ([]Owned, error)
	// Delete removes a cluster and what it leaves behind on the host; one that is not there is no error.
	Delete(ctx context.Context, name string) error
}

// Definition is a kind of provider.
type Definition struct {
	Name string
	// Capabilities returns what every cluster of the provider on this machine can do. No engine and no cluster need be
	// there.
	Capabilities func() Capabilities
	// New returns the provider, with the client of a container engine, by its name or path, where it needs one.
	New func(engine string, log *slog.Logger) (Provider, error)
}

// Cluster is a running cluster.
type Cluster interface {
	Name() string
	Capabilities() Capabilities
	// Kubeconfig returns a kubeconfig that works from the harness.
	Kubeconfig(ctx context.Context) ([]byte, error)
	// Nodes returns all nodes, control plane first, in the order of their names.
	Nodes(ctx context.Context) ([]Node, error)
	// CollectLogs writes the nodes' logs below dir in the layout of `kind export logs`.
	CollectLogs(ctx context.Context, dir string) error
}

// Stocker is a cluster whose nodes can be given the programs of another Kubernetes version.
type Stocker interface {
	Cluster
	// Stock puts kubeadm, kubelet and kubectl of a node image, and its container images as images.tar, into a directory
	// that every node sees, and returns that. A second time it returns at once.
	Stock(ctx context.Context, nodeImage string) (dir string, err error)
}

// Closer is a cluster in which something was put to reach its nodes. Close removes that; it may be called again.
type Closer interface {
	Cluster
	Close(ctx context.Context) error
}

// Role is what a node is for.
type Role string

// The roles of nodes.
const (
	RoleControlPlane Role = "control-plane"
	RoleWorker       Role = "worker"
)

// Command is a program to be run on a node. Argv is passed as it is: no shell reads it.
type Command struct {
	Argv   []string
	Stdin  io.Reader // Optional.
	Stdout io.Writer // Optional; Result.Stdout stays empty when set.
}

// Result is what a command that ran to its end left. Stderr is kept whole up to 64 KiB.
type Result struct {
	Stdout   []byte
	Stderr   []byte
	ExitCode int
}

// Node is a machine of the cluster that runs commands. Exec goes through the container runtime or a login, never
// through the kubelet or the network that a fault may have cut.
type Node interface {
	Name() string
	Role() Role
	// Addresses returns the node's current addresses, IPv4 first.
	Addresses(ctx context.Context) ([]netip.Addr, error)
	// Exec runs a command to its end. A command that could not be run, or was stopped because ctx ended, is an
	// error; one that ran and exited non-zero is an *ExitError beside the Result.
	Exec(ctx context.Context, cmd Command) (Result, error)
	// Dial connects from inside the node's network namespace.
	Dial(ctx context.Context, network, address string) (net.Conn, error)
}

// Rebooter is a node that boots again by itself when it is told to.
type Rebooter interface {
	Node
	// Reboot stops the node in an orderly way within grace and starts it again; it returns when it was started.
	Reboot(ctx context.Context, grace time.Duration) error
}

// The states of a PowerNode.
const (
	StateRunning = "running"
	StatePaused  = "paused"
	StateExited  = "exited"
)

// PowerNode is a node that can be stopped and started as a whole.
type PowerNode interface {
	Rebooter
	// Stop stops it, killing what is left after grace. Start starts a stopped one.
	Stop(ctx context.Context, grace time.Duration) error
	Start(ctx context.Context) error
	// Kill cuts the power: everything in it ends at once. Start brings it back.
	Kill(ctx context.Context) error
	// Pause freezes every process in it, Unpause thaws them. Both are no error when that is its state already.
	Pause(ctx context.Context) error
	Unpause(ctx context.Context) error
	// State is one of StateRunning, StatePaused and StateExited.
	State(ctx context.Context) (string, error)
}

// ErrNotFound is wrapped by Open for a cluster that does not exist.
var ErrNotFound = fmt.Errorf("cluster not found")

// ExitError is a command that ran and exited non-zero.
type ExitError struct {
	Node     string
	Argv     []string
	ExitCode int
	Stderr   string
}

// Error names the node, the command, the exit code and the last line the command said.
func (e *ExitError) Error() string {
	lines := strings.Split(strings.TrimSpace(e.Stderr), "\n")
	return fmt.Sprintf("run %q on node %q: exit code %d: %s",
		strings.Join(e.Argv, " "), e.Node, e.ExitCode, lines[len(lines)-1])
}

// Run runs argv on node and returns its standard output.
func Run(ctx context.Context, node Node, argv ...string) (string, error) {
	res, err := node.Exec(ctx, Command{Argv: argv})
	return string(res.Stdout), err
}
