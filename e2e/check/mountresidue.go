package check

import (
	"cmp"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// MountResidue judges how long mounts outlive their pods.
//
// A pod's mount is idle from the end of the pod's object on. A global mount is idle while no pod of its node uses the
// volume. An idle mount must be gone within the settle bound, which starts when the mount becomes idle, and again when
// a fault is confirmed healed: during a fault a node may do nothing. What a later fault takes away, as a reboot does,
// was left behind all the same. The mount of a disk that was pulled out of its node counts like any other: it is in
// the way of the next mount.
func MountResidue() Check {
	return Check{
		Name:    "mount-residue",
		When:    Continuous,
		Promise: "No mount of a volume is left behind after its pod is gone.",
		Source: "Kubernetes, pkg/kubelet/volumemanager: volumes of pods that are gone are unmounted, after a restart " +
			"too; kubernetes/kubernetes issues 89112, 101791 and 121937",
		Unit:  "mounts of volumes for pods and nodes",
		Lacks: neverMounted,
		judge: judgeMountResidue,
	}
}

// idle is a span in which nothing needed a mount, and why.
type idle struct {
	history.Span
	why    string
	events []int64
}

func judgeMountResidue(r *ruling) {
	storage := r.world.Storage()
	r.watched("which pods were gone is not known", world.PodsObserver)
	external := r.trial.Plan.Workload.External != nil
	for _, life := range r.world.Ledger().Lives {
		if life.Place == (history.Place{}) {
			continue
		}
		name := storage.VolumeAt(life.Place)
		pv := storage.PVs[name]
		if external && pv == nil || ofOthers(r.trial, pv) {
			continue // Pods of other namespaces are not watched.
		}
		r.judged("volume " + name)
		for _, n := range r.idles(life, name) {
			if r.judgeIdle(life, n, name) {
				break
			}
		}
	}
	r.sawMounts(r.podWindow())
}

// idles returns the spans in which a mount was idle.
func (r *ruling) idles(life *world.Mount, name string) []idle {
	uid := life.Place.Pod
	if uid == "" {
		return r.unused(life, name)
	}
	pod := r.world.Pods().ByUID[uid]
	switch {
	case pod == nil:
		r.unknown("volume %s was mounted on node %s for a pod with uid %s, which the API never showed", name, life.Node,
			uid)
		return nil
	case pod.End == nil:
		r.unseenEnd(life, pod, name)
		return nil
	}
	return []idle{idleSince(pod)}
}

// unseenEnd gives a reason if the watch of pods broke for good while a pod was there whose mount stayed.
func (r *ruling) unseenEnd(life *world.Mount, pod *world.PodLife, name string) {
	for _, gap := range r.world.Watch().Gaps[world.PodsObserver] {
		if gap.NotAfter >= r.trial.LookedUntil() && life.To > gap.NotBefore.Add(r.trial.Plan.Bounds.Settle.D()) {
			r.unknown("volume %s stayed mounted as %s: whether pod %s was gone is not known, since nobody watched "+
				"pods from %s on", name, life, pod.Name, r.clock(gap.NotBefore))
			return
		}
	}
}

// idleSince returns the span from the end of a pod on.
func idleSince(pod *world.PodLife) idle {
	return idle{history.Span{NotBefore: pod.End.Event.Span.NotAfter, NotAfter: world.Forever},
		"pod " + pod.Name + " was gone", []int64{pod.End.Event.ID}}
}

// unused returns the spans in which no pod on the mount's node used the volume.
func (r *ruling) unused(life *world.Mount, name string) []idle {
	var users []*world.PodLife
	for _, pod := range r.world.Pods().All {
		if pod.Node == life.Node && r.world.Storage().Uses(pod, name) {
			users = append(users, pod)
		}
	}
	slices.SortFunc(users, func(a, b *world.PodLife) int {
		return cmp.Or(cmp.Compare(a.First.Event.Span.NotBefore, b.First.Event.Span.NotBefore), cmp.Compare(a.UID,
			b.UID))
	})
	at := idle{history.Span{NotBefore: life.From, NotAfter: world.Forever},
		"it was mounted, for no pod that the API showed", nil}
	var all []idle
	for _, pod := range users {
		if begin := pod.First.Event.Span.NotBefore; begin > at.NotBefore {
			at.NotAfter = begin
			all = append(all, at)
		}
		if pod.End == nil {
			r.unseenEnd(life, pod, name)
			return all
		}
		if pod.End.Event.Span.NotAfter >= at.NotBefore {
			at = idleSince(pod)
		}
	}
	at.NotAfter = world.Forever
	return append(all, at)
}

// judgeIdle demands that an idle mount was gone within the bound. It reports whether it added a violation or a reason.
func (r *ruling) judgeIdle(life *world.Mount, n idle, name string) bool {
	bound := r.trial.Plan.Bounds.Settle
	var hurt []history.Span
	unhealed := ""
	for _, l := range r.trial.Faults {
		if active, ok := l.Active(); ok {
			hurt = append(hurt, active)
			if active.NotAfter == world.Forever {
				unhealed = l.String()
			}
		}
	}
	// The mount's time from the end of the bound on, if some time without a fault was longer.
	left := func(until history.Time) (history.Span, bool) {
		there := history.Span{NotBefore: max(n.NotBefore, life.From), NotAfter: min(until, n.NotAfter)}
		for _, calm := range world.Holes(there, hurt, nil) {
			if calm.Length() > bound.D() {
				return history.Span{NotBefore: calm.NotBefore.Add(bound.D()), NotAfter: there.NotAfter}, true
			}
		}
		return there, false
	}
	span, certain := left(life.To)
	maybe, perhaps := left(life.MaybeTo)
	switch {
	case certain:
	case perhaps:
		r.unknown("the mount of volume %s as %s may have been left behind after %s, at %s: it was last seen at "+
			"%s, and the bound of %s ran to %s", name, life, n.why, r.clock(n.NotBefore), r.clock(life.To), bound,
			r.clock(maybe.NotBefore))
		return true
	case unhealed != "" && life.MaybeTo > n.NotBefore.Add(bound.D()):
		r.unknown("%s was never shown to be healed: until when mounts may be left is not known", unhealed)
		return false
	default:
		return false
	}
	if life.Place.Pod == "" && r.world.Watch().Blind(n.NotBefore, span.NotAfter, world.PodsObserver) {
		r.unknown("the mount of volume %s as %s may have been left behind after %s, at %s: whether a pod needed it is "+
			"not known, since the watch of pods was blind until %s", name, life, n.why, r.clock(n.NotBefore),
			r.clock(span.NotAfter))
		return true
	}
	r.violation(Finding{Subject: "volume " + name, Node: life.Node, Events: leading(n.events, life.Events), Span: span,
		Faults: r.trial.FaultsIn(history.Span{NotBefore: n.NotBefore, NotAfter: span.NotAfter})},
		"The mount of volume %s as %s was left behind: %s at %s, and it was still there at %s, after the bound of %s "+
			"had run out at %s.", name, life, n.why, r.clock(n.NotBefore), r.clock(span.NotAfter), bound,
		r.clock(span.NotBefore))
	return true
}
