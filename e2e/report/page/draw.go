package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/world"
)

type drawer struct {
	drawing
	world      *world.World
	kubelets   []report.LogLine
	start, end history.Time
	shown      []int64 // Facts that marks point at, those of findings first.
}

func draw(j report.Judged) *drawer {
	d := &drawer{world: j.World, kubelets: j.Kubelets, start: j.World.Begin(), end: j.World.Last()}
	d.Origin, d.To = int64(d.start), d.ms(d.end)
	for _, c := range j.Report.Causes() {
		for _, f := range c.Found {
			d.Findings = append(d.Findings, d.bar(f.Span.NotBefore, f.Span.NotAfter, "finding",
				f.Check+": "+f.Sentence, f.Events...))
		}
	}
	if first := report.Summarize(j).First; first != nil {
		d.Focus = &[2]float64{d.ms(first.Span.NotBefore), d.ms(first.Span.NotAfter)}
		for _, f := range j.Report.Causes()[0].Found {
			d.Focus[1] = max(d.Focus[1], d.ms(f.Span.NotAfter))
		}
	}
	d.phases()
	d.faults()
	d.nodes()
	d.instances()
	d.notices()
	d.facts()
	return d
}

func (d *drawer) ms(t history.Time) float64 {
	return float64(min(max(t, d.start), d.end)-d.start) / 1e6
}

// bar is a bar of what lasts from one moment to another; world.Forever is no end.
func (d *drawer) bar(from, to history.Time, kind, text string, facts ...int64) bar {
	return bar{A: d.ms(from), B: d.ms(to), Open: to >= d.end, Kind: kind, Text: text, Facts: d.see(facts...)}
}

// life is the bar of a life, whose begin and end may be uncertain.
func (d *drawer) life(l *world.Life, kind, text string) bar {
	b := d.bar(l.From, l.To, kind, text, l.Events...)
	if !l.Ended {
		b.B, b.Open = d.ms(l.MaybeTo), l.MaybeTo >= d.end
	}
	from, to := d.ms(l.MaybeFrom), d.ms(l.MaybeTo)
	if from < b.A && l.MaybeFrom > 0 {
		b.MA = &from
	}
	if to > b.B {
		b.MB = &to
	}
	return b
}

// see keeps facts for the page.
func (d *drawer) see(ids ...int64) []int64 {
	d.shown = append(d.shown, ids...)
	return ids
}

// phases are those of the trial that ended, without its steps.
func (d *drawer) phases() {
	for _, p := range d.world.Phases() {
		if p.Begin == nil || p.End == nil || p.Begin.Phase.Step > 0 {
			continue
		}
		name := string(p.Begin.Phase.Name)
		d.Phases = append(d.Phases, d.bar(p.Begin.Span.NotAfter, p.End.Span.NotBefore, name,
			name+plan.Given(": %s", p.End.Phase.Error), p.End.ID))
	}
}

// faults are those of the plan, in the order of its steps.
func (d *drawer) faults() {
	t, err := d.world.Trial()
	if err != nil {
		return
	}
	for _, f := range t.Faults {
		lane := faultLane{Name: f.String(), Where: strings.TrimSpace(f.Node + " " + f.Victim)}
		if active, ok := f.Active(); ok {
			b := d.bar(active.NotBefore, active.NotAfter, "active", lane.Name+" on "+cmp.Or(lane.Where, "the cluster"))
			lane.Active = &b
		}
		for _, e := range d.world.Of(history.KindFault) {
			if e.Fault.Step != f.Step {
				continue
			}
			text := string(e.Fault.Stage) +
				plan.Given(": %s", cmp.Or(e.Fault.Error, strings.Join(e.Fault.Evidence, "; ")))
			lane.Stages = append(lane.Stages,
				d.bar(e.Span.NotBefore, e.Span.NotAfter, string(e.Fault.Stage), text, e.ID))
		}
		d.Faults = append(d.Faults, lane)
	}
}

// nodes are those that the API showed, control plane first.
func (d *drawer) nodes() {
	objects := d.world.Objects()
	names := d.world.Nodes()
	slices.Sort(names)
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(fmt.Sprint(d.world.IsControlPlane(b)), fmt.Sprint(d.world.IsControlPlane(a)))
	})
	for _, name := range names {
		lane := nodeLane{Name: name}
		for _, n := range objects.Nodes.All {
			if n.Name() == name && !n.Deleted() {
				d.extend(&lane.Ready, "Ready "+string(cmp.Or(world.NodeReady(n).Status, "not told")), n.Event)
			}
		}
		d.close(lane.Ready)
		for _, l := range objects.Leases.All {
			if l.Name() == name {
				lane.Leases = append(lane.Leases, d.ms(l.Event.Span.NotAfter))
			}
		}
		lane.Blind = d.blind(name)
		lane.Volumes = d.managed(name)
		d.Nodes = append(d.Nodes, lane)
	}
	if unseen := d.blind(""); len(unseen) > 0 {
		d.Nodes = append(d.Nodes, nodeLane{Name: "API watch", Blind: unseen})
	}
}

// managed is what the kubelet of a node said of the volumes of each plugin: "as-desired", or "off" while what it should
// have differs from what it has.
func (d *drawer) managed(node string) []bar {
	var out []bar
	last := map[string]int{} // The bar of a plugin that goes on, by its index.
	for _, e := range d.world.Of(history.KindVolumeManager) {
		m := e.VolumeManager
		if m.Node != node {
			continue
		}
		at := d.ms(e.Span.NotAfter)
		for plugin, i := range last {
			if plugin == m.Plugin || m.Error != "" {
				out[i].B, out[i].Open = at, false
				delete(last, plugin)
			}
		}
		if m.Error != "" || m.Desired == 0 && m.Actual == 0 {
			continue
		}
		kind := "as-desired"
		if m.Desired != m.Actual {
			kind = "off"
		}
		text := fmt.Sprintf("kubelet of %s, %s: %s desired, %d actual", node, m.Plugin,
			plan.Count(m.Desired, "volume"), m.Actual)
		if m.Failed > 0 {
			text += fmt.Sprintf("; %s failed since it started", plan.Count(m.Failed, "operation"))
		}
		last[m.Plugin] = len(out)
		out = append(out, bar{A: at, B: d.To, Open: true, Kind: kind, Text: text, Facts: d.see(e.ID)})
	}
	return out
}

// extend adds a state to those of something that always has one; the same as before is no new bar.
func (d *drawer) extend(bars *[]bar, kind string, e *history.Event) {
	at := d.ms(e.Span.NotAfter)
	if n := len(*bars); n > 0 {
		last := &(*bars)[n-1]
		if last.Kind == kind {
			return
		}
		last.B = at
	}
	*bars = append(*bars, bar{A: at, B: at, Kind: kind, Text: kind, Facts: d.see(e.ID)})
}

// close lets the last state go on to the end of the record.
func (d *drawer) close(bars []bar) {
	if n := len(bars); n > 0 {
		bars[n-1].B, bars[n-1].Open = d.To, true
	}
}

// blind is when observers on a node, or of the API where the node is "", did not see.
func (d *drawer) blind(node string) []bar {
	var out []bar
	for _, e := range d.world.Of(history.KindObserver) {
		o := e.Observer
		if o.Node != node || o.State != history.ObserverGap && o.State != history.ObserverLoss ||
			strings.HasPrefix(o.Name, "client/") {
			continue
		}
		text := fmt.Sprintf("%s: blind for %s", o.Name, e.Span.Length().Round(time.Millisecond))
		out = append(out, d.bar(e.Span.NotBefore, e.Span.NotAfter, "blind", text, e.ID))
	}
	return out
}

// instances are the pods of StatefulSets by their names, each with its volumes.
func (d *drawer) instances() {
	lanes := map[string]*instanceLane{}
	var order []*world.PodLife // One of each name.
	for _, p := range d.world.Pods().All {
		if p.Set == nil {
			continue
		}
		if lanes[p.Name] == nil {
			lanes[p.Name] = &instanceLane{Name: p.Name}
			order = append(order, p)
		}
		lanes[p.Name].Pods = append(lanes[p.Name].Pods, d.pod(p)...)
	}
	slices.SortStableFunc(order, func(a, b *world.PodLife) int {
		return cmp.Or(cmp.Compare(a.Set.Name, b.Set.Name), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	for _, v := range d.world.Volumes().All {
		if lane := lanes[d.world.Owner(v)]; lane != nil {
			lane.Volumes = append(lane.Volumes, d.volume(v, lane.Name))
		}
	}
	d.roles(lanes)
	d.answers(lanes)
	for _, p := range order {
		d.Instances = append(d.Instances, *lanes[p.Name])
	}
}

// askedWithin is longer, in milliseconds, than it takes from one answer of an instance that is asked again and again to
// the next: for longer nothing is known.
const askedWithin = 5000

// roles is what each instance was in its group, as it said, and what a promoter did with it.
func (d *drawer) roles(lanes map[string]*instanceLane) {
	for _, e := range d.world.Of(history.KindMember, history.KindPromotion) {
		if p := e.Promotion; p != nil {
			if lane := lanes[p.Instance]; lane != nil {
				text := fmt.Sprintf("promoter: %s %s%s%s", p.Act, p.Instance, plan.Given(", as %s", p.Why),
					plan.Given("; it failed: %s", p.Error))
				lane.Acts = append(lane.Acts, d.bar(e.Span.NotBefore, e.Span.NotAfter, "said", text, e.ID))
			}
			continue
		}
		m := e.Member
		lane := lanes[m.Instance]
		if lane == nil {
			continue
		}
		kind, text := "follows", "takes no writes"
		switch {
		case m.Error != "":
			kind, text = "apart", "gives no answer: "+m.Error
		case m.Writable:
			kind, text = "writes", "takes writes"
		case m.State != "" && !strings.HasPrefix(m.State, "ONLINE"):
			kind = "apart"
		}
		if n := len(lane.Roles); n > 0 && d.ms(e.Span.NotAfter)-lane.Roles[n-1].B > askedWithin {
			lane.Roles = append(lane.Roles, bar{A: d.ms(e.Span.NotBefore), Kind: kind, Facts: d.see(e.ID)})
		} else {
			d.extend(&lane.Roles, kind, e)
		}
		last := &lane.Roles[len(lane.Roles)-1]
		last.B, last.Text = d.ms(e.Span.NotAfter), m.Instance+" "+text+plan.Given(", is %s", m.State)
	}
}

// pod is the life of a pod: what it was, and on which node.
func (d *drawer) pod(p *world.PodLife) []bar {
	var bars []bar
	for _, s := range p.States {
		if s.Deleted() {
			break
		}
		kind := "pending"
		switch {
		case s.Deleting():
			kind = "ending"
		case s.Healthy():
			kind = "ready"
		case s.Status.Running:
			kind = "running"
		}
		d.extend(&bars, kind, s.Event)
		bars[len(bars)-1].Text = fmt.Sprintf("pod %s on %s, uid %s: %s", p.Name, cmp.Or(p.Node, "no node"), p.UID, kind)
	}
	if p.End != nil && len(bars) > 0 {
		bars[len(bars)-1].B = d.ms(p.End.Event.Span.NotAfter)
		bars[len(bars)-1].Facts = append(bars[len(bars)-1].Facts, d.see(p.End.Event.ID)...)
	} else {
		d.close(bars)
	}
	return bars
}

// volume is a volume and what each node had of it.
func (d *drawer) volume(v *world.VolumeLife, instance string) volumeLane {
	lane := volumeLane{Name: v.Name}
	rows := map[string]*nodeRow{}
	on := func(node string) *nodeRow {
		if rows[node] == nil {
			rows[node] = &nodeRow{Node: node}
		}
		return rows[node]
	}
	for _, a := range d.world.Storage().Attachments {
		if a.PV != v.Name {
			continue
		}
		for _, p := range a.Periods() {
			to, facts := world.Forever, []int64{p.Begin.ID}
			if p.End != nil {
				to, facts = p.End.Span.NotBefore, append(facts, p.End.ID)
			}
			on(a.Node).Attached = append(on(a.Node).Attached, d.bar(p.Begin.Span.NotAfter, to, "attached",
				"VolumeAttachment of "+v.Name+" to "+a.Node+": attached", facts...))
		}
	}
	for node, bars := range d.attachedByKubelets(v) {
		on(node).Attached = append(on(node).Attached, bars...)
	}
	for _, m := range v.Mounts {
		on(m.Node).Mounted = append(on(m.Node).Mounted, d.life(&m.Life, "mounted", "mounted as "+m.String()))
	}
	for _, p := range d.world.Containers().Processes {
		if p.Name == world.Database && d.world.Storage().PodName(p.Pod) == instance {
			on(p.Node).Processes = append(on(p.Node).Processes,
				d.life(&p.Life, fmt.Sprint(p.Pid), fmt.Sprintf("%s, pod uid %s", p, p.Pod)))
		}
	}
	for _, l := range d.kubelets {
		if at := float64(l.At.Microseconds()) / 1000; l.Volume == v.Name {
			on(l.Node).Said = append(on(l.Node).Said, bar{A: at, B: at, Text: "kubelet: " + l.Text})
		}
	}
	for _, node := range slices.Sorted(maps.Keys(rows)) {
		lane.Rows = append(lane.Rows, *rows[node])
	}
	slices.SortStableFunc(lane.Rows, func(a, b nodeRow) int { return cmp.Compare(a.first(), b.first()) })
	lane.Overlaps = d.overlaps(v)
	return lane
}

// attachedByKubelets is when each node had the volume attached by its kubelet, which makes no VolumeAttachment: the
// driver's table tells, after each call.
func (d *drawer) attachedByKubelets(v *world.VolumeLife) map[string][]bar {
	trial, err := d.world.Trial()
	if err != nil || trial.Plan.Workload.Attacher == "" {
		return nil
	}
	out := map[string][]bar{}
	for _, c := range d.world.Calls().Of(world.RPCAttach, world.RPCDetach) {
		if c.Volume != v.Handle || c.End == nil {
			continue
		}
		node, at := c.TargetNode(), c.End.Span.NotAfter
		bars, has := out[node], slices.Contains(c.Attached, c.TargetNode())
		switch n := len(bars); {
		case has && (n == 0 || !bars[n-1].Open):
			out[node] = append(bars, d.bar(at, world.Forever, "attached",
				v.Name+" is attached to "+node+" by its kubelet", c.End.ID))
		case !has && n > 0 && bars[n-1].Open:
			bars[n-1].B, bars[n-1].Open = d.ms(at), false
			bars[n-1].Facts = append(bars[n-1].Facts, d.see(c.End.ID)...)
		}
	}
	return out
}

// overlaps are when the volume certainly was mounted on two nodes at once. Pairs of mounts that overlap at one time are
// one.
func (d *drawer) overlaps(v *world.VolumeLife) []bar {
	if v.PV.ManyNodes() {
		return nil
	}
	pairs := world.CertainOverlaps(v.Reaching(d.world.Pulls()), v.Apart)
	slices.SortStableFunc(pairs, func(a, b world.Overlap[*world.Mount]) int {
		return cmp.Compare(a.Span.NotBefore, b.Span.NotBefore)
	})
	var out []bar
	for _, o := range pairs {
		text := fmt.Sprintf("%s is mounted on %s and on %s at once", v.Name, o.A.Node, o.B.Node)
		if o.Brief {
			text += ", at some time in this span"
		}
		b := d.bar(o.Span.NotBefore, o.Span.NotAfter, "overlap", text,
			slices.Concat(o.A.Events, o.B.Events)...)
		if n := len(out); n > 0 && b.A <= out[n-1].B {
			last := &out[n-1]
			last.B, last.Open = max(last.B, b.B), last.Open || b.Open
			last.Facts = append(last.Facts, b.Facts...)
			continue
		}
		out = append(out, b)
	}
	return out
}

// first is when the node first had the volume.
func (r *nodeRow) first() float64 {
	at := 1e18
	for _, b := range slices.Concat(r.Attached, r.Mounted, r.Processes, r.Said) {
		at = min(at, b.A)
	}
	return at
}

// notices are the Events of the API.
func (d *drawer) notices() {
	for _, n := range d.world.Objects().Notices.All {
		if n.Deleted() || n.Event.Object.Verb == history.VerbListed {
			continue
		}
		of := n.Spec
		at := n.Event.Span.NotAfter
		d.Notices = append(d.Notices, d.bar(at, at, of.Type, fmt.Sprintf("%s %s: %s: %s", of.InvolvedObject.Kind,
			of.InvolvedObject.Name, of.Reason, of.Message), n.Event.ID))
	}
}

func ms(t time.Duration) float64 { return float64(t) / float64(time.Millisecond) }
