package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
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
	pv    *pvObject // Nil when the API never showed it.
	used  bool      // It was seen where the kubelet mounts volumes, for a pod or for a node.
	roots []string  // For a device: the directories by which it is a volume. Others on the device are other things.
	lives []*mountLife
}

func judgeMounts(h history.History) Result {
	r := newRuling("mounts of volumes")
	s, err := setScene(h)
	if err != nil {
		r.unknown("%v", err)
		return r.result()
	}
	ledger, objects, seen := readLedger(h), readStorage(h), readContainers(h)
	volumes := findVolumes(h, ledger, objects, seen.holdings, r)
	out := readPulls(h, s)
	out.noteUnproven(objects, s, r)
	for _, v := range volumes {
		v.note(r)
		v.cutPulled(out, seen, s, r)
		if v.pv.manyNodes() {
			continue
		}
		r.evidence += len(v.lives)
		v.judge(s, objects, r)
	}
	used := slices.DeleteFunc(slices.Clone(volumes), func(v *volume) bool { return !v.used })
	if want := s.plan.Workload.Replicas; len(used) < want {
		r.unknown("%d volumes were seen mounted for a pod, the workload has %d: the others were never watched",
			len(used), want)
	}
	window := history.Span{NotBefore: forever, NotAfter: s.lastSight(h)}
	for _, v := range volumes {
		for _, life := range v.lives {
			window.NotBefore = min(window.NotBefore, life.from)
		}
	}
	ledger.judge(h, window, s, r)
	if len(volumes) > 0 {
		ledger.note(h, window, s, r)
	}
	if onSharedDisk(h) {
		seen.holdingSight.judge(clusterNodes(h), window, s, r)
	}
	return r.result()
}

// ephemeral are the plugins whose mounts are no persistent volumes.
func ephemeral(plugin string) bool {
	switch strings.TrimPrefix(plugin, "kubernetes.io~") {
	case "configmap", "downward-api", "empty-dir", "git-repo", "image", "projected", "secret":
		return true
	}
	return false
}

// findVolumes returns the volumes in the order of their names: what a volume fact names, and what was mounted, on any
// node, where the kubelet mounts persistent volumes.
func findVolumes(h history.History, ledger *mountLedger, objects *storageObjects, held []*mountLife,
	r *ruling,
) []*volume {
	byKey := map[string]*volume{}
	named := func(key, name string) *volume {
		v := byKey[key]
		if v == nil {
			v = &volume{key: key, name: name, pv: objects.pvs[name]}
			byKey[key] = v
		}
		return v
	}
	for i := range h.Events {
		e := &h.Events[i]
		if e.Kind != history.KindVolume || e.Volume == nil {
			continue
		}
		key := e.Volume.Identity.Key()
		if key == "" {
			r.unknown("volume %s has no identity on node %s: its mounts cannot be told from others", e.Volume.PV,
				e.Volume.Node)
			continue
		}
		v := named(key, e.Volume.PV)
		v.roots = append(v.roots, ledger.rootAt(e.Volume.Node, e.Volume.Path, key))
	}
	for _, shared := range []bool{false, true} { // What all pods of a node share tells the name less plainly.
		for _, life := range ledger.lives {
			for _, path := range life.paths {
				if p, ok := placeOf(path); ok && life.key != "" && shared == (p.pod == "") {
					v := named(life.key, objects.volumeAt(p))
					v.used = true
					v.roots = append(v.roots, life.root)
					life.pod = firstOf(life.pod, p.pod)
				}
			}
		}
	}
	for _, life := range ledger.lives {
		if v := byKey[life.key]; v != nil && v.has(life.root) {
			v.lives = append(v.lives, life)
		}
	}
	for _, life := range held {
		if v := byKey[life.key]; v != nil && v.whole() {
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

// rootAt is the directory of the file system that is mounted at a path, "/" when that was not seen.
func (l *mountLedger) rootAt(node, path, key string) string {
	for _, life := range l.lives {
		if life.node == node && life.key == key && slices.Contains(life.paths, path) {
			return life.root
		}
	}
	return "/"
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
		if count[life.node] == 0 {
			nodes = append(nodes, life.node)
		}
		count[life.node]++
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
	if v.pv.manyNodes() {
		mode = "; not judged, since it may be on many nodes: " + strings.Join(v.pv.modes, ", ")
	}
	r.note("volume %s (%s): mounts %s%s", v.name, v.key, strings.Join(parts, ", "), mode)
}

// overlap is two mounts of one volume that must not be together and were, or may have been.
type overlap struct {
	a, b *mountLife
	span history.Span
}

// overlaps returns the pairs of lives that must not be together and of which the given intervals share more than an
// end.
func overlaps(lives []*mountLife, interval func(*mountLife) history.Span, apart func(a, b *mountLife) bool) []overlap {
	lives = slices.Clone(lives)
	slices.SortStableFunc(lives, func(a, b *mountLife) int {
		return cmp.Compare(interval(a).NotBefore, interval(b).NotBefore)
	})
	var out []overlap
	var active []*mountLife
	for _, b := range lives {
		begin := interval(b)
		active = slices.DeleteFunc(active, func(a *mountLife) bool { return interval(a).NotAfter <= begin.NotBefore })
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

func certainly(m *mountLife) history.Span {
	return history.Span{NotBefore: m.from, NotAfter: m.to}
}

func possibly(m *mountLife) history.Span {
	return history.Span{NotBefore: m.maybeFrom, NotAfter: m.maybeTo}
}

// apart reports that two mounts must not be there together: they are of the same directory, and on two nodes, or, for a
// volume of a single pod, for two pods.
func (v *volume) apart(a, b *mountLife) bool {
	if !strings.HasPrefix(v.key, "file:") && !nested(a.root, b.root) {
		return false
	}
	return a.node != b.node || v.pv.allows("ReadWriteOncePod") && a.pod != b.pod && a.pod != "" && b.pod != ""
}

// judge looks for overlaps, and reports the first of each pair of nodes.
func (v *volume) judge(s *scene, objects *storageObjects, r *ruling) {
	type pair struct{ a, b string }
	told := map[pair]bool{}
	first := func(o overlap) bool {
		p := pair{min(o.a.node, o.b.node), max(o.a.node, o.b.node)}
		defer func() { told[p] = true }()
		return !told[p]
	}
	name := v.name
	if v.pv != nil && len(v.pv.modes) > 0 {
		name += " (" + strings.Join(v.pv.modes, ", ") + ")"
	}
	where := func(o overlap) string {
		if o.a.node == o.b.node {
			return fmt.Sprintf("for two pods on %s", o.a.node)
		}
		return fmt.Sprintf("on %s and on %s", o.a.node, o.b.node)
	}
	for _, o := range overlaps(v.lives, certainly, v.apart) {
		if !first(o) {
			continue
		}
		r.breach(Finding{
			Promise: Mounts().Promise,
			Sentence: fmt.Sprintf("Volume %s was mounted %s at once, certainly from %s to %s (%s): as %s and as %s.",
				name, where(o), s.clock(o.span.NotBefore), s.clock(o.span.NotAfter),
				lasting(o.span),
				v.describe(o.a, o.span, objects), v.describe(o.b, o.span, objects)),
			Subject: "volume " + v.name,
			Node:    o.b.node,
			Span:    o.span,
			Events:  append(slices.Clone(o.a.events), o.b.events...),
			Faults:  s.faultsIn(o.span),
		})
	}
	for _, o := range overlaps(v.lives, possibly, v.apart) {
		if first(o) {
			r.unknown("volume %s may have been mounted %s at once from %s on: the ledgers do not say which came first",
				v.name, where(o), s.clock(o.span.NotBefore))
		}
	}
}

// describe names a mount and the pod that it is for, or the pods for which its node had the volume mounted then.
func (v *volume) describe(m *mountLife, span history.Span, objects *storageObjects) string {
	uids := []string{m.pod}
	if m.pod == "" {
		uids = nil
		for _, life := range v.lives {
			if life.node == m.node && life.pod != "" && !slices.Contains(uids, life.pod) &&
				possibly(life).PossiblyOverlaps(span) {
				uids = append(uids, life.pod)
			}
		}
	}
	var names []string
	for _, uid := range uids {
		names = append(names, objects.podName(uid))
	}
	if len(names) == 0 {
		return m.String()
	}
	return m.String() + " for pod " + strings.Join(names, " and ")
}

// clusterNodes returns the names of all nodes that the API ever showed.
func clusterNodes(h history.History) []string {
	var nodes []string
	for i := range h.Events {
		e := &h.Events[i]
		if e.Kind == history.KindObject && e.Object != nil && e.Object.Resource == "nodes" {
			if !slices.Contains(nodes, e.Object.Name) {
				nodes = append(nodes, e.Object.Name)
			}
		}
	}
	return nodes
}
