package explain

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// Objects is what is known of the API's objects, and of the faults that were at work, at the moment At.
type Objects struct {
	At    history.Time
	Start history.Time // The begin of the trial.
	// Live says that there is no trial: moments are nanoseconds since 1970.
	Live bool
	// Faults are those of a trial that were injected by At.
	Faults []Fault

	decoded  map[*history.Event]any // The objects of a world, by their events; nil where there is no world.
	read     *world.Objects         // Reads those of no world.
	sets     map[string]*set
	pods     map[string]*pod // As all maps but those of nodes and volumes, by "namespace/name".
	claims   map[string]*claim
	volumes  map[string]*volume
	nodes    map[string]*node
	leases   map[string]*lease
	attached map[string]*attachment
	notices  map[string][]*notice // By what they are about: "Pod namespace/name".
	gone     map[string]Moment    // What was deleted, by "resource key".
	missing  []string             // What was not to be seen, and why, a sentence each.
	unseen   map[string]bool      // The resources of which nothing is known.
	offset   history.Time         // What to add to a moment to get nanoseconds since 1970.
	offsetOK bool
}

// Fault is one that was injected.
type Fault struct {
	world.Fault
	Injected       Moment
	Healed         Moment // Not known while it is at work.
	injectedEvents []int64
}

// NewObjects returns what is known before anything is.
func NewObjects() *Objects {
	return &Objects{
		read: world.NewObjects(),
		sets: map[string]*set{}, pods: map[string]*pod{}, claims: map[string]*claim{}, volumes: map[string]*volume{},
		nodes: map[string]*node{}, leases: map[string]*lease{}, attached: map[string]*attachment{},
		notices: map[string][]*notice{}, gone: map[string]Moment{}, unseen: map[string]bool{},
	}
}

// NewLive returns what is known of a cluster before it was asked anything, now.
func NewLive(now time.Time) *Objects {
	o := NewObjects()
	o.Live, o.At, o.offsetOK = true, history.Time(now.UnixNano()), true
	return o
}

// Unseen says that nothing is known of the objects of a resource, and why, as a sentence: they may hold the cause.
func (o *Objects) Unseen(resource, why string) {
	o.unseen[resource] = true
	o.missing = append(o.missing, why)
}

// Sets returns the StatefulSets there are, as "namespace/name", in order.
func (o *Objects) Sets() []string { return keysOf(o.sets) }

func keysOf[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// head is what is known of every object beside the object.
type head struct {
	resource, key, uid string
	version            uint64
	seen               Moment // The last event of it.
	first              Moment
	created            int64 // Seconds since 1970.
}

func (h *head) evidence(field string) Evidence {
	if h == nil {
		return Evidence{Field: field}
	}
	return Evidence{Event: h.seen.Event, Object: h.resource + " " + h.key, Field: field}
}

func (h *head) name() string { return h.key[strings.LastIndexByte(h.key, '/')+1:] }

func (h *head) base() *head { return h }

// Apply takes in an event that shows an API object. What cannot be read, and what is older than what is known, changes
// nothing.
func (o *Objects) Apply(e *history.Event) {
	switch e.Object.Resource {
	case "statefulsets":
		apply(o, o.sets, o.read.StatefulSets, e, readSet)
	case "pods":
		apply(o, o.pods, o.read.Pods, e, readPod)
	case "persistentvolumeclaims":
		apply(o, o.claims, o.read.Claims, e, func(_ *claim, _ *Objects, h head, c *world.Claim) *claim {
			return &claim{h, c}
		})
	case "persistentvolumes":
		apply(o, o.volumes, o.read.Volumes, e, func(_ *volume, _ *Objects, h head, v *world.Volume) *volume {
			return &volume{h, v}
		})
	case "nodes":
		apply(o, o.nodes, o.read.Nodes, e, readNode)
	case "leases":
		apply(o, o.leases, o.read.Leases, e, readLease)
	case "volumeattachments":
		apply(o, o.attached, o.read.Attachments, e,
			func(_ *attachment, _ *Objects, h head, a *world.Attachment) *attachment { return &attachment{h, a} })
	case "events":
		if n, ok := decoded(o, o.read.Notices, e); ok {
			o.addNotice(n)
		}
	}
}

// decoded returns the object that an event shows, false where it cannot be read.
func decoded[S, T any](o *Objects, all *world.Versions[S, T], e *history.Event) (*world.Object[S, T], bool) {
	if object, ok := o.decoded[e].(*world.Object[S, T]); ok {
		return object, true
	}
	o.read.Add(e)
	if n := len(all.All); n > 0 && all.All[n-1].Event == e {
		return all.All[n-1], true
	}
	return nil, false
}

// share reads the objects of a world instead of decoding them again.
func (o *Objects) share(w *world.World) {
	all := w.Objects()
	o.decoded = map[*history.Event]any{}
	index(o.decoded, all.StatefulSets)
	index(o.decoded, all.Pods)
	index(o.decoded, all.Claims)
	index(o.decoded, all.Volumes)
	index(o.decoded, all.Nodes)
	index(o.decoded, all.Leases)
	index(o.decoded, all.Attachments)
	index(o.decoded, all.Notices)
}

func index[S, T any](into map[*history.Event]any, all *world.Versions[S, T]) {
	for _, v := range all.All {
		into[v.Event] = v
	}
}

// apply puts an object into the map of its kind. Build makes it from the one before it, nil where there is none.
func apply[O interface {
	comparable
	base() *head
}, S, T any](
	o *Objects, known map[string]O, all *world.Versions[S, T], e *history.Event,
	build func(O, *Objects, head, *world.Object[S, T]) O,
) {
	v, ok := decoded(o, all, e)
	if !ok {
		return
	}
	seen := Moment{At: e.Span.NotAfter, Event: e.ID, Known: true}
	h := head{resource: e.Object.Resource, key: v.Key(), uid: v.UID(), version: v.Version, seen: seen, first: seen,
		created: seconds(v.Meta.CreationTimestamp)}
	if h.resource == "leases" {
		h.key = v.Name() // They are looked up by the name of their node.
	}
	old, ok := known[h.key]
	if ok && old.base().version > h.version {
		return
	}
	if v.Deleted() {
		delete(known, h.key)
		o.gone[h.resource+" "+h.key] = h.seen
		return
	}
	if ok && old.base().uid == h.uid {
		h.first = old.base().first
	} else {
		var none O
		old = none
	}
	known[h.key] = build(old, o, h, v)
	// The API server stamped it, cut off to the second, before it was seen: so far is its clock from the history's.
	if !o.Live && h.created != 0 {
		o.clockAtLeast(history.Time(h.created*1e9) - e.Span.NotAfter)
	}
}

func seconds(t metav1.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// mostOrdinals bounds how many ordinals are looked at: a number in a damaged history keeps nobody busy for ever.
const mostOrdinals = 4096

// set is a StatefulSet.
type set struct {
	head
	world.Demand
	*world.StatefulSet
	replicas int    // Demand.Replicas, bounded.
	changed  Moment // Its generation.
}

func readSet(old *set, o *Objects, h head, v *world.StatefulSet) *set {
	s := &set{head: h, StatefulSet: v, Demand: v.Spec.Demand,
		replicas: max(0, min(v.Spec.Demand.Replicas, mostOrdinals)), changed: h.seen}
	if old != nil && old.Meta.Generation == v.Meta.Generation {
		s.changed = old.changed
	}
	if o.Live {
		s.changed = Moment{}
	}
	return s
}

// recreate is a strategy of updates beside world.RollingUpdate and world.OnDelete.
const recreate = "Recreate"

func (s *set) pod(ordinal int) string { return s.name() + "-" + strconv.Itoa(ordinal) }

func (s *set) namespace() string { return s.Event.Object.Namespace }

type claim struct {
	head
	*world.Claim
}

type volume struct {
	head
	*world.Volume
}

type attachment struct {
	head
	*world.Attachment
}

// volume is the PersistentVolume that is attached; empty for one that a pod names itself.
func (a *attachment) volume() string {
	if name := a.Spec.Source.PersistentVolumeName; name != nil {
		return *name
	}
	return ""
}

type lease struct {
	head
	*world.Lease
}

func readLease(_ *lease, o *Objects, h head, v *world.Lease) *lease {
	if at := v.Spec.RenewTime; !o.Live && at != nil && !at.IsZero() {
		o.clockAtLeast(history.Time(at.UnixNano()) - h.seen.At)
	}
	return &lease{h, v}
}

// notice is an Event of the API.
type notice struct {
	head
	*corev1.Event
	last Moment
}

// mostNotices bounds how many Events are kept of one object.
const mostNotices = 64

func (o *Objects) addNotice(v *world.Notice) {
	if v.Deleted() {
		return
	}
	seen := Moment{At: v.Event.Span.NotAfter, Event: v.Event.ID, Known: true}
	n := &notice{head: head{resource: "events", key: v.Key(), uid: v.UID(), version: v.Version, seen: seen},
		Event: v.Spec, last: seen}
	if o.Live {
		n.last = o.stamped(max(seconds(n.LastTimestamp), seconds(metav1.Time(n.EventTime))))
	}
	about := n.InvolvedObject.Kind + " " + v.Event.Object.Namespace + "/" + n.InvolvedObject.Name
	list := slices.DeleteFunc(o.notices[about], func(old *notice) bool { return old.key == n.key })
	if len(list) >= mostNotices {
		list = list[1:]
	}
	o.notices[about] = append(list, n)
}

// noticed returns the last Event about an object with one of the reasons, nil where there is none. A uid of "" is any.
func (o *Objects) noticed(kind, key, uid string, reasons ...string) *notice {
	var found *notice
	for _, n := range o.notices[kind+" "+key] {
		of := string(n.InvolvedObject.UID)
		if uid != "" && of != "" && of != uid || !slices.Contains(reasons, n.Reason) {
			continue
		}
		if found == nil || n.last.At >= found.last.At {
			found = n
		}
	}
	return found
}

func (o *Objects) clockAtLeast(offset history.Time) {
	if !o.offsetOK || offset > o.offset {
		o.offset, o.offsetOK = offset, true
	}
}

// wall returns nanoseconds since 1970 at a moment, and false when that is not known.
func (o *Objects) wall(t history.Time) (int64, bool) { return int64(t + o.offset), o.offsetOK }

// stamped returns the moment of a time stamp, in seconds since 1970.
func (o *Objects) stamped(seconds int64) Moment {
	if seconds == 0 || !o.offsetOK {
		return Moment{}
	}
	return Moment{At: history.Time(seconds*1e9) - o.offset, Known: true}
}

// began returns since when something is so: since the last fact, when it was otherwise in one before; since the stamp,
// when it never was seen otherwise, or since it was seen at all.
func (o *Objects) began(h head, changed bool, stamp int64) Moment {
	if changed && !o.Live {
		return h.seen
	}
	if at := o.stamped(stamp); at.Known && at.At <= h.seen.At {
		at.Event = h.seen.Event
		return at
	}
	if o.Live {
		return Moment{}
	}
	return h.seen
}

// clock tells a moment to people.
func (o *Objects) clock(m Moment) string {
	switch {
	case !m.Known:
		return ""
	case o.Live:
		return time.Unix(0, int64(m.At)).UTC().Format("2006-01-02 15:04:05 UTC")
	}
	return fmt.Sprintf("%+.1f s", m.At.Sub(o.Start).Seconds())
}

// since is " since +31.2 s", and nothing when it is not known since when.
func (o *Objects) since(m Moment) string {
	if !m.Known {
		return ""
	}
	return " since " + o.clock(m)
}

// lasted returns how long ago a moment was, 0 when it is not known.
func (o *Objects) lasted(m Moment) time.Duration {
	if !m.Known || m.At > o.At {
		return 0
	}
	return o.At.Sub(m.At)
}

// Lasting renders a duration as people say it: to a tenth of a second below a minute.
func Lasting(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}
