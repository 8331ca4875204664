package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// Mounts judges the mount ledgers of all nodes.
//
// A mount's true life is [a, d): it appeared at a and was gone at d. The ledger knows a and d as spans. Two mounts are
// claimed to overlap only if they do whatever the true instants are: if the later of the two latest appearances is
// strictly before the earlier of the two earliest ends. Why not take the middles of the spans, or call touching ends
// an overlap: let A be gone somewhere in [4, 6] and B appear somewhere in [4, 8]. The middles say that A ends at 5 and
// B begins at 6. But A may have ended at 6 with B there since 4, which is an overlap, or at 4 with B since 8, which is
// none. And with A gone at exactly 5 and B there from exactly 5 on, no instant has both.
//
// What may have overlapped and need not have is a reason for Unknown.
//
// What a container has mounted counts as a mount of its node, even when the node's own mount is gone. A volume that may
// be on many nodes is left out; of one that is for a single pod, two pods on one node are a breach too.
//
// A mount is over once the disk was pulled out of its node, if that was shown (history.Pull): what is left of it in the
// mount table, and in containers, reaches nothing. When it was over is known as the span of the pull, like the end of
// any other mount. It is not over for mounts that come when the volume has been staged anew on that node.
func Mounts() Check {
	return Check{
		Name:    "mounts",
		Promise: "No volume is mounted on two nodes at once.",
		Source: "Kubernetes documentation, Persistent Volumes, access mode ReadWriteOnce: one node at a time; " +
			"kubernetes/kubernetes issues 61832 and 121937",
		Judge: judgeMounts,
	}
}

// volume is one storage and its mounts, on whatever node and by whoever.
type volume struct {
	key   string
	name  string    // The PersistentVolume's.
	pv    *world.PV // Nil when the API never showed it.
	used  bool      // It was seen where the kubelet mounts volumes, for a pod or for a node.
	roots []string  // For a device: the directories by which it is a volume. Others on the device are other things.
	lives []*world.Mount
}

func judgeMounts(h *world.World) Result {
	r := newRuling("mounts of volumes")
	s, err := h.Trial()
	if err != nil {
		r.unknown("%v", err)
		return r.result()
	}
	ledger, objects, seen := h.Ledger(), h.Storage(), h.Containers()
	volumes := findVolumes(h, ledger, objects, seen.Holdings, r)
	out := h.Pulls()
	noteUnproven(out, objects, s, r)
	for _, v := range volumes {
		v.note(r)
		v.cutPulled(out, seen, s, r)
		if v.pv.ManyNodes() {
			continue
		}
		r.evidence += len(v.lives)
		if len(v.lives) > 0 {
			r.looked("volume " + v.name)
		}
		v.judge(s, objects, r)
	}
	used := slices.DeleteFunc(slices.Clone(volumes), func(v *volume) bool { return !v.used })
	if want := s.Plan.Workload.Replicas; len(used) < want {
		r.unknown("%d volumes were seen mounted for a pod, the workload has %d: the others were never watched",
			len(used), want)
	}
	window := history.Span{NotBefore: world.Forever, NotAfter: s.LastSight()}
	for _, v := range volumes {
		for _, life := range v.lives {
			window.NotBefore = min(window.NotBefore, life.From)
		}
	}
	judgeLedger(ledger, h, window, s, r)
	if len(volumes) > 0 {
		noteLedger(ledger, h, window, s, r)
	}
	if onSharedDisk(h) {
		judgeSight(seen.HoldingSight, h.Nodes(), window, s, r)
	}
	return r.result()
}

// findVolumes returns the volumes in the order of their names: what a volume fact names, and what was mounted, on any
// node, where the kubelet mounts persistent volumes.
func findVolumes(h *world.World, ledger *world.Ledger, objects *world.Storage, held []*world.Mount,
	r *ruling,
) []*volume {
	byKey := map[string]*volume{}
	named := func(key, name string) *volume {
		v := byKey[key]
		if v == nil {
			v = &volume{key: key, name: name, pv: objects.Pvs[name]}
			byKey[key] = v
		}
		return v
	}
	for _, e := range h.Of(history.KindVolume) {
		key := e.Volume.Identity.Key()
		if key == "" {
			r.unknown("volume %s has no identity on node %s: its mounts cannot be told from others", e.Volume.PV,
				e.Volume.Node)
			continue
		}
		v := named(key, e.Volume.PV)
		v.roots = append(v.roots, ledger.RootAt(e.Volume.Node, e.Volume.Path, key))
	}
	for _, shared := range []bool{false, true} { // What all pods of a node share tells the name less plainly.
		for _, life := range ledger.Lives {
			for _, path := range life.Paths {
				if p, ok := world.PlaceOf(path); ok && life.Key != "" && shared == (p.Pod == "") {
					v := named(life.Key, objects.VolumeAt(p))
					v.used = true
					v.roots = append(v.roots, life.Root)
				}
			}
		}
	}
	for _, life := range ledger.Lives {
		if v := byKey[life.Key]; v != nil && v.has(life.Root) {
			v.lives = append(v.lives, life)
		}
	}
	for _, life := range held {
		if v := byKey[life.Key]; v != nil && v.whole() {
			v.lives = append(v.lives, life)
		}
	}
	var volumes []*volume
	for _, v := range byKey {
		volumes = append(volumes, v)
	}
	slices.SortFunc(volumes,
		func(a, b *volume) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.key, b.key)) })
	return volumes
}

// has reports whether a mount of the given root is of this volume. All of a file behind a loop device is one volume,
// whatever directory of it is mounted. A device may hold many: the nodes of kind share their host's disk.
func (v *volume) has(root string) bool {
	if strings.HasPrefix(v.key, "file:") {
		return true
	}
	return slices.ContainsFunc(v.roots, func(r string) bool { return nested(r, root) })
}

// whole reports that the volume is all of a file or device: of what a container has mounted, the directory is not
// known.
func (v *volume) whole() bool {
	return strings.HasPrefix(v.key, "file:") ||
		!slices.ContainsFunc(v.roots, func(root string) bool { return root != "/" })
}

// nested reports that one directory is in the other, or the same.
func nested(a, b string) bool {
	a, b = strings.TrimSuffix(a, "/")+"/", strings.TrimSuffix(b, "/")+"/"
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
}

func (v *volume) note(r *ruling) {
	count := map[string]int{}
	var nodes []string
	for _, life := range v.lives {
		if count[life.Node] == 0 {
			nodes = append(nodes, life.Node)
		}
		count[life.Node]++
	}
	slices.Sort(nodes)
	var parts []string
	for _, n := range nodes {
		parts = append(parts, fmt.Sprintf("%d on %s", count[n], n))
	}
	if len(parts) == 0 {
		parts = []string{"none"}
	}
	mode := ""
	if v.pv.ManyNodes() {
		mode = "; not judged, since it may be on many nodes: " + strings.Join(v.pv.Modes, ", ")
	}
	r.note("volume %s (%s): mounts %s%s", v.name, v.key, strings.Join(parts, ", "), mode)
}

// overlap is two mounts of one volume that must not be together and were, or may have been.
type overlap struct {
	a, b *world.Mount
	span history.Span
}

// overlaps returns the pairs of lives that must not be together and of which the given intervals share more than an
// end.
func overlaps(
	lives []*world.Mount,
	interval func(*world.Mount) history.Span,
	apart func(a, b *world.Mount) bool,
) []overlap {
	lives = slices.Clone(lives)
	slices.SortStableFunc(lives, func(a, b *world.Mount) int {
		return cmp.Compare(interval(a).NotBefore, interval(b).NotBefore)
	})
	var out []overlap
	var active []*world.Mount
	for _, b := range lives {
		begin := interval(b)
		active = slices.DeleteFunc(active, func(a *world.Mount) bool { return interval(a).NotAfter <= begin.NotBefore })
		for _, a := range active {
			end := min(interval(a).NotAfter, begin.NotAfter)
			if begin.NotBefore < end && apart(a, b) {
				out = append(out, overlap{a, b, history.Span{NotBefore: begin.NotBefore, NotAfter: end}})
			}
		}
		active = append(active, b)
	}
	return out
}

func certainly(m *world.Mount) history.Span {
	return history.Span{NotBefore: m.From, NotAfter: m.To}
}

func possibly(m *world.Mount) history.Span {
	return history.Span{NotBefore: m.MaybeFrom, NotAfter: m.MaybeTo}
}

// both is the time in which two spans overlap.
func both(a, b history.Span) history.Span {
	return history.Between(max(a.NotBefore, b.NotBefore), min(a.NotAfter, b.NotAfter))
}

// bounds says how long an overlap lasted: of one that is certain only for a moment, for how long it may have lasted
// too.
func bounds(certain, possible history.Span) string {
	switch {
	case certain.Length() >= time.Second:
		return world.Lasting(certain)
	case possible.NotAfter == world.Forever:
		return world.Lasting(certain) + ", and possibly longer: its end was not seen"
	}
	return fmt.Sprintf("%s, and possibly as long as %s", world.Lasting(certain), world.Lasting(possible))
}

// apart reports that two mounts must not be there together: they are of the same directory, and on two nodes, or, for a
// volume of a single pod, for two pods.
func (v *volume) apart(a, b *world.Mount) bool {
	if !strings.HasPrefix(v.key, "file:") && !nested(a.Root, b.Root) {
		return false
	}
	return a.Node != b.Node || v.pv.Allows("ReadWriteOncePod") && a.Pod != b.Pod && a.Pod != "" && b.Pod != ""
}

// judge looks for overlaps, and reports the first of each pair of nodes.
func (v *volume) judge(s *world.Trial, objects *world.Storage, r *ruling) {
	type pair struct{ a, b string }
	told := map[pair]bool{}
	first := func(o overlap) bool {
		p := pair{min(o.a.Node, o.b.Node), max(o.a.Node, o.b.Node)}
		defer func() { told[p] = true }()
		return !told[p]
	}
	name := v.name
	if v.pv != nil && len(v.pv.Modes) > 0 {
		name += " (" + strings.Join(v.pv.Modes, ", ") + ")"
	}
	where := func(o overlap) string {
		if o.a.Node == o.b.Node {
			return fmt.Sprintf("for two pods on %s", o.a.Node)
		}
		return fmt.Sprintf("on %s and on %s", o.a.Node, o.b.Node)
	}
	for _, o := range overlaps(v.lives, certainly, v.apart) {
		if !first(o) {
			continue
		}
		r.breach(Finding{
			Promise: Mounts().Promise,
			Sentence: fmt.Sprintf("Volume %s was mounted %s at once, certainly from %s to %s (%s): as %s and as %s.",
				name, where(o), s.Clock(o.span.NotBefore), s.Clock(o.span.NotAfter),
				bounds(o.span, both(possibly(o.a), possibly(o.b))),
				v.describe(o.a, o.span, objects), v.describe(o.b, o.span, objects)),
			Subject: "volume " + v.name,
			Node:    o.b.Node,
			Span:    o.span,
			Events:  append(slices.Clone(o.a.Events), o.b.Events...),
			Faults:  s.FaultsIn(o.span),
		})
	}
	for _, o := range overlaps(v.lives, possibly, v.apart) {
		if first(o) {
			r.unknown("volume %s may have been mounted %s at once from %s on: the ledgers do not say which came first",
				v.name, where(o), s.Clock(o.span.NotBefore))
		}
	}
}

// describe names a mount and the pod that it is for, or the pods for which its node had the volume mounted then.
func (v *volume) describe(m *world.Mount, span history.Span, objects *world.Storage) string {
	uids := []string{m.Pod}
	if m.Pod == "" {
		uids = nil
		for _, life := range v.lives {
			if life.Node == m.Node && life.Pod != "" && !slices.Contains(uids, life.Pod) &&
				possibly(life).PossiblyOverlaps(span) {
				uids = append(uids, life.Pod)
			}
		}
	}
	var names []string
	for _, uid := range uids {
		names = append(names, objects.PodName(uid))
	}
	if len(names) == 0 {
		return m.String()
	}
	return m.String() + " for pod " + strings.Join(names, " and ")
}
