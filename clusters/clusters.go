// Package clusters declares where a trial runs: the ports Provider, Cluster and Node, and optional abilities of a node.
// Providers are in its folders.
package clusters

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"time"
)

// SharedDir is a directory, on one file system, that all nodes of a cluster share. It is empty in a new cluster,
// survives reboots, and is deleted with the cluster. Mounts made below it are visible in one node only.
const SharedDir = "/var/lib/seatrial/shared"

// AgentPath is the agent's path on every node.
const AgentPath = "/usr/local/bin/seatrial-agent"

// The label of every API object that Seatrial makes, by which kubectl, stern and k9s find them.
const (
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedBy      = "seatrial"
)

// Spec is the cluster that a trial needs.
type Spec struct {
	Name              string
	Workers           int
	NodeImage         string // Reference of the node image, present in the engine.
	KubernetesVersion string // "v1.37.0".
	RunID             string // The run that makes it; a label, so that clean finds it after a crash.
	// Flags are flags of control plane components beside the provider's own, without dashes, by component:
	// "kube-apiserver". Kubelet are fields of the KubeletConfiguration of all nodes. Both can be nil.
	Flags   map[string]map[string]string
	Kubelet map[string]any
}

// Owned is a cluster as found in the engine, running or not.
type Owned struct {
	Name  string
	RunID string // Empty if Seatrial did not make it or that is unknown.
	Ours  bool
	Nodes []string // Empty if only leftovers on the host exist; Delete removes them too.
}

// Provider opens clusters.
type Provider interface {
	Name() string
	// Open returns a cluster that exists, or an error that wraps ErrNotFound.
	Open(ctx context.Context, name string) (Cluster, error)
}

// Maker is a provider that also makes, lists and deletes clusters. All methods may be called again after a crash.
type Maker interface {
	Provider
	// Create makes a cluster and returns when it is ready: nodes Ready, DNS answers, pods reach pods across nodes. If
	// ctx ends, it deletes what it made before it returns.
	Create(ctx context.Context, spec Spec) (Cluster, error)
	List(ctx context.Context) ([]Owned, error)
	// Delete removes a cluster, if it exists, and what it leaves on the host.
	Delete(ctx context.Context, name string) error
}

// Definition is a kind of provider.
type Definition struct {
	Name string
	// Capabilities returns what every cluster of the provider on this machine can do. It needs no engine and no
	// cluster.
	Capabilities func() Capabilities
	// New returns the provider. Engine is the name or path of a container engine's client.
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
}

// LinkedNode is a node that has addresses of which its provider does not know: a Node of a cluster with one address
// family does not tell the other, by which its kubelet may reach an API server all the same.
type LinkedNode interface {
	Node
	// LinkAddresses returns all addresses of the links that have one of Addresses. It asks the node.
	LinkAddresses(ctx context.Context) ([]netip.Addr, error)
}

// Stocker is a cluster that provides the programs of another Kubernetes version to its nodes.
type Stocker interface {
	Cluster
	// Stock copies kubeadm, kubelet and kubectl of a node image, and its container images as images.tar, into a
	// directory that every node sees, unless that was done before, and returns the directory.
	Stock(ctx context.Context, nodeImage string) (dir string, err error)
}

// LogExporter is a cluster that knows more of its nodes than they do themselves.
type LogExporter interface {
	Cluster
	// ExportLogs writes that below a directory, for each node in one of its name.
	ExportLogs(ctx context.Context, dir string) error
}

// Closer is a cluster that had to be changed to reach its nodes. Close undoes that; it may be called again.
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

// Command is a program to run on a node. No shell interprets Argv.
type Command struct {
	Argv   []string
	Stdin  io.Reader // Optional.
	Stdout io.Writer // Optional; Result.Stdout stays empty when set.
}

// Result is the outcome of a command that ended. Stderr holds its last 64 KiB.
type Result struct {
	Stdout   []byte
	Stderr   []byte
	ExitCode int
}

// Node is a machine of the cluster. Exec must not depend on what a fault may have cut, such as kubelet and pod network.
type Node interface {
	Name() string
	Role() Role
	// Addresses returns the node's current addresses, IPv4 first.
	Addresses(ctx context.Context) ([]netip.Addr, error)
	// Exec runs a command to its end. It returns an error if the command could not be run or was stopped because ctx
	// ended, and an *ExitError beside the Result if it exited non-zero.
	Exec(ctx context.Context, cmd Command) (Result, error)
	// Dial connects over TCP, from inside the node's network namespace, to an address that is an IP and a port: nothing
	// resolves names there.
	Dial(ctx context.Context, address string) (net.Conn, error)
}

// Rebooter is a node that can be rebooted.
type Rebooter interface {
	Node
	// Reboot stops the node in order, within grace, and starts it; it returns when it was started.
	Reboot(ctx context.Context, grace time.Duration) error
}

// Resetter is a node whose machine can be reset: nothing on it is told, and what is not on its disk is lost.
type Resetter interface {
	Node
	// Reset resets the machine, and returns when it has booted.
	Reset(ctx context.Context) error
}

// BoundedNode is a node whose agent holds a session to limits: it refuses what may do harm unless a fault was begun.
type BoundedNode interface {
	Node
	// BeginFault asks for leave to do harm for an owner until the undo of its fault is due, after life. It may be
	// called again. EndFault gives the leave back.
	BeginFault(ctx context.Context, owner, fault string, life time.Duration) error
	EndFault(ctx context.Context, owner string) error
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
	// Stop stops it and kills what is left after grace. Start starts a stopped one.
	Stop(ctx context.Context, grace time.Duration) error
	Start(ctx context.Context) error
	// Kill cuts the power: everything in it ends at once. Start brings it back.
	Kill(ctx context.Context) error
	// Pause freezes every process in it, Unpause thaws them. Both are idempotent.
	Pause(ctx context.Context) error
	Unpause(ctx context.Context) error
	// State is one of StateRunning, StatePaused and StateExited.
	State(ctx context.Context) (string, error)
}

// maxName leaves room for "-control-plane" in a host name of 64 characters.
const maxName = 50

// ValidateName returns an error for a name that a new cluster cannot have.
func ValidateName(name string) error {
	if len(name) > maxName || !regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`).MatchString(name) {
		return fmt.Errorf("%q is no name for a cluster; use up to %d of a-z, 0-9, dot and dash", name, maxName)
	}
	return nil
}

// ErrNotFound is wrapped by Open's error for a cluster that does not exist.
var ErrNotFound = fmt.Errorf("cluster not found")

// ExitError is the error for a command that exited non-zero.
type ExitError struct {
	Node     string
	Argv     []string
	ExitCode int
	Stderr   string
}

// Error names the node, the command, the exit code and the last line of standard error.
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

// Ask runs a command on a node and decodes its JSON output.
func Ask[T any](ctx context.Context, node Node, argv ...string) (answer T, err error) {
	out, err := Run(ctx, node, argv...)
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		return answer, fmt.Errorf("decode answer %.120q: %w", out, err)
	}
	return answer, nil
}
