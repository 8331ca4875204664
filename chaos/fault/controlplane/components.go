package controlplane

import (
	"context"
	"fmt"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// Components returns the faults of the four control-plane programs: each can be killed, frozen and stopped. The victims
// are the program's processes on all control-plane nodes, whichever node the plan names.
//
// The kill sends SIGKILL; the kubelet restarts the program.
//
// The freeze sends SIGSTOP: connections stay open and unanswered, which a client notices later than a refusal. The undo
// sends SIGCONT to the same process and to no later one.
//
// The stop atomically swaps the static pod manifest for that of a pause pod of the same name; the kubelet ends the
// program. The undo restores the manifest byte for byte.
//
// All show their effect on the processes. Freeze and stop also show that the health endpoint is silent at each address
// where it answered before, and that the program's work is not done: a request to the API server is not answered within
// 3 s, or the leader's lease is not renewed.
//
// All show at the end that the program, or a later process of it, reports healthy, that the API server answers, and
// that the dependent leases were renewed twice since.
func Components() []fault.Definition {
	const renewed = "the API server answers requests, and the leases that depend on it are renewed."
	var all []fault.Definition
	for _, c := range components() {
		missed := "its lease is not renewed."
		if c.serves {
			missed = "a request to the API server is not answered."
		}
		add := func(d fault.Definition, build func(victims) fault.Fault) {
			d.Needs, d.Takes = componentNeeds(), []plan.Part{c.part}
			all = append(all, fault.Plain(d, func(_ plan.Fault, env fault.Env) (fault.Fault, error) {
				return build(victims{Env: env, of: c}), nil
			}))
		}
		freezes := fault.Definition{
			Name:     c.prefix + "-freeze",
			Summary:  "Freezes " + c.title + " with SIGSTOP on every node of the control plane.",
			Shown:    "Its processes are stopped (state T), its health endpoint does not answer, and " + missed,
			Healed:   "Its processes get SIGCONT; it, or a later process of it, is healthy, " + renewed,
			Upstream: c.freeze,
			Longest:  freezeLongest,
		}
		if c.part == plan.PartEtcd {
			freezes.Needs, freezes.Takes = componentNeeds(), []plan.Part{c.part}
			all = append(all, etcdFreeze(freezes, c))
		} else {
			add(freezes, func(v victims) fault.Fault { return &freeze{v} })
		}
		add(fault.Definition{
			Name:     c.prefix + "-kill",
			Summary:  "Kills " + c.title + " with SIGKILL on every node of the control plane.",
			Shown:    "No process with an old pid and start time exists.",
			Healed:   "The kubelet restarts it: a later process is healthy, " + renewed,
			Upstream: c.kill,
		}, func(v victims) fault.Fault { return &kill{v} })
		add(fault.Definition{
			Name:     c.prefix + "-stop",
			Summary:  "Stops " + c.title + " for the hold through its manifest, on every node of the control plane.",
			Shown:    "It has no process and no running container, its health endpoint does not answer, and " + missed,
			Healed:   "The manifest is restored, and the kubelet starts it; it is healthy, " + renewed,
			Upstream: c.stop,
			Manifest: true,
		}, func(v victims) fault.Fault { return &stop{v} })
	}
	return all
}

func componentNeeds() []string { return []string{"api", "static-pods", "systemd"} }

const (
	goneBound = 20 * time.Second // A process in an uninterruptible disk wait ends after it.
	downBound = 45 * time.Second // A few seconds until the kubelet syncs, and 30 s of grace.
)

// kill sends SIGKILL to a component. It arms no undo: the kubelet restarts static pods.
type kill struct{ victims }

func (k *kill) Inject(ctx context.Context) error {
	if err := k.note(ctx); err != nil {
		return err
	}
	return fault.OnEach(k.nodes(), func(n clusters.Node) error {
		_, err := clusters.Run(ctx, n, undo.Signal("KILL", k.on(n)...)...)
		return err
	})
}

func (k *kill) Confirm(ctx context.Context) ([]fault.Fact, error) {
	begin := k.Clock()
	what := fmt.Sprintf("the killed %s to be gone", k.of.name)
	return fault.Until(ctx, what, 100*time.Millisecond, goneBound, func(ctx context.Context) ([]fault.Fact, error) {
		found, err := k.now(ctx)
		if err != nil {
			return nil, err
		}
		if p, there := k.among(found); there {
			return nil, fault.NotYet("%s is still there", p)
		}
		return k.each(history.Between(begin, k.Clock()), "is gone"), nil
	})
}

// Heal does nothing: the kubelet restarts the component.
func (k *kill) Heal(context.Context) error { return nil }

// freeze sends SIGSTOP to a component.
type freeze struct{ victims }

// Undo records the processes and continues them.
func (f *freeze) Undo(ctx context.Context) ([]undo.Task, error) {
	if err := f.note(ctx); err != nil {
		return nil, err
	}
	var tasks []undo.Task
	for _, n := range f.nodes() {
		tasks = append(tasks, undo.Task{Node: n, Actions: []undo.Action{undo.Thaw(f.on(n)...)}})
	}
	return tasks, nil
}

func (f *freeze) Inject(ctx context.Context) error {
	return fault.OnEach(f.nodes(), func(n clusters.Node) error {
		_, err := clusters.Run(ctx, n, undo.Signal("STOP", f.on(n)...)...)
		return err
	})
}

// Confirm shows that the processes are stopped, silent, and not doing their work.
func (f *freeze) Confirm(ctx context.Context) ([]fault.Fact, error) {
	return f.confirmed(ctx, f.of.name+" to be frozen", goneBound, f.frozen)
}

// frozen checks that the recorded processes exist and are stopped, and that there are no others.
func (f *freeze) frozen(ctx context.Context) ([]fault.Fact, error) {
	begin := f.Clock()
	found, err := f.now(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range found {
		if _, old := f.among([]victim{p}); !old {
			return nil, fault.NotYet("%s %s, a later one, runs", f.of.name, p)
		}
		if !p.Frozen() {
			return nil, fault.NotYet("%s %s is in state %q, want T", f.of.name, p, p.State)
		}
	}
	if n := len(f.old) - len(found); n > 0 {
		return nil, fault.NotYet("%d of the %d frozen processes of %s have ended", n, len(f.old), f.of.name)
	}
	return f.each(history.Between(begin, f.Clock()), "is frozen (state T)"), nil
}

func (f *freeze) Held(ctx context.Context) ([]fault.Fact, error) { return f.frozen(ctx) }

// stop swaps a component's static pod manifest for that of a pause pod.
type stop struct{ victims }

func (s *stop) Undo(ctx context.Context) ([]undo.Task, error) {
	if err := s.note(ctx); err != nil {
		return nil, err
	}
	return manifestsBack(ctx, s.nodes(), s.Owner, s.of.manifest())
}

// Inject replaces each manifest atomically.
//
// Removing it would not do: a kubelet that misses a pod's manifest asks the API server to delete the mirror pod.
// Without etcd that hangs for 34 s, in which the kubelet does not notice that the manifest is back (k/k pkg/kubelet,
// HandlePodCleanups).
func (s *stop) Inject(ctx context.Context) error {
	return fault.OnEach(s.nodes(), func(n clusters.Node) error {
		return swap(ctx, n, s.Owner, s.of.manifest(), pausePod)
	})
}

// Confirm shows that no process of it is left and its work is not done.
func (s *stop) Confirm(ctx context.Context) ([]fault.Fact, error) {
	return s.confirmed(ctx, s.of.name+" to be gone, and its containers", downBound, s.down)
}

// down checks that there is no process and no running container.
func (s *stop) down(ctx context.Context) (facts []fault.Fact, err error) {
	for _, n := range s.nodes() {
		begin := s.Clock()
		found, err := s.of.processes(ctx, n)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			return nil, fault.NotYet("%s %s runs", s.of.name, victim{n, found[0]})
		}
		running, err := s.of.containers(ctx, n)
		if err != nil {
			return nil, err
		}
		if len(running) > 0 {
			return nil, fault.NotYet("container %.12s of %s runs on node %q", running[0], s.of.name, n.Name())
		}
		facts = append(facts, s.Saw(begin, "no process and no running container of %s is on node %q", s.of.name,
			n.Name())...)
	}
	return facts, nil
}

func (s *stop) Held(ctx context.Context) ([]fault.Fact, error) { return s.down(ctx) }
