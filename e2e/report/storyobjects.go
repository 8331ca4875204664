package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// calls tells what the CSI driver did with the volume. A call that fails again and again is told once.
func (c *chronicle) calls() {
	attached, failed, staged := map[string]bool{}, map[string]bool{}, map[string]int{}
	for _, e := range c.s.world.Of(history.KindCSI) {
		v := e.CSI
		if !v.End || c.of.Handle == "" || v.Volume != c.of.Handle {
			continue
		}
		told := entry{at: e.Span.NotAfter, who: v.Node, weight: routine}
		point := ""
		if v.Point != "" {
			point = fmt.Sprintf(" (fault point %s)", v.Point)
		}
		if v.Code != "OK" {
			if name := v.RPC + v.For + v.Code; !failed[name] {
				failed[name] = true
				told.weight = detail
				told.text = fmt.Sprintf("%s for %s fails: %s%s", v.RPC, v.For, v.Code, point)
				c.add(told)
			}
			continue
		}
		switch v.RPC {
		case world.RPCAttach:
			if attached[v.For] {
				continue
			}
			attached[v.For] = true
			told.node, told.change, told.weight = v.For, change{attached: 1}, turn
			told.who, told.text = "CSI", "attached to "+v.For
		case world.RPCDetach:
			told.who, told.text, told.weight = "CSI", "detached from "+v.For, turn
			if attached[v.For] {
				told.node, told.change = v.For, change{attached: -1}
			}
			attached[v.For] = false
		case world.RPCStage:
			told.text, staged[v.Node] = "staged for the node", len(c.entries)
		case world.RPCPublish:
			told.text, told.weight = "published to the pod", detail
			if at, ok := staged[v.Node]; ok {
				told.text, c.entries[at].text = "staged and published to the pod", ""
				delete(staged, v.Node)
			}
		case world.RPCUnpublish:
			told.text, told.weight = "unpublished from the pod", minor
		case world.RPCUnstage:
			told.text = "unstaged from the node"
		default:
			continue
		}
		told.text += point
		c.add(told)
	}
}

// faults tells what was done on purpose to the instance or to a node that had the volume.
func (c *chronicle) faults() {
	for _, f := range c.s.faults {
		ofPod := slices.Contains(f.Takes, plan.PartPod)
		if f.Victim != c.of.instance && (ofPod || !slices.Contains(c.nodes, f.Node)) {
			continue
		}
		what := fmt.Sprintf("fault %s", f.Name)
		if f.Victim != "" && f.Node != "" {
			what += fmt.Sprintf(" of %s on %s", f.Victim, f.Node)
		}
		tell := func(e *history.Event, weight int, text string) {
			if e != nil {
				c.add(entry{at: e.Span.NotAfter, who: "seatrial", weight: weight, text: what + text})
			}
		}
		healed := turn
		if ofPod {
			healed = routine // There is nothing to undo.
		}
		tell(f.Facts[history.StageInjected], turn, " is injected")
		tell(f.Facts[history.StageHealed], healed, " is healed")
		for _, e := range f.Failed {
			tell(e, turn, " failed"+because(e.Fault.Error))
		}
	}
}

// objects tells what the API said of the volume, its pods, its attachments and its nodes.
func (c *chronicle) objects() {
	w := c.s.world
	bound := func(v *world.Volume) bool { return v.Status.Phase == corev1.VolumeBound }
	if all := w.Objects().Volumes.ByKey[c.of.Name]; slices.ContainsFunc(all, bound) {
		c.says(all[slices.IndexFunc(all, bound)].Event, detail, "the volume is bound to claim %s of %s", c.of.PV.Claim,
			c.of.instance)
	}
	again := false
	for _, l := range w.Pods().All {
		of := c.of.PV
		if l.Name == c.of.instance && (of == nil || of.Namespace == "" || l.Namespace == of.Namespace) {
			c.pod(l, again)
			again = again || !l.First.Deleted()
		}
	}
	for _, a := range w.Storage().Attachments {
		if a.PV == c.of.Name && a.Node != "" {
			c.attachment(a)
		}
	}
	for _, name := range c.nodes {
		c.node(name)
	}
}

func (c *chronicle) says(e *history.Event, weight int, format string, args ...any) {
	c.add(entry{at: e.Span.NotAfter, who: "API", weight: weight, text: fmt.Sprintf(format, args...)})
}

// soon is how soon a pod must be gone for it not to be told that this was asked for.
const soon = time.Second

// pod tells of one pod; again says that one of its name was there before.
func (c *chronicle) pod(l *world.PodLife, again bool) {
	name := "pod " + l.Name
	uid := fmt.Sprintf("%.8s", l.UID) // Enough to tell two apart.
	placed, ready := false, false
	for _, p := range l.States {
		e := p.Event
		if p.Deleted() {
			still := ""
			if node, ok := c.runs(l.UID, e.Span.NotAfter); ok {
				still = fmt.Sprintf(", though its mysqld still runs on %s", node)
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
			c.says(e, minor, "%s (%s) is no longer Ready", name, uid)
		}
		ready = p.Status.Ready
		if p == l.Asked && (l.End == nil || l.End.Event.Span.NotAfter.Sub(e.Span.NotAfter) >= soon) {
			c.says(e, detail, "%s (%s) is to be deleted", name, uid)
		}
	}
}

func (c *chronicle) attachment(life *world.AttachmentLife) {
	name := "VolumeAttachment to " + life.Node
	first := func(weight int, what string, is func(*world.Attachment) bool) {
		if i := slices.IndexFunc(life.States, is); i >= 0 {
			c.says(life.States[i].Event, weight, "%s is %s", name, what)
		}
	}
	first(minor, "created", func(a *world.Attachment) bool { return !a.Deleted() })
	first(routine, "attached", world.Attached)
	first(detail, "to be deleted", func(a *world.Attachment) bool { return a.Deleting() && !a.Deleted() })
	first(routine, "deleted", (*world.Attachment).Deleted)
}

func (c *chronicle) node(of string) {
	name, was, evicted := "node "+of, corev1.ConditionStatus(""), false
	for _, n := range c.s.world.Objects().Nodes.ByKey[of] {
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
