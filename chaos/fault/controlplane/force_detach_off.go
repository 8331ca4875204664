package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// ForceDetachOff returns what is no hurt but a setting that is held for a time: the attach/detach controller no longer
// detaches volumes by force after six minutes.
//
// What: the static pod manifest of the kube-controller-manager gets the flag --disable-force-detach-on-timeout=true, on
// every node of the control plane.
//
// Shown: every kube-controller-manager that runs has the flag in its command line, and the lease of the leader is
// renewed after that was seen: it leads.
//
// Healed: the file is put back. Every kube-controller-manager runs without the flag, and the lease
// of the leader is renewed after that was seen. A timer on each node puts it back when nobody heals it.
func ForceDetachOff() fault.Definition {
	return fault.Definition{
		Name:    "force-detach-off",
		Summary: "Runs the kube-controller-manager with " + flagSet + " for a time, whatever the victim.",
		Shown: "Every kube-controller-manager that runs has the flag in its command line, and the leader's lease is " +
			"renewed after that.",
		Healed: "The manifest is put back; it runs without the flag, and the leader's lease is " +
			"renewed after that.",
		Needs: []string{"api", "systemd"},
		// Without the flag, a volume is detached while a node that is not Ready has it mounted.
		Takes:    []plan.Part{plan.PartManager},
		Upstream: "k/k#120328",
		New: func(_ plan.Fault, step int, env fault.Env) (fault.Fault, error) {
			f := &forceDetachOff{env: env, armed: newArmed(step, env)}
			return f, f.owner.Check()
		},
	}
}

const (
	flag         = "--disable-force-detach-on-timeout"
	flagSet      = flag + "=true"
	managerFile  = manager + ".yaml"
	lookEvery    = 2 * time.Second  // The leader renews its lease as often.
	restartBound = 55 * time.Second // The kubelet's few seconds, and 15 s until the lease of the one before is over.
	healedBound  = 2 * time.Minute  // The same, on a machine that is as busy as after a fault.
)

type forceDetachOff struct {
	env fault.Env
	armed
	foreign bool // Somebody else had set the flag before.
}

// Undo has the manifests put back.
func (f *forceDetachOff) Undo(ctx context.Context) ([]undo.Task, error) {
	nodes, err := controlNodes(ctx, f.env)
	if err != nil {
		return nil, err
	}
	return manifestsBack(ctx, nodes, f.owner, managerFile)
}

// Inject changes the manifests.
func (f *forceDetachOff) Inject(ctx context.Context) error {
	err := eachControlNode(ctx, f.env, func(n clusters.Node) error {
		return swap(ctx, n, f.owner, managerFile, func(manifest []byte) ([]byte, error) {
			return withFlag(manifest)
		})
	})
	f.foreign = errors.Is(err, errSet)
	return err
}

// Confirm shows that it runs with the flag, and leads.
func (f *forceDetachOff) Confirm(ctx context.Context) ([]fault.Fact, error) {
	return f.leads(ctx, true, restartBound)
}

// Held shows that it still runs with the flag.
func (f *forceDetachOff) Held(ctx context.Context) ([]fault.Fact, error) {
	begin := f.env.Clock()
	seen, state, err := f.look(ctx, true)
	if err == nil && state != "" {
		err = errors.New(state)
	}
	if err != nil {
		return nil, err
	}
	return facts(seen, history.Between(begin, f.env.Clock()), true), nil
}

// ConfirmHealed shows that it runs without the flag, and leads. A flag that others had set stays.
func (f *forceDetachOff) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	return f.leads(ctx, f.foreign, healedBound)
}

// look returns the kube-controller-managers of all nodes if each node has one and all of them run with the flag, or
// without it. A state that is not empty says what is not as wanted.
func (f *forceDetachOff) look(ctx context.Context, want bool) (seen []process, state string, err error) {
	nodes, err := controlNodes(ctx, f.env)
	if err != nil {
		return nil, "", err
	}
	for _, n := range nodes {
		found, err := managers(ctx, n)
		if err != nil {
			return nil, "", err
		}
		if len(found) == 0 {
			return nil, fmt.Sprintf("no %s runs on node %q", manager, n.Name()), nil
		}
		for _, p := range found {
			if slices.Contains(p.argv, flagSet) != want {
				return nil, sentence(p, !want), nil
			}
		}
		seen = append(seen, found...)
	}
	return seen, "", nil
}

// leads waits until all run as wanted, and until the leader's lease is renewed while they do. One that was to end and
// renewed for the last time is told from those that came after: the lease is first read when none but those is there.
func (f *forceDetachOff) leads(ctx context.Context, want bool, bound time.Duration) ([]fault.Fact, error) {
	var shown []fault.Fact
	var seen []process
	var first leadership
	var since history.Time
	what := fmt.Sprintf("%s to run with the flag: %t, and to lead", manager, want)
	err := await.Until(ctx, what, lookEvery, bound, func(ctx context.Context) (bool, string, error) {
		begin := f.env.Clock()
		now, state, err := f.look(ctx, want)
		if err != nil || state != "" {
			seen = nil
			return false, state, err
		}
		lease, err := readLeadership(ctx, f.env.Kube, manager)
		if err != nil {
			return false, "", err
		}
		if !slices.EqualFunc(seen, now, func(a, b process) bool { return a.node == b.node && a.pid == b.pid }) {
			seen, first, since = now, lease, begin
		}
		if lease.renewed.Equal(first.renewed) {
			state = fmt.Sprintf("%s; the lease of %q is not renewed yet", sentence(now[0], want), lease.holder)
			return false, state, nil
		}
		end := f.env.Clock()
		shown = append(facts(now, history.Between(begin, end), want), fault.Fact{
			Span:     history.Between(since, end),
			Sentence: fmt.Sprintf("the lease %s/%s was renewed by %q", managerNamespace, manager, lease.holder),
		})
		return true, "", nil
	})
	return shown, err
}

func facts(seen []process, span history.Span, with bool) []fault.Fact {
	out := make([]fault.Fact, len(seen))
	for i, p := range seen {
		out[i] = fault.Fact{Span: span, Sentence: sentence(p, with)}
	}
	return out
}

func sentence(p process, with bool) string {
	how := "without " + flag
	if with {
		how = "with " + flagSet
	}
	return fmt.Sprintf("%s pid %s on node %q runs %s", manager, p.pid, p.node, how)
}
