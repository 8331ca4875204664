package fault

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// Env is what a fault works with.
type Env struct {
	Cluster   clusters.Cluster
	Kube      kubernetes.Interface
	Node      clusters.Node // The victim.
	Pod       string        // The pod by which the victim was chosen, for example "mysql-1".
	Namespace string        // The workload's namespace.
	Container string        // The workload's container in its pods; "" is the first.
	Peer      string        // The pod on the other side, for faults between two pods.
	PeerNode  clusters.Node // Its node; nil for other faults.
	RunID     string        // Owner mark of everything the fault leaves on a node.
	Watchdog  undo.Watchdog // Undoes what no node can; nil when there is none.
	Clock     func() history.Time
	Log       *slog.Logger

	// Set by Definition.New.
	Owner undo.Owner    // Marks what the fault leaves.
	Life  time.Duration // How long the effect may last without a heal.
}

// CarryOut carries out the undo that the fault armed on the given nodes, or on the victim if none is given.
func (e Env) CarryOut(ctx context.Context, nodes ...clusters.Node) error {
	if len(nodes) == 0 {
		nodes = []clusters.Node{e.Node}
	}
	return OnEach(nodes, func(n clusters.Node) error { return undo.CarryOut(ctx, n, e.Owner) })
}

// OnEach calls do for every node and returns all errors.
func OnEach(nodes []clusters.Node, do func(clusters.Node) error) error {
	var errs []error
	for _, n := range nodes {
		errs = append(errs, do(n))
	}
	return errors.Join(errs...)
}

// Heal carries out the undo that the fault armed on the victim, which heals most faults.
func (e Env) Heal(ctx context.Context) error { return e.CarryOut(ctx) }

// CarryOutOnControlPlane carries out the undo that the fault armed on the control-plane nodes. It does not need the API
// server.
func (e Env) CarryOutOnControlPlane(ctx context.Context) error {
	nodes, err := e.ControlPlane(ctx)
	if err != nil {
		return err
	}
	return e.CarryOut(ctx, nodes...)
}

// OnControlPlane returns the undo that runs actions on each control-plane node, where kubectl reaches the API.
func (e Env) OnControlPlane(ctx context.Context, actions ...undo.Action) ([]undo.Task, error) {
	nodes, err := e.ControlPlane(ctx)
	var tasks []undo.Task
	for _, n := range nodes {
		tasks = append(tasks, undo.Task{Node: n, Actions: actions})
	}
	return tasks, err
}

// Here returns the undo that runs actions on the victim.
func (e Env) Here(actions ...undo.Action) []undo.Task {
	return []undo.Task{{Node: e.Node, Actions: actions}}
}

// ErrNoControlPlane is the error of a cluster whose control plane is on none of its nodes.
var ErrNoControlPlane = errors.New("list nodes: none is of the control plane")

// ControlPlane returns the control-plane nodes, or ErrNoControlPlane.
func (e Env) ControlPlane(ctx context.Context) ([]clusters.Node, error) {
	nodes, err := e.nodes(ctx, func(n clusters.Node) bool { return n.Role() == clusters.RoleControlPlane })
	if err == nil && len(nodes) == 0 {
		err = ErrNoControlPlane
	}
	return nodes, err
}

// Others returns all nodes but the victim.
func (e Env) Others(ctx context.Context) ([]clusters.Node, error) {
	return e.nodes(ctx, func(n clusters.Node) bool { return n.Name() != e.Node.Name() })
}

// Power returns the victim as a node that can be stopped and started.
func (e Env) Power() (clusters.PowerNode, error) {
	node, ok := e.Node.(clusters.PowerNode)
	if !ok {
		return nil, fmt.Errorf("node %q cannot be switched off: its provider has no power over it", e.Node.Name())
	}
	return node, nil
}

func (e Env) nodes(ctx context.Context, keep func(clusters.Node) bool) ([]clusters.Node, error) {
	all, err := e.Cluster.Nodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return slices.DeleteFunc(slices.Clone(all), func(n clusters.Node) bool { return !keep(n) }), nil
}

// Show returns facts. It checks once or waits; a check whose outcome may still change returns NotYet.
type Show = func(ctx context.Context) ([]Fact, error)

// NotYet returns the error of a check that found another state than the wanted one; the text names that state.
func NotYet(format string, args ...any) error { return stateError(fmt.Sprintf(format, args...)) }

// IsNotYet reports whether an error is of NotYet, or of a wait in which that was seen last.
func IsNotYet(err error) bool {
	var state stateError
	return errors.As(err, &state)
}

type stateError string

func (e stateError) Error() string { return string(e) }

// Seen returns one fact.
func Seen(span history.Span, format string, args ...any) []Fact {
	return []Fact{{Span: span, Sentence: fmt.Sprintf(format, args...)}}
}

// Saw returns one fact, seen between begin and now.
func (e Env) Saw(begin history.Time, format string, args ...any) []Fact {
	return Seen(history.Between(begin, e.Clock()), format, args...)
}

// Until repeats the checks in order until none returns an error, and returns the facts of the last round.
func Until(ctx context.Context, what string, every, bound time.Duration, looks ...Show) (facts []Fact, err error) {
	notYet := false
	err = await.Until(ctx, what, every, bound, func(ctx context.Context) (bool, string, error) {
		var looked error
		facts, looked = All(ctx, looks...)
		if IsNotYet(looked) {
			notYet = true
			return false, looked.Error(), nil
		}
		notYet = notYet && ctx.Err() != nil // A look that was cut short saw nothing.
		return looked == nil, "", looked
	})
	if err != nil && notYet {
		err = fmt.Errorf("%w%w", err, stateError("")) // It adds nothing to the text.
	}
	return facts, err
}

// Await is Until as a step of All.
func Await(what string, every, bound time.Duration, looks ...Show) Show {
	return func(ctx context.Context) ([]Fact, error) { return Until(ctx, what, every, bound, looks...) }
}

// All runs checks in order up to the first error, and returns all facts.
func All(ctx context.Context, shows ...Show) ([]Fact, error) {
	var facts []Fact
	for _, show := range shows {
		seen, err := show(ctx)
		facts = append(facts, seen...)
		if err != nil {
			return facts, err
		}
	}
	return facts, nil
}

// Judged returns a check that reads a value and has judge turn it into a sentence or an error such as NotYet.
func Judged[T any](env Env, read func(context.Context) (T, error), judge func(T) (string, error)) Show {
	return func(ctx context.Context) ([]Fact, error) {
		begin := env.Clock()
		now, err := read(ctx)
		if err != nil {
			return nil, err
		}
		sentence, err := judge(now)
		if err != nil {
			return nil, err
		}
		return env.Saw(begin, "%s", sentence), nil
	}
}

// Optional returns nil without an error for an object that does not exist. What names the object in errors.
func Optional[T any](what string, object *T, err error) (*T, error) {
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get %s: %w", what, err)
	}
	return object, nil
}
