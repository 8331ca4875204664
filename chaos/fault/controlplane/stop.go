package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
)

// stopping completes the definition of a fault that takes a component away for a time.
func stopping(of component, d fault.Definition) fault.Definition {
	d.Shown = "No process and no running container of it is there, its health endpoint is silent, and " + lack(of) + "."
	d.Healed = "The manifest is put back, and the kubelet starts it; it tells that it is well, " +
		"requests to the API server are answered, and the leases that depend on it are renewed again and again."
	d.Needs = []string{"api", "static-pods", "systemd"}
	d.Takes = []plan.Part{of.part}
	d.New = func(_ plan.Fault, step int, env fault.Env) (fault.Fault, error) {
		s := &stop{victims: victims{env: env, of: of}, armed: newArmed(step, env)}
		return s, s.owner.Check()
	}
	return d
}

// downBound is the kubelet's few seconds until it looks, and 30 s that a container has to end.
const downBound = 45 * time.Second

// stop is the manifest of a component replaced by one of a pod that runs nothing.
type stop struct {
	victims
	armed
}

// Undo notes which processes there are, and has the manifests put back.
func (s *stop) Undo(ctx context.Context) ([]undo.Task, error) {
	if err := s.note(ctx); err != nil {
		return nil, err
	}
	return manifestsBack(ctx, s.nodes(), s.owner, s.of.manifest())
}

// Inject replaces the manifests, each at once for whoever reads it.
//
// None is taken away: a kubelet that finds no manifest of a pod asks the API server to delete its mirror pod. Without
// etcd that hangs, and until it gives up after 34 s the kubelet looks at no manifest, ours that comes back neither
// (k/k pkg/kubelet, HandlePodCleanups).
func (s *stop) Inject(ctx context.Context) error {
	var errs []error
	for _, n := range s.nodes() {
		errs = append(errs, swap(ctx, n, s.owner, s.of.manifest(), idle))
	}
	return errors.Join(errs...)
}

// Confirm shows that nothing of it is left, and that it is missed.
func (s *stop) Confirm(ctx context.Context) ([]fault.Fact, error) {
	return s.missing(ctx, s.of.name+" to be gone, and its containers", downBound, s.down)
}

// down looks once whether there is no process and no running container. A state that is not empty says which there is.
func (s *stop) down(ctx context.Context) (facts []fault.Fact, state string, err error) {
	for _, n := range s.nodes() {
		begin := s.env.Clock()
		found, err := s.of.processes(ctx, n)
		if err != nil {
			return nil, "", err
		}
		if len(found) > 0 {
			return nil, fmt.Sprintf("%s %s runs", s.of.name, victim{n, found[0]}), nil
		}
		running, err := s.of.containers(ctx, n)
		if err != nil {
			return nil, "", err
		}
		if len(running) > 0 {
			return nil, fmt.Sprintf("container %.12s of %s runs on node %q", running[0], s.of.name, n.Name()), nil
		}
		facts = append(facts, fault.Fact{Span: history.Between(begin, s.env.Clock()), Sentence: fmt.Sprintf(
			"no process and no running container of %s is on node %q", s.of.name, n.Name())})
	}
	return facts, "", nil
}

// Held shows that there still is none.
func (s *stop) Held(ctx context.Context) ([]fault.Fact, error) { return look(s.down).still(ctx) }

// ConfirmHealed shows that it is at work again.
func (s *stop) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) { return s.back(ctx) }
