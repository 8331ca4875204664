package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/history"
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
		case "ControllerPublishVolume":
			if attached[v.For] {
				continue
			}
			attached[v.For] = true
			told.node, told.change, told.weight = v.For, change{attached: 1}, turn
			told.who, told.text = "CSI", "attached to "+v.For
		case "ControllerUnpublishVolume":
			told.who, told.text, told.weight = "CSI", "detached from "+v.For, turn
			if attached[v.For] {
				told.node, told.change = v.For, change{attached: -1}
			}
			attached[v.For] = false
		case "NodeStageVolume":
			told.text, staged[v.Node] = "staged for the node", len(c.entries)
		case "NodePublishVolume":
			told.text, told.weight = "published to the pod", detail
			if at, ok := staged[v.Node]; ok {
				told.text, c.entries[at].text = "staged and published to the pod", ""
				delete(staged, v.Node)
			}
		case "NodeUnpublishVolume":
			told.text, told.weight = "unpublished from the pod", minor
		case "NodeUnstageVolume":
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
	for _, e := range c.s.world.Of(history.KindFault) {
		f := e.Fault
		mine := f.Victim == c.of.instance
		ofNode := slices.Contains(c.nodes, f.Node) && !strings.HasPrefix(f.Name, "pod-")
		if !mine && !ofNode {
			continue
		}
		what := fmt.Sprintf("fault %s", f.Name)
		if f.Victim != "" && f.Node != "" {
			what += fmt.Sprintf(" of %s on %s", f.Victim, f.Node)
		}
		told := entry{at: e.Span.NotAfter, who: "seatrial", weight: turn}
		switch f.Stage {
		case history.StageInjected:
			told.text = what + " is injected"
		case history.StageHealed:
			told.text = what + " is healed"
			if strings.HasPrefix(f.Name, "pod-") {
				told.weight = routine // There is nothing to undo.
			}
		case history.StageFaultFailed:
			told.text = what + " failed" + because(f.Error)
		default:
			continue
		}
		c.add(told)
	}
}

// known is what was told of an object so far.
type known struct {
	node                         string
	ready                        corev1.ConditionStatus
	there, attached, going, away bool
	asked                        int // The entry that told that it is to go.
	askedAt                      history.Time
	evicted                      bool
}

// objects tells what the API said of the volume, its pods, its attachments and its nodes.
func (c *chronicle) objects() {
	all := map[string]*known{}
	of := func(e *history.Event) *known {
		key := e.Object.Resource + "/" + cmp.Or(e.Object.UID, world.Key(e.Object.Namespace, e.Object.Name))
		if all[key] == nil {
			all[key] = &known{}
		}
		return all[key]
	}
	objects := c.s.world.Objects()
	for _, v := range objects.Volumes.All {
		if k := of(v.Event); v.Name() == c.of.Name && v.Status.Phase == corev1.VolumeBound && !k.there {
			k.there = true
			c.says(v.Event, detail, "the volume is bound to claim %s of %s", c.of.PV.Claim, c.of.instance)
		}
	}
	pods := 0
	for _, p := range objects.Pods.All {
		namespace := p.Event.Object.Namespace
		if of := c.of.PV; p.Name() != c.of.instance || of != nil && of.Namespace != "" && namespace != of.Namespace {
			continue
		}
		k := of(p.Event)
		if !k.there && !p.Deleted() {
			pods++
		}
		c.pod(p, k, pods > 1)
	}
	for _, a := range objects.Attachments.All {
		c.attachment(a, of(a.Event))
	}
	for _, n := range objects.Nodes.All {
		if slices.Contains(c.nodes, n.Name()) {
			c.node(n, of(n.Event))
		}
	}
}

func (c *chronicle) says(e *history.Event, weight int, format string, args ...any) {
	c.add(entry{at: e.Span.NotAfter, who: "API", weight: weight, text: fmt.Sprintf(format, args...)})
}

func (c *chronicle) pod(p *world.Pod, k *known, again bool) {
	e := p.Event
	name := fmt.Sprintf("pod %s", e.Object.Name)
	uid := fmt.Sprintf("%.8s", e.Object.UID) // Enough to tell two apart.
	if p.Deleted() {
		if k.away {
			return
		}
		k.away = true
		if k.going && e.Span.NotAfter.Sub(k.askedAt) < time.Second && k.asked < len(c.entries) {
			c.entries[k.asked].text = ""
		}
		still := ""
		if node, ok := c.runs(e.Object.UID, e.Span.NotAfter); ok {
			still = fmt.Sprintf(", though its mysqld still runs on %s", node)
		}
		c.says(e, turn, "%s (%s) is deleted%s", name, uid, still)
		return
	}
	if !k.there {
		k.there = true
		how := "is created"
		if e.Object.Verb == history.VerbListed {
			how = "is there"
		} else if again {
			how = "is recreated"
		}
		c.says(e, detail, "%s %s, uid %s", name, how, uid)
	}
	if n := p.Spec.NodeName; n != "" && k.node == "" {
		k.node = n
		c.says(e, detail, "%s is placed on %s", name, n)
	}
	switch {
	case p.Status.Ready && k.ready != corev1.ConditionTrue:
		k.ready = corev1.ConditionTrue
		c.says(e, detail, "%s (%s) is Ready", name, uid)
	case !p.Status.Ready && k.ready == corev1.ConditionTrue:
		k.ready = corev1.ConditionFalse
		c.says(e, minor, "%s (%s) is no longer Ready", name, uid)
	}
	if p.Deleting() && !k.going {
		k.going, k.asked, k.askedAt = true, len(c.entries), e.Span.NotAfter
		c.says(e, detail, "%s (%s) is to be deleted", name, uid)
	}
}

func (c *chronicle) attachment(a *world.Attachment, k *known) {
	e := a.Event
	if of := a.Spec.Source.PersistentVolumeName; of != nil && *of == c.of.Name {
		k.node = cmp.Or(a.Spec.NodeName, k.node)
	}
	if k.node == "" {
		return
	}
	name := "VolumeAttachment to " + k.node
	if a.Deleted() {
		if !k.away {
			c.says(e, routine, "%s is deleted", name)
		}
		k.away = true
		return
	}
	if !k.there {
		k.there = true
		c.says(e, minor, "%s is created", name)
	}
	if a.Status.Attached && !k.attached {
		k.attached = true
		c.says(e, routine, "%s is attached", name)
	}
	if a.Deleting() && !k.going {
		k.going = true
		c.says(e, detail, "%s is to be deleted", name)
	}
}

func (c *chronicle) node(n *world.Node, k *known) {
	e := n.Event
	name := "node " + n.Name()
	if n.Deleted() {
		c.says(e, turn, "%s is deleted", name)
		return
	}
	var ready corev1.ConditionStatus
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			ready = condition.Status
		}
	}
	switch {
	case k.ready == "" || k.ready == ready || ready == "":
	case ready == corev1.ConditionTrue:
		c.says(e, detail, "%s is Ready again", name)
	case k.ready == corev1.ConditionTrue:
		c.says(e, turn, "%s is NotReady (its Ready is %s)", name, ready)
	}
	k.ready = cmp.Or(ready, k.ready)
	evicted := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeOutOfService
	})
	if evicted && !k.evicted {
		c.says(e, turn, "%s is tainted out-of-service", name)
	}
	k.evicted = evicted
}
