package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// reaping is how long a container must outlive the unmount of its volume for that to be a violation. The kubelet
// unmounts once the runtime reports the containers dead; a process not yet reaped or a mount namespace not yet torn
// down harms nothing. Processes are listed five times a second, so one that lives on is in all five lists of a second.
const reaping = time.Second

// UnpublishInUse judges every end of a pod's mount of a volume, and every call of the driver that unmounts one, against
// the processes of that pod and the mounts within its containers.
//
// If the end of a process is known only to within a span, the process counts as ended in time as long as that span is
// no longer than the bound of blind gaps; otherwise the result is Unknown. A node that goes down loses its mounts and
// its processes in any order, so mounts that end after the fault that explains it are not judged.
//
// A disk that is pulled out of a node is not an unmount; DetachOrder judges the call that pulled it.
func UnpublishInUse() Check {
	return Check{
		Name:    "unpublish-in-use",
		When:    Continuous,
		Promise: "No volume is taken from a container that lives.",
		Source: "Kubernetes, pkg/kubelet/volumemanager: a volume is unmounted once the pod's containers have ended; " +
			"kubernetes/kubernetes issues 113979 and 120150",
		Unit:  "mounts of volumes for pods",
		Lacks: ofOwn(noCalls),
		judge: judgeUnpublishInUse,
	}
}

// taking is the unmount of a volume from a pod or, if pod is "", from a node.
type taking struct {
	node, pod, volume string
	key               string // Identity key of the mount, "" if only the volume is known.
	span              history.Span
	how               string
	events            []int64
}

// user is a process or container that needs the volume.
type user struct {
	*world.Life
	what, did string
}

func judgeUnpublishInUse(r *ruling) {
	for _, t := range r.takings() {
		if !r.goingDown(t) {
			r.judgeTaking(t)
		}
	}
	window, nodes := r.podWindow(), r.world.NodesUsed()
	r.sawMounts(window)
	r.sawNodes(r.world.Containers().ProcessCoverage, nodes, window)
	if onSharedDisk(r.trial.Plan) {
		r.sawNodes(r.world.Containers().HoldingCoverage, nodes, window)
		r.sawCalls(window)
	}
}

// takings returns the unmounts. It counts all of the pods' mounts as evidence, ended or not.
func (r *ruling) takings() []taking {
	var all []taking
	for _, life := range r.world.Ledger().Lives {
		p := life.Place
		if p.Pod == "" {
			continue
		}
		volume := r.world.Storage().VolumeAt(p)
		r.judged("volume " + volume)
		if life.Ended && !r.twice(life, p) {
			all = append(all, taking{life.Node, p.Pod, volume, life.Key,
				history.Span{NotBefore: life.To, NotAfter: life.MaybeTo}, "its mount " + life.String() + " ended",
				life.Events})
		}
	}
	for _, c := range r.world.Calls().Of(world.RPCUnpublish, world.RPCUnstage) {
		p, _ := history.PlaceOf(c.Target)
		if c.Took() && (c.RPC == world.RPCUnstage || p.Pod != "") {
			t := taking{node: c.TargetNode(), volume: r.name(c), span: c.Ended(), how: c.RPC + " ended well",
				events: c.Events()}
			if c.RPC == world.RPCUnpublish {
				t.pod = p.Pod
			}
			all = append(all, t)
		}
	}
	return all
}

// twice reports whether the pod had another mount of the volume when this one ended.
func (r *ruling) twice(life *world.Mount, p history.Place) bool {
	return slices.ContainsFunc(r.world.Ledger().Lives, func(o *world.Mount) bool {
		return p.Pod == o.Place.Pod && o != life && o.Node == life.Node && o.Key == life.Key &&
			o.MaybeFrom <= life.MaybeTo && o.MaybeTo > life.MaybeTo
	})
}

// goingDown reports whether the node rebooted after the volume was unmounted, by a fault that had begun before that. A
// record that breaks off while the fault is active may lack the reboot.
func (r *ruling) goingDown(t taking) bool {
	sessions := r.world.Ledger().Sessions[t.node]
	for _, s := range sessions {
		if !s.BootKnown || s.Booted.NotBefore < t.span.NotBefore {
			continue
		}
		since, ok := r.trial.FaultOn(t.node, history.Between(t.span.NotBefore, s.Booted.NotBefore))
		if ok && since <= t.span.NotBefore {
			return true
		}
	}
	since, open := r.trial.FaultOn(t.node, history.At(world.Forever))
	return open && since <= t.span.NotBefore && !slices.ContainsFunc(sessions, func(s *world.Session) bool {
		return s.BootKnown && s.Booted.NotBefore > since
	})
}

// users returns the pod's processes and the containers that have the volume mounted.
func (r *ruling) users(t taking) []user {
	var all []user
	for _, p := range r.world.Containers().Processes {
		if t.pod != "" && p.Pod == t.pod && p.Node == t.node {
			all = append(all, user{&p.Life, fmt.Sprintf("%s (pid %d)", p.Name, p.Pid), "still ran"})
		}
	}
	for _, hold := range r.world.Containers().Holdings {
		v := r.world.Volumes().ByName[t.volume]
		mine := hold.Key == t.key && t.key != "" || v != nil && slices.Contains(v.Keys, hold.Key)
		if mine && hold.Node == t.node && (t.pod == "" || hold.Pod == t.pod) {
			all = append(all, user{&hold.Life, hold.Holder, "still had it"})
		}
	}
	return all
}

func (r *ruling) judgeTaking(t taking) {
	after := t.span.NotAfter
	if after < world.Forever-history.Time(reaping) {
		after = after.Add(reaping)
	}
	from := "node " + t.node
	if t.pod != "" {
		from = "pod " + r.world.Storage().PodName(t.pod) + " on node " + t.node
	}
	for _, u := range r.users(t) {
		switch {
		case u.From > t.span.NotBefore || u.MaybeTo <= after:
		case u.To <= after && u.MaybeTo != world.Forever && u.MaybeTo.Sub(u.To) <= r.trial.Plan.Bounds.BlindGap.D():
			// Its end fell into a gap that the bound allows.
		case u.To <= after:
			r.unknown("volume %s was taken from %s at %s: whether %s %s then is not known", t.volume, from,
				r.clock(t.span.NotAfter), u.what, u.did)
		case r.first(t.node, t.pod, t.volume):
			r.violation(Finding{Subject: "volume " + t.volume, Node: t.node, Faults: r.trial.FaultsIn(t.span),
				Span:   history.Span{NotBefore: t.span.NotBefore, NotAfter: u.To},
				Events: leading(t.events[max(0, len(t.events)-2):], u.Events)},
				"Volume %s was taken from %s by %s (%s) while it was in use: %s %s, at least until %s.", t.volume, from,
				r.clock(t.span.NotAfter), t.how, u.what, u.did, r.clock(u.To))
		}
	}
}
