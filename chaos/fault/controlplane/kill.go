package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
)

// killing completes the definition of a fault that kills a component. Nothing is armed: the kubelet undoes it.
func killing(of component, d fault.Definition) fault.Definition {
	d.Shown = "No process with the old pid and start time is there."
	d.Healed = "The kubelet starts it again: a later one tells that it is well, requests to the API server are " +
		"answered, and the leases that depend on it are renewed again and again."
	d.Needs = []string{"api", "static-pods", "systemd"}
	d.Takes = []plan.Part{of.part}
	d.New = func(_ plan.Fault, _ int, env fault.Env) (fault.Fault, error) {
		return &kill{victims{env: env, of: of}}, nil
	}
	return d
}

// goneBound is long: what is killed in an uninterruptible wait for a disk ends with it.
const goneBound = 20 * time.Second

// kill is SIGKILL to a component.
type kill struct{ victims }

// Inject notes which processes there are, and kills them.
func (k *kill) Inject(ctx context.Context) error {
	if err := k.note(ctx); err != nil {
		return err
	}
	var errs []error
	for _, p := range k.old {
		_, err := clusters.Run(ctx, p.node, "kill", "-s", "KILL", strconv.Itoa(p.PID))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Confirm shows that they are gone.
func (k *kill) Confirm(ctx context.Context) ([]fault.Fact, error) {
	var facts []fault.Fact
	what := fmt.Sprintf("the killed %s to be gone", k.of.name)
	begin := k.env.Clock()
	err := await.Until(ctx, what, 100*time.Millisecond, goneBound, func(ctx context.Context) (bool, string, error) {
		found, err := k.now(ctx)
		if err != nil {
			return false, "", err
		}
		if p, there := k.among(found); there {
			return false, p.String() + " is still there", nil
		}
		facts = k.each(history.Between(begin, k.env.Clock()), "is gone")
		return true, "", nil
	})
	return facts, err
}

// Heal leaves it to the kubelet, which starts static pods again.
func (k *kill) Heal(context.Context) error { return nil }

// ConfirmHealed shows that later ones are at work. The old ones cannot be among them: they were shown to be gone.
func (k *kill) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) { return k.back(ctx) }
