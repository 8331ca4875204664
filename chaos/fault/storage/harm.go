package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/evidence"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/volfault"
	"github.com/seatrial/seatrial/chaos/undo"
)

// The bounds of what is to be shown of harm to a volume.
const (
	harmBound = 15 * time.Second // Until the victim sees it: what was done is done, and its next access fails.
	mendBound = 45 * time.Second // Until the victim can read and write again.
)

// harm is what the faults are made of that do harm to the file systems of the victim's volumes, and undo it.
type harm struct {
	env   fault.Env
	owner undo.Owner
	kind  volfault.Kind
	// amiss returns why a look at a volume does not show the harm, "" when it does.
	amiss func(volfault.Report) string
	// kills says that every container that uses the volume ends by what is done, or by what undoes it.
	kills bool

	volumes []evidence.Volume
	pods    []evidence.Pod // The victim's, once the harm was shown.
}

// Undo has the node mend the volumes.
func (h *harm) Undo(context.Context) ([]undo.Task, error) {
	return []undo.Task{{Node: h.env.Node, Actions: []undo.Action{undo.MendVolumes(h.owner)}}}, nil
}

// Inject does the harm to every volume of the victim's pod.
func (h *harm) Inject(ctx context.Context) error {
	var err error
	if h.volumes, err = victims(ctx, h.env); err != nil {
		return err
	}
	if len(h.volumes) == 0 {
		return fmt.Errorf("no volume of pod %q is on node %q", h.env.Pod, h.env.Node.Name())
	}
	all, err := evidence.PodsOn(ctx, h.env)
	if err != nil {
		return err
	}
	if _, err := inflict(ctx, h.env.Node, h.owner, h.kind, names(h.volumes)...); err != nil {
		return err
	}
	h.pods = slices.DeleteFunc(all, func(p evidence.Pod) bool {
		return p.Namespace != h.env.Namespace || p.Name != h.env.Pod
	})
	return nil
}

// victims returns the volumes of the victim's pod.
func victims(ctx context.Context, env fault.Env) ([]evidence.Volume, error) {
	all, err := evidence.VolumesOn(ctx, env)
	return slices.DeleteFunc(all, func(v evidence.Volume) bool { return v.Pod != env.Pod }), err
}

func names(volumes []evidence.Volume) []string {
	pvs := make([]string, len(volumes))
	for i, v := range volumes {
		pvs[i] = v.PV
	}
	return pvs
}

// Confirm waits until the victim is shown to suffer the harm.
func (h *harm) Confirm(ctx context.Context) ([]fault.Fact, error) {
	var facts []fault.Fact
	what := fmt.Sprintf("the volume of pod %q to be seen as %s", h.env.Pod, h.kind)
	err := await.Until(ctx, what, bootedPoll, harmBound, func(ctx context.Context) (bool, string, error) {
		var why string
		var err error
		facts, why, err = h.seen(ctx)
		return why == "", why, err
	})
	if err != nil {
		h.pods = nil // Nobody can say what has become of its containers.
	}
	return facts, err
}

// Held looks once whether the harm is still there: a node's timer may have undone it, or the victim made room.
func (h *harm) Held(ctx context.Context) ([]fault.Fact, error) {
	facts, why, err := h.seen(ctx)
	if err == nil && why != "" {
		err = errors.New(why)
	}
	return facts, err
}

// seen looks once, and returns what shows the harm, or why it is not to be seen.
func (h *harm) seen(ctx context.Context) (facts []fault.Fact, why string, err error) {
	begin := h.env.Clock()
	reports, err := look(ctx, h.env.Node, h.owner, names(h.volumes)...)
	if err != nil {
		return nil, "", err
	}
	for i, r := range reports {
		if !r.Mounted {
			return nil, fmt.Sprintf("volume %s is not mounted", r.PV), nil
		}
		if why := h.amiss(r); why != "" {
			return nil, fmt.Sprintf("volume %s: %s", r.PV, why), nil
		}
		words := []string{fmt.Sprintf("volume %s of %s, %s on %s", r.PV, h.volumes[i].Pod, r.FileSystem, r.Source)}
		for _, t := range r.Tries {
			words = append(words, t.String())
		}
		facts = append(facts, fault.Fact{
			Span: history.Between(begin, h.env.Clock()), Sentence: strings.Join(words, ": "),
		})
	}
	return facts, "", nil
}

// Heal undoes the harm.
func (h *harm) Heal(ctx context.Context) error {
	return undo.CarryOut(ctx, undo.On(h.env.Node), h.owner)
}

// ConfirmHealed shows that the victim can read and write its volumes, and that its pod is Ready: with new containers,
// where those of before have ended.
func (h *harm) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	usable, err := h.back(ctx)
	if err != nil {
		return nil, err
	}
	if len(h.pods) == 0 {
		return usable, nil
	}
	awaited := evidence.PodsReady
	if h.kills {
		awaited = evidence.PodsBack
	}
	ready, err := awaited(ctx, h.env, h.pods, podsBound)
	if err != nil {
		return usable, err
	}
	return append(usable, ready), nil
}

// back waits until the victim can read and write its volumes.
func (h *harm) back(ctx context.Context) ([]fault.Fact, error) {
	var facts []fault.Fact
	what := fmt.Sprintf("the volume of pod %q to be readable and writable", h.env.Pod)
	err := await.Until(ctx, what, bootedPoll, mendBound, func(ctx context.Context) (bool, string, error) {
		begin := h.env.Clock()
		volumes, err := victims(ctx, h.env)
		if err != nil {
			return false, "", err
		}
		facts = nil
		if len(volumes) == 0 {
			facts = []fault.Fact{{Span: history.Between(begin, h.env.Clock()),
				Sentence: fmt.Sprintf("no volume of pod %s is on the node", h.env.Pod)}}
			return true, "", nil
		}
		reports, err := look(ctx, h.env.Node, h.owner, names(volumes)...)
		if err != nil {
			return false, "", err
		}
		for _, r := range reports {
			if why := usable(r); why != "" {
				return false, why, nil
			}
			write, _ := tried(r, volfault.AccessWrite)
			facts = append(facts, fault.Fact{Span: history.Between(begin, h.env.Clock()), Sentence: fmt.Sprintf(
				"volume %s can be read and written: %s", r.PV, write)})
		}
		return true, "", nil
	})
	return facts, err
}

// unlike returns why the accesses did not come out as they must: with one of some errors, or without any.
func unlike(r volfault.Report, op string, want ...string) string {
	t, ok := tried(r, op)
	switch {
	case !ok:
		return fmt.Sprintf("no %s was tried", op)
	case len(want) == 0 && t.Error != "", len(want) > 0 && !slices.Contains(want, t.Error):
		return t.String()
	}
	return ""
}
