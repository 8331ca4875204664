package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

const (
	restartMost = 2 * time.Second // Within which another process of the same pod is a restart.
	breakMost   = 5 * time.Second // Within which the connections of several clients break for one cause.
	gone        = time.Second     // Within which a pod is gone for the request of its end not to be told.
)

// mounts tells what the kernels had mounted. All mounts of the volume on one node are one to the reader.
func (c *chronicle) mounts() {
	ledger := c.s.World.Ledger()
	for _, node := range slices.Sorted(maps.Keys(ledger.Sessions)) {
		sessions := ledger.Sessions[node]
		ends := map[history.Time]string{} // How mounts ended, by when.
		begins := map[history.Time]string{}
		var spans []presence
		for i, s := range sessions {
			for _, m := range s.Lives {
				if !slices.Contains(c.of.Mounts, m) {
					continue
				}
				begin := "mounted"
				if m.Present {
					begin = "is mounted already when the ledger begins"
				}
				begins[m.From] = cmp.Or(begins[m.From], begin)
				to, end := c.unmounted(m, i+1 < len(sessions) && sessions[i+1].Boot != s.Boot)
				ends[to] = end
				spans = append(spans, presence{state: mounted, node: node, from: m.From, to: to})
			}
		}
		spans = join(spans)
		for _, there := range spans {
			c.add(there.from, node, turn, "%s", begins[there.from])
			if there.to != world.Forever {
				c.add(there.to, node, turn, "%s", ends[there.to])
			}
		}
		c.presence = append(c.presence, spans...)
		if len(spans) > 0 {
			c.boots(node, spans[0].from)
		}
	}
}

// unmounted returns until when a mount was there, and how it ended. One that the ledger saw when it stopped looking
// goes on until the ledger has listed the mounts of that boot again, and without an end where it never did.
func (c *chronicle) unmounted(m *world.Mount, rebooted bool) (history.Time, string) {
	_, pull := c.s.World.Pulls().Cut(m)
	switch {
	case pull != nil:
		return pull.Event.Span.NotAfter,
			"the disk is pulled out of the node while mounted: every access there is an I/O error"
	case m.Ended:
		return m.To, "unmounted"
	case rebooted:
		return m.To, "the node goes down, and the mount with it"
	}
	return m.MaybeTo, "unmounted while the ledger did not look"
}

// join joins times that overlap or meet.
func join(all []presence) []presence {
	slices.SortStableFunc(all, func(a, b presence) int { return cmp.Compare(a.from, b.from) })
	var joined []presence
	for _, p := range all {
		if n := len(joined); n > 0 && p.from <= joined[n-1].to {
			joined[n-1].to = max(joined[n-1].to, p.to)
			continue
		}
		joined = append(joined, p)
	}
	return joined
}

// boots tells when a node came up in a new boot, once it had had the volume.
func (c *chronicle) boots(node string, since history.Time) {
	boot := ""
	for _, e := range c.s.World.Of(history.KindObserver) {
		o := e.Observer
		if o.Name != "mounts" || o.Node != node || o.Boot == "" {
			continue
		}
		if boot != "" && boot != o.Boot && e.Span.NotAfter > since {
			c.add(e.Span.NotAfter, node, detail, "the node is up in a new boot")
		}
		boot = o.Boot
	}
}

// databases tells of the database processes of the pod's name, whatever the API says.
func (c *chronicle) databases() {
	var spans []presence // Of each process; one that another one follows at once lasts until that one begins.
	restarted := map[int]bool{}
	for _, p := range c.s.World.Containers().Processes {
		if p.Name != world.Database || c.s.World.Storage().PodName(p.Pod) != c.of.pod {
			continue
		}
		text, isTurn := fmt.Sprintf("mysqld starts, pid %d", p.Pid), turn
		if p.Present {
			text = fmt.Sprintf("mysqld runs already, pid %d", p.Pid)
		}
		for i, before := range c.lives {
			gap := p.From.Sub(spans[i].to)
			if before.Pod == p.Pod && before.Node == p.Node && gap >= 0 && gap < restartMost && !restarted[i] {
				text, isTurn = fmt.Sprintf("mysqld restarts: pid %d is gone, pid %d runs", before.Pid, p.Pid), detail
				spans[i].to, restarted[i] = p.From, true
				break
			}
		}
		c.add(p.From, p.Node, isTurn, "%s", text)
		to := p.To
		if !p.Ended && p.MaybeTo == world.Forever {
			to = world.Forever // Its end was not seen.
		}
		c.lives = append(c.lives, p)
		spans = append(spans, presence{state: running, node: p.Node, pod: p.Pod, from: p.From, to: to})
	}
	for i, p := range c.lives {
		if !restarted[i] && spans[i].to != world.Forever {
			c.add(p.To, p.Node, turn, "mysqld is gone, pid %d", p.Pid)
		}
	}
	c.presence = append(c.presence, spans...)
}

// calls tells what the CSI driver did with the volume. A call that fails again and again is told once.
func (c *chronicle) calls() {
	failed, staged, since := map[string]bool{}, map[string]bool{}, map[string]history.Time{}
	attachment := func(node string, to history.Time) {
		c.presence = append(c.presence, presence{state: attached, node: node, from: since[node], to: to})
		delete(since, node)
	}
	for _, e := range c.s.World.Of(history.KindCSI) {
		v, at := e.CSI, e.Span.NotAfter
		if !v.End || c.of.Handle == "" || v.Volume != c.of.Handle {
			continue
		}
		point := plan.Given(" (fault point %s)", v.Point)
		if v.Code != "OK" {
			if call := v.RPC + v.For + v.Code; !failed[call] {
				failed[call] = true
				c.add(at, v.Node, detail, "%s for %s fails: %s%s", v.RPC, v.For, v.Code, point)
			}
			continue
		}
		_, isAttached := since[v.For]
		switch v.RPC {
		case world.RPCAttach:
			if !isAttached {
				since[v.For] = at
				c.add(at, "CSI", turn, "attached to %s%s", v.For, point)
			}
		case world.RPCDetach:
			if isAttached {
				attachment(v.For, at)
				if slices.ContainsFunc(c.during(at, mounted), func(p presence) bool { return p.node == v.For }) {
					point += ", though it is still mounted there"
				}
			}
			c.add(at, "CSI", turn, "detached from %s%s", v.For, point)
		case world.RPCStage:
			staged[v.Node] = true // Told when it is published.
		case world.RPCPublish:
			text := "published to the pod"
			if staged[v.Node] {
				text = "staged and published to the pod"
			}
			staged[v.Node] = false
			c.add(at, v.Node, detail, "%s%s", text, point)
		}
	}
	for _, node := range slices.Sorted(maps.Keys(since)) {
		attachment(node, world.Forever)
	}
}

// faults tells what was done on purpose to the pod or to a node that had the volume.
func (c *chronicle) faults() {
	for _, f := range c.s.faults {
		ofPod := slices.Contains(f.Takes, plan.PartPod)
		if f.Victim != c.of.pod && (ofPod || !slices.Contains(c.nodes, f.Node)) {
			continue
		}
		what := "fault " + f.Name
		if f.Victim != "" && f.Node != "" {
			what += fmt.Sprintf(" of %s on %s", f.Victim, f.Node)
		}
		if e := f.Facts[history.StageInjected]; e != nil {
			c.add(e.Span.NotAfter, "seatrial", turn, "%s is injected", what)
		}
		if e := f.Facts[history.StageHealed]; e != nil && !ofPod { // Of a pod there is nothing to undo.
			c.add(e.Span.NotAfter, "seatrial", turn, "%s is healed", what)
		}
		for _, e := range f.Failed {
			c.add(e.Span.NotAfter, "seatrial", turn, "%s failed%s", what, because(e.Fault.Error))
		}
	}
}

// objects tells what the API said of the volume, its pods, its attachments and its nodes.
func (c *chronicle) objects() {
	w := c.s.World
	bound := func(v *world.Volume) bool { return v.Status.Phase == corev1.VolumeBound }
	if all := w.Objects().Volumes.ByKey[c.of.Name]; slices.ContainsFunc(all, bound) {
		c.says(all[slices.IndexFunc(all, bound)].Event, detail, "the volume is bound to claim %s of %s", c.of.PV.Claim,
			c.of.pod)
	}
	again := false
	for _, l := range w.Pods().All {
		pv := c.of.PV
		if l.Name == c.of.pod && (pv == nil || pv.Namespace == "" || l.Namespace == pv.Namespace) {
			c.pod(l, again)
			again = again || !l.First.Deleted()
		}
	}
	for _, a := range w.Storage().Attachments {
		asked := slices.IndexFunc(a.States, func(v *world.Attachment) bool { return v.Deleting() && !v.Deleted() })
		if a.PV == c.of.Name && a.Node != "" && asked >= 0 {
			c.says(a.States[asked].Event, detail, "VolumeAttachment to %s is to be deleted", a.Node)
		}
	}
	for _, name := range c.nodes {
		c.node(name)
	}
}

func (c *chronicle) says(e *history.Event, isTurn bool, format string, args ...any) {
	c.add(e.Span.NotAfter, "API", isTurn, format, args...)
}

// pod tells of one pod; again says that one of its name was there before.
func (c *chronicle) pod(l *world.PodLife, again bool) {
	name := "pod " + l.Name
	uid := fmt.Sprintf("%.8s", l.UID) // Enough to tell two apart.
	placed, ready := false, false
	for _, p := range l.States {
		e := p.Event
		if p.Deleted() {
			still := ""
			for _, there := range c.during(e.Span.NotAfter, running) {
				if there.pod == l.UID {
					still = fmt.Sprintf(", though its mysqld still runs on %s", there.node)
				}
			}
			if p == l.End {
				c.says(e, turn, "%s (%s) is deleted%s", name, uid, still)
			}
			continue
		}
		switch {
		case p != l.First:
		case e.Object.Verb == history.VerbListed:
			c.says(e, detail, "%s is there, uid %s", name, uid)
		case again:
			c.says(e, detail, "%s is recreated, uid %s", name, uid)
		default:
			c.says(e, detail, "%s is created, uid %s", name, uid)
		}
		if !placed && p.Spec.NodeName != "" {
			placed = true
			c.says(e, detail, "%s is placed on %s", name, p.Spec.NodeName)
		}
		switch {
		case p.Status.Ready && !ready:
			c.says(e, detail, "%s (%s) is Ready", name, uid)
		case !p.Status.Ready && ready:
			c.says(e, detail, "%s (%s) is no longer Ready", name, uid)
		}
		ready = p.Status.Ready
		if p == l.Asked && (l.End == nil || l.End.Event.Span.NotAfter.Sub(e.Span.NotAfter) >= gone) {
			c.says(e, detail, "%s (%s) is to be deleted", name, uid)
		}
	}
}

func (c *chronicle) node(of string) {
	name, was, evicted := "node "+of, corev1.ConditionStatus(""), false
	for _, n := range c.s.World.Objects().Nodes.ByKey[of] {
		if n.Deleted() {
			c.says(n.Event, turn, "%s is deleted", name)
			continue
		}
		ready := world.NodeReady(n).Status
		switch {
		case was == "" || was == ready || ready == "":
		case ready == corev1.ConditionTrue:
			c.says(n.Event, detail, "%s is Ready again", name)
		case was == corev1.ConditionTrue:
			c.says(n.Event, turn, "%s is NotReady (its Ready is %s)", name, ready)
		}
		was = cmp.Or(ready, was)
		if world.OutOfService(n) && !evicted {
			c.says(n.Event, turn, "%s is tainted out-of-service", name)
		}
		evicted = world.OutOfService(n)
	}
}

// acknowledged is a row that the server acknowledged, and by which database, nil where that is not certain.
type acknowledged struct {
	client int
	seq    int64
	span   history.Span
	by     *world.Process
}

// connection is what one client did on one connection: it keeps a connection until something goes wrong on it.
type connection struct {
	server      string
	first, last history.Span
	acks        []int // Indexes of acknowledged rows.
}

// rows tells of what the clients were promised, and of what was there in the end.
func (c *chronicle) rows() {
	c.connections()
	heard := map[*world.Process]bool{}
	for i, a := range c.acks {
		if heard[a.by] || a.by == nil && i > 0 {
			continue
		}
		heard[a.by] = true
		who, which := "clients", ""
		if a.by != nil {
			who, which = a.by.Node, fmt.Sprintf(" of pid %d", a.by.Pid)
		}
		c.add(a.span.NotAfter, who, turn, "the database%s acknowledges its first row, seq %d", which, a.seq)
	}
	c.finalRead()
}

// connections reads the answers that the clients were given, connection by connection. A database that certainly was
// not there at both ends of a connection did not answer on it; where one remains, it did.
func (c *chronicle) connections() {
	open := map[int]*connection{}
	var all []*connection
	broken := -history.Time(breakMost) // When a connection last broke.
	for _, e := range c.s.World.Of(history.KindOp) {
		op := e.Op
		if op.Instance != c.of.pod || op.Stage == history.StageInvoke {
			continue
		}
		at := open[op.Client]
		if op.Stage != history.StageOK {
			if at != nil && op.Stage == history.StageUnknown {
				if e.Span.NotAfter.Sub(broken) >= breakMost {
					c.add(e.Span.NotAfter, "clients", detail, "%s of seq %d has no certain outcome%s", op.F, op.Seq,
						because(op.Error))
				}
				broken = e.Span.NotAfter
			}
			delete(open, op.Client)
			continue
		}
		if at == nil || at.server != op.Server {
			at = &connection{server: op.Server, first: e.Span}
			open[op.Client] = at
			all = append(all, at)
		}
		at.last = e.Span
		if op.F == history.OpInsert {
			at.acks = append(at.acks, len(c.acks))
			c.acks = append(c.acks, acknowledged{client: op.Client, seq: op.Seq, span: e.Span})
		}
	}
	for _, at := range all {
		by := slices.DeleteFunc(slices.Clone(c.lives), func(l *world.Process) bool {
			return l.MaybeFrom > at.first.NotAfter || l.MaybeTo < at.last.NotBefore
		})
		for _, i := range at.acks {
			if len(by) == 1 {
				c.acks[i].by = by[0]
			}
		}
	}
	slices.SortStableFunc(c.acks, func(a, b acknowledged) int { return cmp.Compare(a.span.NotAfter, b.span.NotAfter) })
}

// counted says how many rows each database acknowledged in a span.
func (c *chronicle) counted(from, to history.Time) string {
	count := map[*world.Process]int{}
	for _, a := range c.acks {
		if a.span.NotAfter >= from && a.span.NotAfter <= to {
			count[a.by]++
		}
	}
	var parts []string
	for _, l := range c.lives {
		if l.From <= to && l.To >= from {
			parts = append(parts, fmt.Sprintf("pid %d acknowledged %s", l.Pid, plan.Count(count[l], "row")))
		}
	}
	if n := count[nil]; n > 0 {
		parts = append(parts, fmt.Sprintf("one of them %d more", n))
	}
	return strings.Join(parts, " and ")
}

// finalRead compares what was acknowledged with what was read back, when all of it was read.
func (c *chronicle) finalRead() {
	read := c.s.World.Reads(history.FinalRead)[c.of.pod]
	if read.Lacks() != "" {
		return
	}
	n := 0
	for range read.Rows() {
		n++
	}
	lost := slices.DeleteFunc(slices.Clone(c.acks), func(a acknowledged) bool { return read.Has(a.client, a.seq) })
	text := fmt.Sprintf("the final read of %s finds %s", c.of.pod, plan.Count(n, "row"))
	switch {
	case len(lost) > 0:
		first, will, who := lost[0], "a row", "clients"
		if len(lost) > 1 {
			will = fmt.Sprintf("the first of %d rows", len(lost))
		}
		if first.by != nil {
			who = first.by.Node
		}
		c.add(first.span.NotAfter, who, turn, "seq %d is acknowledged: %s that will be lost", first.seq, will)
		text += ": " + c.loss(lost)
	case len(c.acks) > 0:
		text += fmt.Sprintf(", among them all %d that were acknowledged", len(c.acks))
	}
	c.add(read.Last.NotAfter, "clients", turn, "%s", text)
}

// loss says which rows are lost, and which database acknowledged them.
func (c *chronicle) loss(lost []acknowledged) string {
	first, last := lost[0], lost[len(lost)-1]
	by := " written"
	if first.by != nil && !slices.ContainsFunc(lost, func(a acknowledged) bool { return a.by != first.by }) {
		by = fmt.Sprintf(" written to pid %d on %s", first.by.Pid, first.by.Node)
	}
	if len(lost) == 1 {
		return fmt.Sprintf("1 OF %d ACKNOWLEDGED ROWS IS LOST, seq %d,%s at %s", len(c.acks), first.seq, by,
			c.moment(first.span.NotAfter))
	}
	return fmt.Sprintf("%d OF %d ACKNOWLEDGED ROWS ARE LOST, seq %d to %d,%s from %s to %s", len(lost), len(c.acks),
		first.seq, last.seq, by, c.moment(first.span.NotAfter), c.moment(last.span.NotAfter))
}
