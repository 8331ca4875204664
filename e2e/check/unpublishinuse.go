package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// reaping is how long after its volume was taken a container must have lived for that to be a violation. The kubelet
// takes a volume once the runtime calls the containers dead; what is left of one then, a process not yet reaped or a
// mount namespace not yet torn down, harms nothing, and the node's list of processes is taken five times a second. A
// second is five such lists: what is in all of them lives.
const reaping = time.Second

// UnpublishInUse judges every end of a pod's mount of a volume, and every call of the driver that takes one away,
// against the processes of that pod and the volumes that its containers have.
//
// That a process ended in time is believed where its end is known no better than to the bound of blind gaps; where it
// is known worse, the result is Unknown. A node that goes down takes its mounts and its processes with it in any order:
// what is taken then, after the fault began that explains it, is not judged.
//
// A disk that is pulled out of a node is no mount taken by the kubelet: the call that did it is DetachOrder's to judge.
func UnpublishInUse() Check {
	return Check{
		Name:    "unpublish-in-use",
		Promise: "No volume is taken from a container that lives.",
		Source: "Kubernetes, pkg/kubelet/volumemanager: a volume is unmounted once the pod's containers have ended; " +
			"kubernetes/kubernetes issues 113979 and 120150",
		Unit:  "mounts of volumes for pods",
		Lacks: ofOwn(noCalls),
		judge: judgeUnpublishInUse,
	}
}

// taking is one volume taken from a pod, or, without a pod, from a node.
type taking struct {
	node, pod, volume string
	key               string // Of what was mounted, "" where only the volume is known.
	span              history.Span
	how               string
	events            []int64
}

// user is something that lives and needs the volume.
type user struct {
	what, did         string
	from, to, maybeTo history.Time
	events            []int64
}

func judgeUnpublishInUse(r *ruling) {
	d := r.disks()
	for _, t := range d.takings() {
		if !d.goingDown(t) {
			d.judgeTaking(t)
		}
	}
	window := d.podWindow()
	r.sawMounts(window)
	r.sawNodes(d.containers.ProcessCoverage, r.world.Nodes(), window)
	if onSharedDisk(r.world) {
		r.sawNodes(d.containers.HoldingCoverage, r.world.Nodes(), window)
		r.sawCalls(window)
	}
}

// takings counts the pods' mounts as evidence, ended or not, and returns what was taken from whom.
func (d *disks) takings() []taking {
	var all []taking
	for _, life := range d.ledger.Lives {
		p := life.Place
		if p.Pod == "" {
			continue
		}
		d.evidence++
		d.looked("volume " + d.storage.VolumeAt(p))
		if life.Ended && !d.twice(life, p) {
			all = append(all, taking{life.Node, p.Pod, d.storage.VolumeAt(p), life.Key,
				history.Span{NotBefore: life.To, NotAfter: life.MaybeTo}, "its mount " + life.String() + " ended",
				life.Events})
		}
	}
	for _, c := range d.calls.Of(world.RPCUnpublish, world.RPCUnstage) {
		if !c.Took() {
			continue
		}
		t := taking{node: c.TargetNode(), volume: d.name(c), span: c.Ended(), how: c.RPC + " ended well",
			events: c.Events()}
		if c.RPC == world.RPCUnpublish {
			p, ok := world.PlaceOf(c.Target)
			if !ok || p.Pod == "" {
				continue // Not a pod's.
			}
			t.pod = p.Pod
		}
		all = append(all, t)
	}
	return all
}

// twice reports that the pod had the volume mounted by another mount when this one ended.
func (d *disks) twice(life *world.Mount, p world.Place) bool {
	return slices.ContainsFunc(d.ledger.Lives, func(o *world.Mount) bool {
		return p.Pod == o.Place.Pod && o != life && o.Node == life.Node && o.Key == life.Key &&
			o.MaybeFrom <= life.MaybeTo && o.MaybeTo > life.MaybeTo
	})
}

// goingDown reports that the node's boot ended after the volume was taken, by a fault that had begun before.
func (d *disks) goingDown(t taking) bool {
	for _, s := range d.ledger.Sessions[t.node] {
		if !s.BootKnown || s.Booted.NotBefore < t.span.NotBefore {
			continue
		}
		since, ok := d.trial.FaultOn(t.node, history.Between(t.span.NotBefore, s.Booted.NotBefore))
		if ok && since <= t.span.NotBefore {
			return true
		}
	}
	return false
}

// users returns what needs the volume: the pod's processes, and the containers that have it.
func (d *disks) users(t taking) []user {
	var all []user
	for _, p := range d.containers.Processes {
		if t.pod != "" && p.Pod == t.pod && p.Node == t.node {
			all = append(all, user{fmt.Sprintf("%s (pid %d)", p.Name, p.Pid), "still ran", p.From, p.To, p.MaybeTo,
				p.Events})
		}
	}
	for _, hold := range d.containers.Holdings {
		v := d.volumes.ByName[t.volume]
		mine := hold.Key == t.key && t.key != "" || v != nil && slices.Contains(v.Keys, hold.Key)
		if mine && hold.Node == t.node && (t.pod == "" || hold.Pod == t.pod) {
			all = append(all, user{hold.Holder, "still had it", hold.From, hold.To, hold.MaybeTo, hold.Events})
		}
	}
	return all
}

func (d *disks) judgeTaking(t taking) {
	after := t.span.NotAfter
	if after < world.Forever-history.Time(reaping) {
		after = after.Add(reaping)
	}
	from := "node " + t.node
	if t.pod != "" {
		from = "pod " + d.storage.PodName(t.pod) + " on node " + t.node
	}
	for _, u := range d.users(t) {
		switch {
		case u.from > t.span.NotBefore || u.maybeTo <= after:
		case u.to <= after && u.maybeTo != world.Forever && u.maybeTo.Sub(u.to) <= d.trial.Plan.Bounds.BlindGap.D():
			// Its end fell into a gap that the bound allows.
		case u.to <= after:
			d.unknown("volume %s was taken from %s at %s: whether %s %s then is not known", t.volume, from,
				d.clock(t.span.NotAfter), u.what, u.did)
		case d.first(t.node, t.pod, t.volume):
			span := history.Span{NotBefore: t.span.NotBefore, NotAfter: u.to}
			d.violation(Finding{
				Sentence: fmt.Sprintf("Volume %s was taken from %s by %s (%s) while it was in use: %s %s, at least "+
					"until %s.", t.volume, from, d.clock(t.span.NotAfter), t.how, u.what, u.did,
					d.clock(u.to)),
				Subject: "volume " + t.volume, Node: t.node, Span: span,
				Events: leading(t.events[max(0, len(t.events)-2):], u.events), Faults: d.trial.FaultsIn(t.span),
			})
		}
	}
}
