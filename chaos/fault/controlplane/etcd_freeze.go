package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// etcdFreezeParams are the parameters of etcd-freeze.
type etcdFreezeParams struct {
	// Upgraded freezes the etcd that replaces the present one, once it has raised the version of the data
	// (etcd_cluster_version). It has written then what the former one does not read.
	Upgraded bool `json:"upgraded,omitempty"`
}

// Validate also holds the freeze of a working etcd to a minute.
func (p etcdFreezeParams) Validate(s plan.Setting) (errs plan.FieldErrors) {
	if hold := s.Fault.Hold.D(); !p.Upgraded && hold > freezeLongest {
		errs.Add("hold", fmt.Sprintf("use at most %s, or set upgraded", freezeLongest),
			"the kubelet ends a frozen etcd before %s are over", hold)
	}
	return errs
}

// Waits is how long kubeadm and etcd may take until there is what is to be frozen.
func (p etcdFreezeParams) Waits() time.Duration {
	if p.Upgraded {
		return replacedBound + raisedBound
	}
	return 0
}

// etcdFreeze completes the definition of etcd-freeze.
func etcdFreeze(d fault.Definition, of component) fault.Definition {
	d.Summary += " With upgraded, it freezes the etcd that comes up next and raises the version of its data; until " +
		"then the kube-apiserver is frozen too, so that it never works with that etcd."
	d.Longest = startingLongest
	return fault.Define(d, func(p etcdFreezeParams, _ plan.Fault, env fault.Env) (fault.Fault, error) {
		etcd := freeze{victims{Env: env, of: of}}
		if !p.Upgraded {
			return &etcd, nil
		}
		return &freezeUpgraded{freeze: etcd, api: freeze{victims{Env: env, of: components()[0]}}}, nil
	})
}

const (
	// freezeLongest is a safe hold: the kubelet kills a container after 8 failed liveness probes, 10 s to 15 s each.
	freezeLongest = time.Minute
	// startingLongest is the same for an etcd that has just started: 24 failed startup probes.
	startingLongest = 4 * time.Minute
	// replacedBound is how long kubeadm may take until it replaces etcd: preflight checks and a copy of the data.
	replacedBound = 6 * time.Minute
	// raisedBound is from the end of the former etcd until the new one has raised the version. The kubelet loses 34 s
	// with requests about the mirror pod that nobody answers.
	raisedBound   = 100 * time.Second
	replacedEvery = 100 * time.Millisecond
)

// freezeUpgraded freezes the etcd that replaces the present one.
type freezeUpgraded struct {
	freeze
	api     freeze // The kube-apiserver.
	version string // Of the data before, as etcd's metric has it.
}

// Undo records etcd and the API server, and continues them. Inject arms it again for the new etcd.
func (f *freezeUpgraded) Undo(ctx context.Context) (_ []undo.Task, err error) {
	if err := errors.Join(f.note(ctx), f.api.note(ctx)); err != nil {
		return nil, err
	}
	if f.version, err = f.dataVersion(ctx); err == nil && f.version == "" {
		err = errors.New("etcd does not tell the version of its data, so that it was raised could not be shown")
	}
	return f.thaws(), err
}

// thaws continues what may be frozen.
func (f *freezeUpgraded) thaws() []undo.Task {
	var tasks []undo.Task
	for _, n := range f.api.nodes() {
		all := append(f.api.on(n), f.on(n)...)
		tasks = append(tasks, undo.Task{Node: n, Actions: []undo.Action{undo.Thaw(all...)}})
	}
	return tasks
}

// dataVersion returns the metric of the version of etcd's data, "" if it does not answer.
func (f *freezeUpgraded) dataVersion(ctx context.Context) (string, error) {
	out, err := clusters.Run(ctx, f.api.old[0].node, "curl", "--silent", "--max-time", "2",
		"http://127.0.0.1:2381/metrics")
	var exit *clusters.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", fmt.Errorf("ask etcd for the version of its data: %w", err)
	}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "etcd_cluster_version{") && strings.HasSuffix(line, " 1\n") {
			return strings.TrimSpace(line), nil
		}
	}
	return "", nil
}

// Inject waits until etcd has ended, freezes the API server, waits until the next etcd has raised the version, freezes
// that, and continues the API server.
func (f *freezeUpgraded) Inject(ctx context.Context) error {
	_, err := fault.Until(ctx, "etcd to be replaced", replacedEvery, replacedBound, f.replaced)
	if err != nil {
		return err
	}
	if err := f.api.Inject(ctx); err != nil {
		return err
	}
	_, err = fault.Until(ctx, "the new etcd to raise the version of its data", replacedEvery, raisedBound, f.raised)
	if err != nil {
		return err
	}
	for _, t := range f.thaws() { // With the new etcd.
		if err := undo.Arm(ctx, t, f.Owner, f.Life); err != nil {
			return err
		}
	}
	if err := f.freeze.Inject(ctx); err != nil {
		return err
	}
	for _, n := range f.api.nodes() {
		if _, err := clusters.Run(ctx, n, undo.Thaw(f.api.on(n)...).Argv...); err != nil {
			return err
		}
	}
	return nil
}

// replaced checks that none of the former processes of etcd is left.
func (f *freezeUpgraded) replaced(ctx context.Context) ([]fault.Fact, error) {
	found, err := f.now(ctx)
	if p, there := f.among(found); err == nil && there {
		err = fault.NotYet("%s is still there", p)
	}
	return nil, err
}

// raised checks that etcd runs with another version of its data, and takes its processes for the victims.
func (f *freezeUpgraded) raised(ctx context.Context) ([]fault.Fact, error) {
	found, err := f.now(ctx)
	if err != nil {
		return nil, err
	}
	version, err := f.dataVersion(ctx)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0 || version == "":
		return nil, fault.NotYet("no etcd answers")
	case version == f.version:
		return nil, fault.NotYet("it is %s", version)
	}
	f.old = found
	return nil, nil
}

// Confirm also names the version of the data before.
func (f *freezeUpgraded) Confirm(ctx context.Context) ([]fault.Fact, error) {
	begin := f.Clock()
	facts, err := f.freeze.Confirm(ctx)
	return append(facts, f.Saw(begin, "before, etcd's data had %s", f.version)...), err
}

// Held checks that it is frozen. kubeadm may have had it ended meanwhile.
func (f *freezeUpgraded) Held(ctx context.Context) ([]fault.Fact, error) {
	begin := f.Clock()
	found, err := f.now(ctx)
	if err != nil {
		return nil, err
	}
	if _, there := f.among(found); !there {
		return f.Saw(begin, "the frozen etcd has ended"), nil
	}
	return f.frozen(ctx)
}

// ConfirmHealed shows that nothing is frozen. Whether etcd works is for a check to say: kubeadm may have put the former
// one back, which does not read what the frozen one has written.
func (f *freezeUpgraded) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	return fault.Until(ctx, "no etcd and no kube-apiserver to be frozen", lookEvery/2, goneBound,
		func(ctx context.Context) ([]fault.Fact, error) {
			begin := f.Clock()
			etcd, err := f.now(ctx)
			api, apiErr := f.api.now(ctx)
			if err := errors.Join(err, apiErr); err != nil {
				return nil, err
			}
			for _, p := range append(etcd, api...) {
				if p.Frozen() {
					return nil, fault.NotYet("%s is frozen", p)
				}
			}
			return f.Saw(begin, "no process of etcd and of the kube-apiserver is frozen"), nil
		})
}
