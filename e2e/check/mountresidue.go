package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
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

func judgeMountResidue(h history.History) Result {
	r := newRuling("mounts of volumes for pods and nodes")
	s, err := setScene(h)
	if err != nil {
		r.unknown("%v", err)
		return r.result()
	}
	d := readDisks(h, s, r)
	if !d.objects.podsOn {
		r.unknown("the observer %s was never on: which pods were gone is not known", podsObserver)
	}
	for _, life := range d.ledger.lives {
		i := slices.IndexFunc(life.paths, func(path string) bool { _, ok := placeOf(path); return ok })
		if i < 0 {
			continue
		}
		r.evidence++
		p, _ := placeOf(life.paths[i])
		name := d.objects.volumeAt(p)
		var needless []idle
		if p.pod != "" {
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
	d.ledger.judge(h, d.podWindow(), s, r)
	return r.result()
}

// podGone is the time after the end of the pod.
func (d *diskStory) podGone(life *mountLife, p place, name string) []idle {
	pod := d.objects.pods[p.pod]
	if pod == nil {
		d.ruling.unknown("volume %s was mounted on node %s for a pod with uid %s, which the API never showed", name,
			life.node, p.pod)
		return nil
	}
	if pod.gone == nil {
		return nil
	}
	return []idle{{pod.gone.Span.NotAfter, forever, "pod " + pod.name + " was gone", []int64{pod.gone.ID}}}
}

// unused are the times in which no pod of the node that uses the volume was there.
func (d *diskStory) unused(life *mountLife, name string) []idle {
	var users []*podObject
	for _, pod := range d.objects.pods {
		if pod.node == life.node && d.objects.uses(pod, name) {
			users = append(users, pod)
		}
	}
	slices.SortFunc(users, func(a, b *podObject) int {
		return cmp.Or(cmp.Compare(a.made.Span.NotBefore, b.made.Span.NotBefore), cmp.Compare(a.uid, b.uid))
	})
	at := idle{from: life.from, why: "it was mounted, for no pod that the API showed"}
	var all []idle
	for _, pod := range users {
		if pod.made.Span.NotBefore > at.from {
			at.to = pod.made.Span.NotBefore
			all = append(all, at)
		}
		if pod.gone == nil {
			return all
		}
		if pod.gone.Span.NotAfter >= at.from {
			at = idle{from: pod.gone.Span.NotAfter, why: "pod " + pod.name + " was gone", events: []int64{pod.gone.ID}}
		}
	}
	at.to = forever
	return append(all, at)
}

// judgeIdle holds that a mount did not outlast the bound in a time in which nothing needed it, and reports whether it
// had anything to say.
func (d *diskStory) judgeIdle(life *mountLife, n idle, name string) bool {
	from := max(n.from, life.from)
	for _, l := range d.scene.faults {
		active, ok := l.active()
		switch {
		case ok && active.NotAfter == forever:
			if life.maybeTo > n.from.Add(d.scene.plan.Bounds.Settle.D()) {
				d.ruling.unknown("%s was never shown to be healed: until when mounts may be left is not known", l)
			}
			return false
		case ok:
			from = max(from, active.NotAfter)
		}
	}
	deadline := from.Add(d.scene.plan.Bounds.Settle.D())
	switch {
	case life.maybeTo <= deadline || life.maybeFrom >= n.to || n.to <= deadline:
		return false
	case life.to <= deadline:
		d.ruling.unknown("the mount of volume %s as %s may have been left behind after %s, at %s: it was last seen at "+
			"%s, and the bound of %s ran to %s", name, life, n.why, d.scene.clock(n.from), d.scene.clock(life.to),
			d.scene.plan.Bounds.Settle, d.scene.clock(deadline))
		return true
	}
	until := min(life.to, n.to)
	span := history.Span{NotBefore: deadline, NotAfter: until}
	d.ruling.breach(Finding{
		Promise: MountResidue().Promise,
		Sentence: fmt.Sprintf("The mount of volume %s as %s was left behind: %s at %s, and it was still there at %s, "+
			"after the bound of %s had run out at %s.", name, life, n.why, d.scene.clock(n.from), d.scene.clock(until),
			d.scene.plan.Bounds.Settle, d.scene.clock(deadline)),
		Subject: "volume " + name, Node: life.node, Span: span, Events: leading(n.events, life.events),
		Faults: d.scene.faultsIn(history.Span{NotBefore: n.from, NotAfter: until}),
	})
	return true
}
