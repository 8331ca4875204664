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

// DeviceGone shuts the file system of the victim's volume down without flushing its log (FS_IOC_SHUTDOWN), as the
// kernel does when the device fails, while the node stays up. Data that was not synced is lost. The undo stops the
// kubelet, kills the processes that use the volume, remounts the file system everywhere, and starts the kubelet.
func DeviceGone() fault.Definition {
	return harms(fault.Definition{
		Name:    "device-gone",
		Summary: "Removes the disk of the victim while its node is up: every access to its volume is an I/O error.",
		Shown:   "A read and a write fail with an I/O error in the mount that the victim sees.",
		Healed: "The file system is remounted and its log replayed; the victim can read and write, its pod Ready " +
			"with new containers.",
		// A database that retries a failed fsync and trusts the second result loses data.
		Upstream: "fsync(2), EIO; MySQL Reference Manual, InnoDB I/O errors; PostgreSQL's fsync errors of 2018",
	}, harm{kind: volfault.Gone, kills: true, amiss: func(r volfault.Report) string {
		return cmp.Or(mismatch(r, volfault.AccessRead, "EIO", "ESHUTDOWN"),
			mismatch(r, volfault.AccessWrite, "EIO", "ESHUTDOWN"))
	}})
}

// fewBlocks is how many free blocks a full file system may report: xfs counts blocks that it reserves for its own
// trees.
const fewBlocks = 64

// VolumeFull creates a file that takes every block that the file system of the victim's volume can give, including
// those reserved for root.
func VolumeFull() fault.Definition {
	return harms(fault.Definition{
		Name:    "volume-full",
		Summary: "Fills the victim's volume to its last block.",
		Shown:   "The file system has no usable block left, and a write by the victim fails with ENOSPC.",
		Healed:  "Our file is removed; the victim can write, and its pod is Ready.",
		// A server waits for space, or returns errors; it must not acknowledge what it could not store.
		Upstream: "MySQL Reference Manual, How MySQL Handles a Full Disk",
	}, harm{kind: volfault.Full, amiss: func(r volfault.Report) string {
		left := ""
		if r.Available > fewBlocks {
			left = fmt.Sprintf("%d blocks can be had", r.Available)
		}
		return cmp.Or(mismatch(r, volfault.AccessRead), mismatch(r, volfault.AccessWrite, "ENOSPC"), left)
	}})
}

// VolumeReadOnly remounts the file system of the victim's volume read-only, as ext4 does by itself after an error
// (errors=remount-ro). The kernel refuses that while a file is open for writing, so the processes on the volume are
// killed first with the kubelet stopped; restarted containers find the volume read-only.
func VolumeReadOnly() fault.Definition {
	return harms(fault.Definition{
		Name:    "volume-read-only",
		Summary: "Makes the victim's volume read-only, as a file system becomes after an error.",
		Shown:   "The file system is read-only, and a write fails in the mount that the victim sees.",
		Healed:  "The file system is remounted for writing; the victim can write, its pod Ready with new containers.",
		// The pod restarts again and again, and nothing in the API says why.
		Upstream: "ext4(5), errors=remount-ro",
	}, harm{kind: volfault.ReadOnly, kills: true, amiss: func(r volfault.Report) string {
		writable := ""
		if !r.ReadOnly {
			writable = "it is mounted for writing"
		}
		return cmp.Or(writable, mismatch(r, volfault.AccessRead), mismatch(r, volfault.AccessWrite, "EROFS"))
	}})
}

// harms completes the definition of a fault of the file systems of the victim's volumes.
func harms(d fault.Definition, h harm) fault.Definition {
	d.Needs, d.Takes = []string{"systemd"}, []plan.Part{plan.PartVolume}
	return fault.Plain(d, func(_ plan.Fault, env fault.Env) (fault.Fault, error) {
		one := h
		one.Env = env
		return &one, nil
	})
}

const (
	harmBound = 15 * time.Second // Until the victim's next access shows the harm.
	mendBound = 45 * time.Second // Until the victim can read and write again.
)

// harm is reversible damage to the file systems of the victim's volumes.
type harm struct {
	fault.Env
	kind volfault.Kind
	// amiss returns why the report on a volume does not show the harm, or "" if it does.
	amiss func(volfault.Report) string
	// kills is set if the harm or its undo ends every container that uses the volume.
	kills bool

	volumes []fault.Volume
	pods    []corev1.Pod // The victim's pod, for ConfirmHealed.
}

func (h *harm) Undo(context.Context) ([]undo.Task, error) {
	return h.Here(undo.MendVolumes(h.Owner)), nil
}

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

func (h *harm) Confirm(ctx context.Context) ([]fault.Fact, error) {
	what := fmt.Sprintf("the volume of pod %q to be seen as %s", h.Pod, h.kind)
	facts, err := fault.Until(ctx, what, bootedPoll, harmBound, h.seen)
	if err != nil {
		h.pods = nil // Its containers may or may not have ended.
	}
	return facts, err
}

// Held checks that the harm is still there: the node's timer may have undone it, or the victim freed space.
func (h *harm) Held(ctx context.Context) ([]fault.Fact, error) { return h.seen(ctx) }

// seen checks that the victim sees the harm on every volume.
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

// ConfirmHealed shows that the victim can read and write its volumes, and that its pod is Ready, with new containers if
// the old ones were killed.
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
		reports, err := usable(ctx, env, names(volumes)...)
		if err != nil {
			return nil, err
		}
		var facts []fault.Fact
		for _, r := range reports {
			write, _ := tried(r, volfault.AccessWrite)
			facts = append(facts, env.Saw(begin, "volume %s can be read and written: %s", r.PV, write)...)
		}
		return facts, nil
	})
}

// mismatch returns why an access did not end with one of the wanted errors, or without any if none is given; "" if it
// did.
func mismatch(r volfault.Report, op string, want ...string) string {
	t, ok := tried(r, op)
	switch {
	case !ok:
		return fmt.Sprintf("no %s was tried", op)
	case len(want) == 0 && t.Error != "", len(want) > 0 && !slices.Contains(want, t.Error):
		return t.String()
	}
	return ""
}

// onVolumes runs a damage command of the agent on the victim.
func onVolumes[T any](ctx context.Context, env fault.Env, verb string, args ...string) (answer T, err error) {
	command := slices.Concat([]string{"damage", verb}, env.Owner.Flags(), args)
	return answer, nodeagent.On(env.Node).Call(ctx, &answer, nil, command...)
}

// inflict damages volumes and returns a report for each.
func inflict(ctx context.Context, env fault.Env, kind volfault.Kind, args ...string) ([]volfault.Report, error) {
	return onVolumes[[]volfault.Report](ctx, env, "inflict", append([]string{"--kind", string(kind)}, args...)...)
}

// look returns the state of volumes as seen by their victims; a report must come for each.
func look(ctx context.Context, env fault.Env, pvs ...string) ([]volfault.Report, error) {
	reports, err := onVolumes[[]volfault.Report](ctx, env, "look", pvs...)
	if err == nil && len(reports) != len(pvs) {
		return nil, fmt.Errorf("look volumes: asked for %d, %d are in the answer", len(pvs), len(reports))
	}
	return reports, err
}

// tried returns an access by its operation, and whether it was tried.
func tried(r volfault.Report, op string) (volfault.Access, bool) {
	for _, t := range r.Tries {
		if t.Op == op {
			return t, true
		}
	}
	return volfault.Access{}, false
}

// usable is look for volumes that are mounted and that the victim can read and write.
func usable(ctx context.Context, env fault.Env, pvs ...string) ([]volfault.Report, error) {
	reports, err := look(ctx, env, pvs...)
	if err != nil {
		return nil, err
	}
	for _, r := range reports {
		if !r.Mounted {
			return nil, fault.NotYet("volume %s is not mounted", r.PV)
		}
		for _, op := range []string{volfault.AccessRead, volfault.AccessWrite} {
			if t, ok := tried(r, op); !ok || t.Error != "" {
				return nil, fault.NotYet("volume %s: %s", r.PV, t)
			}
		}
	}
	return reports, nil
}
