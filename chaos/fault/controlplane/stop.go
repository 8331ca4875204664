package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/heal"
	"github.com/seatrial/seatrial/chaos/mark"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/e2e/history"
)

// stopping completes the definition of a fault that takes a component away for a time.
func stopping(of component, d fault.Definition) fault.Definition {
	d.Shown = "No process and no running container of it is there, its health endpoint is silent, and " + lack(of) + "."
	d.Healed = "The manifest that bears our mark is put back, and the kubelet starts it; it tells that it is well, " +
		"requests to the API server are answered, and the leases that depend on it are renewed again and again."
	d.Needs = []string{"api", "static-pods", "systemd"}
	d.Takes = []plan.Part{of.part}
	d.New = func(spec plan.Fault, step int, env fault.Env) (fault.Fault, error) {
		s := &stop{victims: victims{env: env, of: of}, ward: newWard(spec, step, env)}
		return s, s.owner.Check()
	}
	return d
}

// downBound is the kubelet's few seconds until it looks, and 30 s that a container has to end.
const downBound = 45 * time.Second

// stop is the manifest of a component taken away.
type stop struct {
	victims
	ward
}

// Inject notes which processes there are, and takes the manifests away or replaces them, each at once for whoever reads
// it. What was there is kept first, with the owner's mark.
func (s *stop) Inject(ctx context.Context) error {
	if err := s.note(ctx); err != nil {
		return err
	}
	var errs []error
	for _, n := range s.nodes() {
		if s.of.mirrored {
			errs = append(errs, swap(ctx, n, s.owner, s.of.manifest(), idle))
			continue
		}
		errs = append(errs, takeAway(ctx, n, s.owner, s.of.manifest()))
	}
	return errors.Join(errs...)
}

// takeAway removes a manifest from a node, and keeps it under the owner's mark. The mark is either whole or not there.
func takeAway(ctx context.Context, node clusters.Node, owner mark.Owner, name string) error {
	kept, fresh := owner.Held(name), owner.Held(name+".new")
	for _, argv := range [][]string{
		{"mkdir", "-p", owner.Held("")},
		{"cp", "-p", heal.ManifestDir + name, fresh},
		{"mv", "-f", fresh, kept},
		{"rm", "-f", heal.ManifestDir + name},
	} {
		if _, err := clusters.Run(ctx, node, argv...); err != nil {
			return fmt.Errorf("take manifest %q away: %w", name, err)
		}
	}
	return nil
}

// Confirm shows that nothing of it is left, and that it is missed.
func (s *stop) Confirm(ctx context.Context) ([]fault.Fact, error) {
	var facts []fault.Fact
	err := await.Until(ctx, s.of.name+" to be gone, and its containers", 200*time.Millisecond, downBound,
		func(ctx context.Context) (bool, string, error) {
			seen, state, err := s.down(ctx)
			facts = seen
			return err == nil && state == "", state, err
		})
	if err != nil {
		return nil, err
	}
	quiet, err := s.quiet(ctx)
	if err != nil {
		return facts, err
	}
	missed, err := s.missed(ctx)
	return append(append(facts, quiet...), missed), err
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
func (s *stop) Held(ctx context.Context) ([]fault.Fact, error) {
	facts, state, err := s.down(ctx)
	if err == nil && state != "" {
		err = errors.New(state)
	}
	return facts, err
}

// ConfirmHealed shows that it is at work again.
func (s *stop) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) { return s.back(ctx) }
