package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
)

// calls tells what the CSI driver did with the volume. A call that fails again and again is told once.
func (c *chronicle) calls() {
	attached, failed, staged := map[string]bool{}, map[string]bool{}, map[string]int{}
	for i := range c.s.history.Events {
		e := &c.s.history.Events[i]
		v := e.CSI
		if v == nil || !v.End || c.of.handle == "" || v.Volume != c.of.handle {
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
	for i := range c.s.history.Events {
		e := &c.s.history.Events[i]
		f := e.Fault
		if f == nil {
			continue
		}
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

// apiJSON is what a chronicle wants to know of an object.
type apiJSON struct {
	Metadata struct {
		DeletionTimestamp *string `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		NodeName string `json:"nodeName"`
		Source   struct {
			Volume string `json:"persistentVolumeName"`
		} `json:"source"`
		Taints []struct {
			Key string `json:"key"`
		} `json:"taints"`
	} `json:"spec"`
	Status struct {
		Phase      string `json:"phase"`
		Attached   bool   `json:"attached"`
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

func (o apiJSON) ready() string {
	for _, c := range o.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status
		}
	}
	return ""
}

// known is what was told of an object so far.
type known struct {
	node, ready                  string
	there, attached, going, away bool
	asked                        int // The entry that told that it is to go.
	askedAt                      history.Time
	evicted                      bool
}

// objects tells what the API said of the volume, its pods, its attachments and its nodes.
func (c *chronicle) objects() {
	all := map[string]*known{}
	pods := 0
	for i := range c.s.history.Events {
		e := &c.s.history.Events[i]
		o := e.Object
		if o == nil {
			continue
		}
		key := o.Resource + "/" + firstOf(o.UID, o.Namespace+"/"+o.Name)
		k := all[key]
		if k == nil {
			k = &known{}
			all[key] = k
		}
		var raw apiJSON
		if json.Unmarshal(o.Raw, &raw) != nil && o.Verb != history.VerbDeleted {
			continue
		}
		switch o.Resource {
		case "persistentvolumes":
			if o.Name == c.of.pv && raw.Status.Phase == "Bound" && !k.there {
				k.there = true
				c.says(e, detail, "the volume is bound to claim %s of %s", c.of.claim, c.of.instance)
			}
		case "pods":
			if o.Name == c.of.instance && (c.of.namespace == "" || o.Namespace == c.of.namespace) {
				if !k.there && o.Verb != history.VerbDeleted {
					pods++
				}
				c.pod(e, k, raw, pods > 1)
			}
		case "volumeattachments":
			c.attachment(e, k, raw)
		case "nodes":
			if slices.Contains(c.nodes, o.Name) {
				c.node(e, k, raw)
			}
		}
	}
}

func (c *chronicle) says(e *history.Event, weight int, format string, args ...any) {
	c.add(entry{at: e.Span.NotAfter, who: "API", weight: weight, text: fmt.Sprintf(format, args...)})
}

func (c *chronicle) pod(e *history.Event, k *known, raw apiJSON, again bool) {
	name := fmt.Sprintf("pod %s", e.Object.Name)
	uid := short8(e.Object.UID)
	if e.Object.Verb == history.VerbDeleted {
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
			how = "is created anew"
		}
		c.says(e, detail, "%s %s, uid %s", name, how, uid)
	}
	if n := raw.Spec.NodeName; n != "" && k.node == "" {
		k.node = n
		c.says(e, detail, "%s is placed on %s", name, n)
	}
	ready := raw.ready()
	switch {
	case ready == "True" && k.ready != "True":
		c.says(e, detail, "%s (%s) is Ready", name, uid)
	case ready != "True" && k.ready == "True":
		c.says(e, minor, "%s (%s) is no longer Ready", name, uid)
	}
	k.ready = ready
	if raw.Metadata.DeletionTimestamp != nil && !k.going {
		k.going, k.asked, k.askedAt = true, len(c.entries), e.Span.NotAfter
		c.says(e, detail, "%s (%s) is to be deleted", name, uid)
	}
}

func (c *chronicle) attachment(e *history.Event, k *known, raw apiJSON) {
	if raw.Spec.Source.Volume == c.of.pv {
		k.node = firstOf(raw.Spec.NodeName, k.node)
	}
	if k.node == "" {
		return
	}
	name := "VolumeAttachment to " + k.node
	if e.Object.Verb == history.VerbDeleted {
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
	if raw.Status.Attached && !k.attached {
		k.attached = true
		c.says(e, routine, "%s is attached", name)
	}
	if raw.Metadata.DeletionTimestamp != nil && !k.going {
		k.going = true
		c.says(e, detail, "%s is to be deleted", name)
	}
}

func (c *chronicle) node(e *history.Event, k *known, raw apiJSON) {
	name := "node " + e.Object.Name
	if e.Object.Verb == history.VerbDeleted {
		c.says(e, turn, "%s is deleted", name)
		return
	}
	ready := raw.ready()
	switch {
	case k.ready == "" || k.ready == ready || ready == "":
	case ready == "True":
		c.says(e, detail, "%s is Ready again", name)
	case k.ready == "True":
		c.says(e, turn, "%s is NotReady (its Ready is %s)", name, ready)
	}
	k.ready = firstOf(ready, k.ready)
	evicted := false
	for _, t := range raw.Spec.Taints {
		evicted = evicted || t.Key == "node.kubernetes.io/out-of-service"
	}
	if evicted && !k.evicted {
		c.says(e, turn, "%s is tainted out-of-service", name)
	}
	k.evicted = evicted
}

// short8 is as much of a uid as people need to tell two apart.
func short8(uid string) string {
	if r := []rune(uid); len(r) > 8 {
		return string(r[:8])
	}
	return uid
}
