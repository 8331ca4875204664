package storage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/volfault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
)

// DeviceGone shuts the file system of the victim's volume down without its log being flushed (FS_IOC_SHUTDOWN), as the
// kernel does by itself when the device below fails, while the node stays up. Whatever was not synced is gone. The undo
// kills what runs on the volume, with the kubelet stopped for that moment, and mounts the file system again wherever it
// was.
func DeviceGone() fault.Definition {
	return harms(fault.Definition{
		Name:    "device-gone",
		Summary: "Takes the disk away under the victim, whose node is up: every access to its volume is an I/O error.",
		Shown:   "A read and a write fail with an I/O error where the victim sees the volume.",
		Healed: "The file system is mounted anew and its log replayed; the victim can read and write, its pod Ready " +
			"with new containers.",
		// What a database does after an error of fsync: to try again and take the second answer for true loses data.
		Upstream: "fsync(2), EIO; MySQL Reference Manual, InnoDB I/O errors; PostgreSQL's fsync errors of 2018",
	}, harm{kind: volfault.Gone, kills: true, amiss: func(r volfault.Report) string {
		return cmp.Or(unlike(r, volfault.AccessRead, "EIO", "ESHUTDOWN"),
			unlike(r, volfault.AccessWrite, "EIO", "ESHUTDOWN"))
	}})
}

// fewBlocks is how many blocks a full file system may speak of: xfs keeps some for its own trees and counts them.
const fewBlocks = 64

// VolumeFull has a file of ours take every block that the file system of the victim's volume can give, those that are
// kept for root among them.
func VolumeFull() fault.Definition {
	return harms(fault.Definition{
		Name:    "volume-full",
		Summary: "Fills the victim's volume to its last block.",
		Shown:   "The file system has no block to give, and a write fails for want of space where the victim sees it.",
		Healed:  "The file of ours is removed; the victim can write, and its pod is Ready.",
		// A server waits for space and goes on, or tells its clients; it must not acknowledge what it could not keep.
		Upstream: "MySQL Reference Manual, How MySQL Handles a Full Disk",
	}, harm{kind: volfault.Full, amiss: func(r volfault.Report) string {
		left := ""
		if r.Available > fewBlocks {
			left = fmt.Sprintf("%d blocks can be had", r.Available)
		}
		return cmp.Or(unlike(r, volfault.AccessRead), unlike(r, volfault.AccessWrite, "ENOSPC"), left)
	}})
}

// VolumeReadOnly remounts the file system of the victim's volume read-only, as ext4 is by itself after an error
// (errors=remount-ro). The kernel refuses that while a file is open for writing, so what runs on the volume is killed
// first, with the kubelet stopped for that moment; what the kubelet starts then finds the volume as it is.
func VolumeReadOnly() fault.Definition {
	return harms(fault.Definition{
		Name:    "volume-read-only",
		Summary: "Makes the victim's volume read-only, as a file system is after an error.",
		Shown:   "The file system is read-only, and a write fails where the victim sees the volume.",
		Healed:  "The file system is remounted for writing; the victim can write, its pod Ready with new containers.",
		// The pod restarts again and again until somebody looks at the node: nothing in the API says why.
		Upstream: "ext4(5), errors=remount-ro",
	}, harm{kind: volfault.ReadOnly, kills: true, amiss: func(r volfault.Report) string {
		writable := ""
		if !r.ReadOnly {
			writable = "it is mounted for writing"
		}
		return cmp.Or(writable, unlike(r, volfault.AccessRead), unlike(r, volfault.AccessWrite, "EROFS"))
	}})
}

// harms completes the definition of a fault that does harm to the file systems of the victim's volumes.
func harms(d fault.Definition, h harm) fault.Definition {
	d.Needs, d.Takes = []string{"systemd"}, []plan.Part{plan.PartVolume}
	return fault.Plain(d, func(_ plan.Fault, env fault.Env) (fault.Fault, error) {
		one := h
		one.Env = env
		return &one, nil
	})
}

// The bounds of what is to be shown of harm to a volume.
const (
	harmBound = 15 * time.Second // Until the victim sees it: what was done is done, and its next access fails.
	mendBound = 45 * time.Second // Until the victim can read and write again.
)

// harm is what is done to the file systems of the victim's volumes, and undone.
type harm struct {
	fault.Env
	kind volfault.Kind
	// amiss returns why a look at a volume does not show the harm, "" when it does.
	amiss func(volfault.Report) string
	// kills says that every container that uses the volume ends by what is done, or by what undoes it.
	kills bool

	volumes []fault.Volume
	pods    []corev1.Pod // The victim's, once the harm was shown.
}

// Undo has the node mend the volumes.
func (h *harm) Undo(context.Context) ([]undo.Task, error) {
	return h.Here(undo.MendVolumes(h.Owner)), nil
}

// Inject does the harm to every volume of the victim's pod.
func (h *harm) Inject(ctx context.Context) error {
	var err error
	if h.volumes, err = victims(ctx, h.Env); err != nil {
		return err
	}
	if len(h.volumes) == 0 {
		return fmt.Errorf("no volume of pod %q is on node %q", h.Pod, h.Node.Name())
	}
	all, err := h.PodsOn(ctx)
	if err != nil {
		return err
	}
	if _, err := inflict(ctx, h.Env, h.kind, names(h.volumes)...); err != nil {
		return err
	}
	h.pods = slices.DeleteFunc(all, func(p corev1.Pod) bool { return p.Namespace != h.Namespace || p.Name != h.Pod })
	return nil
}

// victims returns the volumes of the victim's pod.
func victims(ctx context.Context, env fault.Env) ([]fault.Volume, error) {
	all, err := env.Volumes(ctx)
	return slices.DeleteFunc(all, func(v fault.Volume) bool { return v.Pod != env.Pod }), err
}

func names(volumes []fault.Volume) []string {
	pvs := make([]string, len(volumes))
	for i, v := range volumes {
		pvs[i] = v.PV
	}
	return pvs
}

// Confirm waits until the victim is shown to suffer the harm.
func (h *harm) Confirm(ctx context.Context) ([]fault.Fact, error) {
	what := fmt.Sprintf("the volume of pod %q to be seen as %s", h.Pod, h.kind)
	facts, err := fault.Until(ctx, what, bootedPoll, harmBound, h.seen)
	if err != nil {
		h.pods = nil // What has become of its containers is not known.
	}
	return facts, err
}

// Held looks whether the harm is still there: a node's timer may have undone it, or the victim made room.
func (h *harm) Held(ctx context.Context) ([]fault.Fact, error) { return h.seen(ctx) }

// seen looks whether the harm is to be seen.
func (h *harm) seen(ctx context.Context) (facts []fault.Fact, err error) {
	begin := h.Clock()
	reports, err := look(ctx, h.Env, names(h.volumes)...)
	if err != nil {
		return nil, err
	}
	for i, r := range reports {
		if !r.Mounted {
			return nil, fault.NotYet("volume %s is not mounted", r.PV)
		}
		if why := h.amiss(r); why != "" {
			return nil, fault.NotYet("volume %s: %s", r.PV, why)
		}
		words := []string{fmt.Sprintf("volume %s of %s, %s on %s", r.PV, h.volumes[i].Pod, r.FileSystem, r.Source)}
		for _, t := range r.Tries {
			words = append(words, t.String())
		}
		facts = append(facts, h.Saw(begin, "%s", strings.Join(words, ": "))...)
	}
	return facts, nil
}

func (h *harm) Heal(ctx context.Context) error { return h.CarryOut(ctx) }

// ConfirmHealed shows that the victim can read and write its volumes, and that its pod is Ready: with new containers,
// where those of before have ended.
func (h *harm) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	shows := []fault.Show{usableAgain(h.Env)}
	if len(h.pods) > 0 {
		shows = append(shows, h.PodsBack(&h.pods, h.kills, podsBound))
	}
	return fault.All(ctx, shows...)
}

// usableAgain waits until the victim can read and write its volumes.
func usableAgain(env fault.Env) fault.Show {
	what := fmt.Sprintf("the volume of pod %q to be readable and writable", env.Pod)
	return fault.Await(what, bootedPoll, mendBound, func(ctx context.Context) ([]fault.Fact, error) {
		begin := env.Clock()
		volumes, err := victims(ctx, env)
		if err != nil {
			return nil, err
		}
		if len(volumes) == 0 {
			return env.Saw(begin, "no volume of pod %s is on the node", env.Pod), nil
		}
		reports, err := look(ctx, env, names(volumes)...)
		if err != nil {
			return nil, err
		}
		var facts []fault.Fact
		for _, r := range reports {
			if why := usable(r); why != "" {
				return nil, fault.NotYet("%s", why)
			}
			write, _ := tried(r, volfault.AccessWrite)
			facts = append(facts, env.Saw(begin, "volume %s can be read and written: %s", r.PV, write)...)
		}
		return facts, nil
	})
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

// onVolumes asks the agent on the victim for something about volumes.
func onVolumes[T any](ctx context.Context, env fault.Env, verb string, args ...string) (answer T, err error) {
	command := slices.Concat([]string{"damage", verb}, env.Owner.Flags(), args)
	return answer, nodeagent.On(env.Node).Call(ctx, &answer, nil, command...)
}

// inflict does harm to volumes. Each of them must be in the answer.
func inflict(ctx context.Context, env fault.Env, kind volfault.Kind, args ...string) ([]volfault.Report, error) {
	return onVolumes[[]volfault.Report](ctx, env, "inflict", append([]string{"--kind", string(kind)}, args...)...)
}

// look has volumes looked at as their victims see them.
func look(ctx context.Context, env fault.Env, pvs ...string) ([]volfault.Report, error) {
	reports, err := onVolumes[[]volfault.Report](ctx, env, "look", pvs...)
	if err == nil && len(reports) != len(pvs) {
		return nil, fmt.Errorf("look volumes: asked for %d, %d are in the answer", len(pvs), len(reports))
	}
	return reports, err
}

// tried returns what came of an access, and whether it was tried.
func tried(r volfault.Report, op string) (volfault.Access, bool) {
	for _, t := range r.Tries {
		if t.Op == op {
			return t, true
		}
	}
	return volfault.Access{}, false
}

// usable returns why a volume can not be read and written by its victim, "" when it can.
func usable(r volfault.Report) string {
	if !r.Mounted {
		return fmt.Sprintf("volume %s is not mounted", r.PV)
	}
	for _, op := range []string{volfault.AccessRead, volfault.AccessWrite} {
		if t, ok := tried(r, op); !ok || t.Error != "" {
			return fmt.Sprintf("volume %s: %s", r.PV, t)
		}
	}
	return ""
}
