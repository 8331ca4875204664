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
// A pod's mount is for the pod: from the end of its object on it is left behind. A global mount is for the pods of its
// node that use the volume: it is left behind while there is none. Such a mount must be gone within the bound of
// settling, which runs from the later of that moment and of the last fault's being shown to be healed: while it hurts,
// a node may do nothing. The mount of a disk that was pulled out of its node counts like any other: it is in the way of
// the next one.
func MountResidue() Check {
	return Check{
		Name:    "mount-residue",
		Promise: "No mount of a volume is left behind after its pod is gone.",
		Source: "Kubernetes, pkg/kubelet/volumemanager: volumes of pods that are gone are unmounted, after a restart " +
			"too; kubernetes/kubernetes issues 89112, 101791 and 121937",
		Unit:  "mounts of volumes for pods and nodes",
		Lacks: neverMounted,
		judge: judgeMountResidue,
	}
}

// idle is a time in which nothing needed a mount, and why.
type idle struct {
	from, to history.Time
	why      string
	events   []int64
}

func judgeMountResidue(r *ruling) {
	d := r.disks()
	if !r.world.Watch().On(world.PodsObserver) {
		r.unknown("the observer %s was never on: which pods were gone is not known", world.PodsObserver)
	}
	others, namespace := external(r.world), trialNamespace(r.world, r.trial.Plan)
	for _, life := range d.ledger.Lives {
		p := life.Place
		if p == (world.Place{}) {
			continue
		}
		name := d.storage.VolumeAt(p)
		if pv := d.storage.PVs[name]; others && (pv == nil || pv.Namespace != namespace) {
			continue // Pods of other namespaces are not watched.
		}
		r.evidence++
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
	r.sawMounts(d.podWindow())
}

// podGone is the time after the end of the pod.
func (d *disks) podGone(life *world.Mount, p world.Place, name string) []idle {
	pod := d.world.Pods().ByUID[p.Pod]
	if pod == nil {
		d.unknown("volume %s was mounted on node %s for a pod with uid %s, which the API never showed", name,
			life.Node, p.Pod)
		return nil
	}
	if pod.End == nil {
		return nil
	}
	return []idle{{pod.End.Event.Span.NotAfter, world.Forever, "pod " + pod.Name + " was gone",
		[]int64{pod.End.Event.ID}}}
}

// unused are the times in which no pod of the node that uses the volume was there.
func (d *disks) unused(life *world.Mount, name string) []idle {
	var users []*world.PodLife
	for _, pod := range d.world.Pods().All {
		if pod.Node == life.Node && d.storage.Uses(pod, name) {
			users = append(users, pod)
		}
	}
	slices.SortFunc(users, func(a, b *world.PodLife) int {
		return cmp.Or(cmp.Compare(a.First.Event.Span.NotBefore, b.First.Event.Span.NotBefore), cmp.Compare(a.UID,
			b.UID))
	})
	at := idle{from: life.From, why: "it was mounted, for no pod that the API showed"}
	var all []idle
	for _, pod := range users {
		if pod.First.Event.Span.NotBefore > at.from {
			at.to = pod.First.Event.Span.NotBefore
			all = append(all, at)
		}
		if pod.End == nil {
			return all
		}
		if pod.End.Event.Span.NotAfter >= at.from {
			at = idle{from: pod.End.Event.Span.NotAfter, why: "pod " + pod.Name + " was gone",
				events: []int64{pod.End.Event.ID}}
		}
	}
	at.to = world.Forever
	return append(all, at)
}

// judgeIdle holds that a mount did not outlast the bound in a time in which nothing needed it, and reports whether it
// had anything to say.
func (d *disks) judgeIdle(life *world.Mount, n idle, name string) bool {
	from := max(n.from, life.From)
	for _, l := range d.trial.Faults {
		active, ok := l.Active()
		switch {
		case ok && active.NotAfter == world.Forever:
			if life.MaybeTo > n.from.Add(d.trial.Plan.Bounds.Settle.D()) {
				d.unknown("%s was never shown to be healed: until when mounts may be left is not known", l)
			}
			return false
		case ok:
			from = max(from, active.NotAfter)
		}
	}
	deadline := from.Add(d.trial.Plan.Bounds.Settle.D())
	switch {
	case life.MaybeTo <= deadline || life.MaybeFrom >= n.to || n.to <= deadline:
		return false
	case life.To <= deadline:
		d.unknown("the mount of volume %s as %s may have been left behind after %s, at %s: it was last seen at "+
			"%s, and the bound of %s ran to %s", name, life, n.why, d.clock(n.from), d.clock(life.To),
			d.trial.Plan.Bounds.Settle, d.clock(deadline))
		return true
	}
	until := min(life.To, n.to)
	span := history.Span{NotBefore: deadline, NotAfter: until}
	d.violation(Finding{
		Sentence: fmt.Sprintf("The mount of volume %s as %s was left behind: %s at %s, and it was still there at %s, "+
			"after the bound of %s had run out at %s.", name, life, n.why, d.clock(n.from), d.clock(until),
			d.trial.Plan.Bounds.Settle, d.clock(deadline)),
		Subject: "volume " + name, Node: life.Node, Span: span, Events: leading(n.events, life.Events),
		Faults: d.trial.FaultsIn(history.Span{NotBefore: n.from, NotAfter: until}),
	})
	return true
}
