package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// Mounts judges the mount ledgers of all nodes.
//
// A mount's true life is [a, d): it appeared at a and was gone at d. The ledger knows a and d as spans. Two mounts
// certainly overlap only if they do whatever the true instants are: if the later of the two latest appearances is
// strictly before the earlier of the two earliest ends. The middles of the spans would not do, nor would touching ends:
// let A be gone somewhere in [4, 6] and B appear somewhere in [4, 8]. By the middles, A ends at 5 and B begins at 6.
// But A may have ended at 6 with B there since 4, which is an overlap, or at 4 with B there since 8, which is none. And
// if A is gone at exactly 5 and B appears at exactly 5, no instant has both.
//
// They overlap certainly, too, if one was seen to be there, and all of the time in which it can have been is within
// the time in which the other certainly was: a mount of 20 ms is shorter than the spans of its begin and end, which
// then overlap.
//
// A possible but uncertain overlap is a reason for Unknown.
//
// A mount within a container counts as a mount of its node, even if the node's own mount is gone. Volumes that may be
// on many nodes are not judged; for ReadWriteOncePod, mounts for two pods on one node are a violation too.
//
// A mount is over once the disk was provably pulled out of its node (history.Pull): what remains of it in the mount
// table and in containers reaches nothing. The span of the pull is the span of the end. A mount that appears after the
// volume was staged again on that node is not over.
func Mounts() Check {
	return Check{
		Name:    "mounts",
		When:    Continuous,
		Promise: "No volume is mounted on two nodes at once.",
		Source: "Kubernetes documentation, Persistent Volumes, access mode ReadWriteOnce: one node at a time; " +
			"kubernetes/kubernetes issues 61832 and 121937",
		Unit:  "mounts of volumes",
		Lacks: ofOwn(noIdentity),
		judge: judgeMounts,
	}
}

func judgeMounts(r *ruling) {
	volumes := r.world.Volumes()
	for _, e := range volumes.Unnamed {
		r.unknown("volume %s has no identity on node %s: its mounts cannot be told from others", e.Volume.PV,
			e.Volume.Node)
	}
	for _, e := range r.world.Pulls().Unproven {
		name := e.Pull.Volume
		if pv := r.world.Storage().ByHandle(name); pv != nil {
			name = pv.Name
		}
		r.note("volume %s: that its disk was pulled out of %s by %s counts for nothing: %s", name, e.Pull.Node,
			r.clock(e.Span.NotAfter), cmp.Or(e.Pull.Error, "that node was not shown to get nothing from it"))
	}
	used, mounted, moments := 0, false, []history.Time{}
	for _, v := range volumes.All {
		if len(v.Keys) == 0 {
			continue
		}
		mounted = true
		if v.Used {
			used++
		}
		r.note("volume %s (%s): mounts %s", v.Name, strings.Join(v.Keys, ", "), where(v))
		r.notePulled(v)
		for _, m := range v.Mounts {
			moments = append(moments, m.From)
		}
		if v.PV.ManyNodes() {
			continue
		}
		for range v.Mounts {
			r.judged("volume " + v.Name)
		}
		r.judgeOverlaps(v)
	}
	if want := r.trial.Plan.Workload.Replicas; used < want {
		r.unknown("%s seen mounted for a pod, the workload has %d: the others were never watched",
			were(used, "volume"), want)
	}
	window := r.since(moments...)
	r.sawMounts(window)
	if mounted {
		r.noteLedger(window)
	}
	held := onSharedDisk(r.trial.Plan)
	if held {
		r.sawNodes(r.world.Containers().HoldingCoverage, r.world.NodesUsed(), window)
	}
	if mounted {
		r.sawUsed(held)
	}
}

// sawUsed adds a reason for each pod that was Ready and whose volume was not seen mounted on its node or, if containers
// were watched, in none of the pod's: without this, a ledger or an observer that misses one pod would pass.
func (r *ruling) sawUsed(watched bool) {
	for _, pod := range r.world.Pods().All {
		ready := slices.IndexFunc(pod.States, (*world.PodState).Healthy)
		if ready < 0 {
			continue
		}
		var volumes []*world.VolumeLife
		for _, name := range r.world.Storage().VolumesOf(pod) {
			if v := r.world.Volumes().ByName[name]; v != nil {
				volumes = append(volumes, v)
			}
		}
		if len(volumes) == 0 {
			continue
		}
		life := history.Between(pod.States[ready].Event.Span.NotBefore, world.Forever)
		if pod.End != nil {
			life.NotAfter = max(life.NotBefore, pod.End.Event.Span.NotAfter)
		}
		// A pod has one claim here; if that was made again, it has one of two volumes.
		mounted := slices.ContainsFunc(volumes, func(v *world.VolumeLife) bool {
			return slices.ContainsFunc(v.Mounts, func(m *world.Mount) bool {
				return m.Node == pod.Node && m.Possible().PossiblyOverlaps(life)
			})
		})
		held := slices.ContainsFunc(r.world.Of(history.KindHolding), func(e *history.Event) bool {
			h := e.Holding // Without a pod it may be runc as it makes the pod's container, see readHoldings.
			_, copied := history.PlaceOf(h.Path)
			return h.Node == pod.Node && (h.PodUID == pod.UID || h.PodUID == "" && !copied) &&
				slices.ContainsFunc(volumes, func(v *world.VolumeLife) bool {
					return slices.Contains(v.Keys, h.Identity.Key())
				})
		})
		switch name := volumes[0].Name; {
		case watched && !held:
			r.unknown("volume %s was seen in no container, though pod %s, which uses it, was Ready", name, pod.Name)
		case !mounted:
			r.unknown("volume %s was not seen mounted on node %s, though pod %s, which uses it, was Ready there", name,
				pod.Node, pod.Name)
		}
	}
}

// where lists the nodes on which a volume was mounted, and how often.
func where(v *world.VolumeLife) string {
	count := map[string]int{}
	for _, m := range v.Mounts {
		count[m.Node]++
	}
	var parts []string
	for _, node := range keys(count) {
		parts = append(parts, fmt.Sprintf("%d on %s", count[node], node))
	}
	text := cmp.Or(strings.Join(parts, ", "), "none")
	if v.PV.ManyNodes() {
		text += "; not judged, since it may be on many nodes: " + world.AccessModes(v.PV.Modes)
	}
	return text
}

// noteLedger notes the longest hole of each ledger.
func (r *ruling) noteLedger(window history.Span) {
	ledger := r.world.Ledger()
	for _, node := range ledger.Everywhere(r.world) {
		if !ledger.On(node) {
			continue
		}
		unidentified := 0
		for _, s := range ledger.Sessions[node] {
			for _, m := range s.Lives {
				if m.Unknown {
					unidentified++
				}
			}
		}
		hole, at := ledger.Longest(node, window, r.trial), ""
		if hole.Length() > 0 {
			at = " from " + r.clock(hole.NotBefore)
		}
		r.note("node %s: longest blind gap %s%s; %s not identified", node, hole.Length(), at,
			plan.Count(unidentified, "mount"))
	}
}

// when says at what time two lives overlapped.
func when[T world.Spanned](r *ruling, o world.Overlap[T]) string {
	from, to := r.clock(o.Span.NotBefore), r.clock(o.Span.NotAfter)
	if o.Brief {
		return fmt.Sprintf("at some time between %s and %s", from, to)
	}
	return fmt.Sprintf("certainly from %s to %s (%s)", from, to, bounds(o.Span, o.A.Possible(), o.B.Possible()))
}

// bounds says how long two lives a and b certainly overlapped and, if that is under a second, how long they may have.
func bounds(certain, a, b history.Span) string {
	possible := history.Between(max(a.NotBefore, b.NotBefore), min(a.NotAfter, b.NotAfter))
	switch {
	case certain.Length() >= time.Second:
		return world.Lasting(certain)
	case possible.NotAfter == world.Forever:
		return world.Lasting(certain) + ", and possibly longer: its end was not seen"
	}
	return fmt.Sprintf("%s, and possibly as long as %s", world.Lasting(certain), world.Lasting(possible))
}

// judgeOverlaps reports the first overlap for each pair of nodes.
func (r *ruling) judgeOverlaps(v *world.VolumeLife) {
	name := v.Name
	if v.PV != nil && len(v.PV.Modes) > 0 {
		name += " (" + world.AccessModes(v.PV.Modes) + ")"
	}
	where := func(o world.Overlap[*world.Mount]) string {
		if o.A.Node == o.B.Node {
			return fmt.Sprintf("for two pods on %s", o.A.Node)
		}
		return fmt.Sprintf("on %s and on %s", o.A.Node, o.B.Node)
	}
	mounts := v.Reaching(r.world.Pulls())
	first := func(a, b *world.Mount) bool { return r.firstOf(v, a.Node, b.Node) }
	overlaps(mounts, v.Apart, first, func(o world.Overlap[*world.Mount]) {
		r.violation(Finding{Subject: "volume " + v.Name, Node: o.B.Node, Span: o.Span,
			Events: slices.Concat(o.A.Events, o.B.Events)},
			"Volume %s was mounted %s at once, %s: as %s and as %s.", name, where(o),
			when(r, o), r.describe(mounts, o.A, o.Span), r.describe(mounts, o.B, o.Span))
	}, func(o world.Overlap[*world.Mount]) {
		r.unknown("volume %s may have been mounted %s at once from %s on: the ledgers do not say which came first",
			v.Name, where(o), r.clock(o.Span.NotBefore))
	})
}

// overlaps calls certain for each pair of lives that must be apart and certainly overlap, and perhaps for each that may
// overlap, provided that first returns true for the pair.
func overlaps[T world.Spanned](
	lives []T, apart, first func(a, b T) bool, certain, perhaps func(world.Overlap[T]),
) {
	for _, o := range world.CertainOverlaps(lives, apart) {
		if first(o.A, o.B) {
			certain(o)
		}
	}
	for _, o := range world.Overlaps(lives, T.Possible, apart) {
		if first(o.A, o.B) {
			perhaps(o)
		}
	}
}

// describe names a mount and its pod or, for a global mount, the pods for which its node had the volume mounted then.
func (r *ruling) describe(mounts []*world.Mount, m *world.Mount, span history.Span) string {
	uids := []string{m.Pod}
	if m.Pod == "" {
		uids = nil
		for _, o := range mounts {
			if o.Node == m.Node && o.Key == m.Key && o.Pod != "" && !slices.Contains(uids, o.Pod) &&
				o.Possible().PossiblyOverlaps(span) {
				uids = append(uids, o.Pod)
			}
		}
	}
	var names []string
	for _, uid := range uids {
		names = append(names, r.world.Storage().PodName(uid))
	}
	if len(names) == 0 {
		return m.String()
	}
	return m.String() + " for pod " + strings.Join(names, " and ")
}

// notePulled notes the mounts of a volume that are over because its disk was pulled, with the evidence.
func (r *ruling) notePulled(v *world.VolumeLife) {
	count := map[*world.Pulled]int{}
	var by []*world.Pulled
	for _, m := range v.Mounts {
		if _, pull := r.world.Pulls().Cut(m); pull != nil {
			if count[pull]++; count[pull] == 1 {
				by = append(by, pull)
			}
		}
	}
	for _, pull := range by {
		var tries []string
		for _, t := range pull.Tries {
			tries = append(tries, t.String())
		}
		r.note("volume %s: %s on %s, over from %s on at the latest: its disk was pulled out of that node (%s)%s",
			v.Name, plan.Count(count[pull], "mount"), pull.Node, r.clock(pull.Event.Span.NotAfter),
			strings.Join(tries, ", "), r.ends(pull, v))
	}
}

// ends says when the database processes that used a pulled disk ended.
func (r *ruling) ends(p *world.Pulled, v *world.VolumeLife) string {
	var ends []string
	for _, proc := range r.world.Containers().Processes {
		had := slices.ContainsFunc(v.Mounts, func(m *world.Mount) bool {
			return m.Node == p.Node && m.Pod != "" && m.Pod == proc.Pod
		})
		switch at := p.Event.Span.NotBefore; {
		case !had || proc.Name != world.Database || proc.Node != p.Node || proc.From > at || proc.MaybeTo <= at:
		case proc.Ended:
			ends = append(ends, fmt.Sprintf("%s (pid %d) was gone by %s", proc.Name, proc.Pid, r.clock(proc.MaybeTo)))
		default:
			ends = append(ends, fmt.Sprintf("%s (pid %d) was not seen to end", proc.Name, proc.Pid))
		}
	}
	if len(ends) == 0 {
		return ""
	}
	return "; " + strings.Join(ends, ", ")
}
