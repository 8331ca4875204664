package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// MountResidue judges how long mounts outlive what they are for.
//
// A pod's mount is for the pod: from the end of its object on it is residue. A global mount is for the pods of its
// node that use the volume: it is residue while there is none. Residue must be gone within the bound of settling, which
// runs from the later of that moment and of the last fault's being shown to be healed: while it hurts, a node may do
// nothing. The mount of a disk that was pulled out of its node is residue like any other: it is in the way of the next
// one.
func MountResidue() Check {
	return Check{
		Name:    "mount-residue",
		Promise: "No mount of a volume is left behind after its pod is gone.",
		Source: "Kubernetes, pkg/kubelet/volumemanager: volumes of pods that are gone are unmounted, after a restart " +
			"too; kubernetes/kubernetes issues 89112, 101791 and 121937",
		Judge: judgeMountResidue,
	}
}

// idle is a time in which nothing needed a mount, and why.
type idle struct {
	from, to history.Time
	why      string
	events   []int64
}

func judgeMountResidue(h *world.World) Result {
	r := newRuling("mounts of volumes for pods and nodes")
	s, err := h.Trial()
	if err != nil {
		r.unknown("%v", err)
		return r.result()
	}
	d := readDisks(h, s, r)
	if !d.objects.PodsOn {
		r.unknown("the observer %s was never on: which pods were gone is not known", world.PodsObserver)
	}
	for _, life := range d.ledger.Lives {
		i := slices.IndexFunc(life.Paths, func(path string) bool { _, ok := world.PlaceOf(path); return ok })
		if i < 0 {
			continue
		}
		r.evidence++
		p, _ := world.PlaceOf(life.Paths[i])
		name := d.objects.VolumeAt(p)
		r.looked("volume " + name)
		var needless []idle
		if p.Pod != "" {
			needless = d.podGone(life, p, name)
		} else {
			needless = d.unused(life, name)
		}
		for _, n := range needless {
			if d.judgeIdle(life, n, name) {
				break
			}
		}
	}
	judgeLedger(d.ledger, h, d.podWindow(), s, r)
	return r.result()
}

// podGone is the time after the end of the pod.
func (d *diskStory) podGone(life *world.Mount, p world.Place, name string) []idle {
	pod := d.objects.Pods[p.Pod]
	if pod == nil {
		d.ruling.unknown("volume %s was mounted on node %s for a pod with uid %s, which the API never showed", name,
			life.Node, p.Pod)
		return nil
	}
	if pod.Gone == nil {
		return nil
	}
	return []idle{{pod.Gone.Span.NotAfter, world.Forever, "pod " + pod.Name + " was gone", []int64{pod.Gone.ID}}}
}

// unused are the times in which no pod of the node that uses the volume was there.
func (d *diskStory) unused(life *world.Mount, name string) []idle {
	var users []*world.PodLife
	for _, pod := range d.objects.Pods {
		if pod.Node == life.Node && d.objects.Uses(pod, name) {
			users = append(users, pod)
		}
	}
	slices.SortFunc(users, func(a, b *world.PodLife) int {
		return cmp.Or(cmp.Compare(a.Made.Span.NotBefore, b.Made.Span.NotBefore), cmp.Compare(a.UID, b.UID))
	})
	at := idle{from: life.From, why: "it was mounted, for no pod that the API showed"}
	var all []idle
	for _, pod := range users {
		if pod.Made.Span.NotBefore > at.from {
			at.to = pod.Made.Span.NotBefore
			all = append(all, at)
		}
		if pod.Gone == nil {
			return all
		}
		if pod.Gone.Span.NotAfter >= at.from {
			at = idle{from: pod.Gone.Span.NotAfter, why: "pod " + pod.Name + " was gone", events: []int64{pod.Gone.ID}}
		}
	}
	at.to = world.Forever
	return append(all, at)
}

// judgeIdle holds that a mount did not outlast the bound in a time in which nothing needed it, and reports whether it
// had anything to say.
func (d *diskStory) judgeIdle(life *world.Mount, n idle, name string) bool {
	from := max(n.from, life.From)
	for _, l := range d.scene.Faults {
		active, ok := l.Active()
		switch {
		case ok && active.NotAfter == world.Forever:
			if life.MaybeTo > n.from.Add(d.scene.Plan.Bounds.Settle.D()) {
				d.ruling.unknown("%s was never shown to be healed: until when mounts may be left is not known", l)
			}
			return false
		case ok:
			from = max(from, active.NotAfter)
		}
	}
	deadline := from.Add(d.scene.Plan.Bounds.Settle.D())
	switch {
	case life.MaybeTo <= deadline || life.MaybeFrom >= n.to || n.to <= deadline:
		return false
	case life.To <= deadline:
		d.ruling.unknown("the mount of volume %s as %s may have been left behind after %s, at %s: it was last seen at "+
			"%s, and the bound of %s ran to %s", name, life, n.why, d.scene.Clock(n.from), d.scene.Clock(life.To),
			d.scene.Plan.Bounds.Settle, d.scene.Clock(deadline))
		return true
	}
	until := min(life.To, n.to)
	span := history.Span{NotBefore: deadline, NotAfter: until}
	d.ruling.breach(Finding{
		Promise: MountResidue().Promise,
		Sentence: fmt.Sprintf("The mount of volume %s as %s was left behind: %s at %s, and it was still there at %s, "+
			"after the bound of %s had run out at %s.", name, life, n.why, d.scene.Clock(n.from), d.scene.Clock(until),
			d.scene.Plan.Bounds.Settle, d.scene.Clock(deadline)),
		Subject: "volume " + name, Node: life.Node, Span: span, Events: leading(n.events, life.Events),
		Faults: d.scene.FaultsIn(history.Span{NotBefore: n.from, NotAfter: until}),
	})
	return true
}
