package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
)

// Fact is one API object as it was at a moment. Raw is the object in JSON, as the API server sends it. In the order of
// their moments they tell since when something is so; where there is only one fact of each object, the time stamps in
// them do.
type Fact struct {
	Resource  string // Plural, lower-case: "pods".
	Namespace string
	Name      string
	UID       string
	Version   string // The resourceVersion.
	Deleted   bool
	Raw       []byte
	Seen      history.Span // Between the two it came to be so.
	Event     int64        // In the history; 0 where there is none.
}

// Objects is what is known of the API's objects, and of the faults that were at work, at the moment At.
type Objects struct {
	At    history.Time
	Start history.Time // The begin of the trial.
	// Live says that there is no trial: moments are nanoseconds since 1970.
	Live bool
	// Faults are those of a trial that were injected by At.
	Faults []Fault

	sets     map[string]*set
	pods     map[string]*pod // As all maps but those of nodes and volumes, by "namespace/name".
	claims   map[string]*claim
	volumes  map[string]*volume
	nodes    map[string]*node
	leases   map[string]*lease
	attached map[string]*attachment
	notices  map[string][]*notice // By what they are about: "Pod namespace/name".
	gone     map[string]Moment    // Nodes, claims, volumes that were deleted, by "resource key".
	missing  []string             // What was not to be seen, and why, a sentence each.
	unseen   map[string]bool      // The resources of which nothing is known.
	offset   history.Time         // What to add to a moment to get nanoseconds since 1970.
	offsetOK bool
}

// Fault is one that was injected.
type Fault struct {
	Step           int
	Name           string
	Node, Victim   string
	Injected       Moment
	Healed         Moment // Not known while it is at work.
	controlPlane   bool
	injectedEvents []int64
}

// NewObjects returns what is known before anything is.
func NewObjects() *Objects {
	return &Objects{
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

func keysOf[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// head is what is known of every object.
type head struct {
	resource, key, uid string
	version            uint64
	seen               Moment // The last fact of it.
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

// Apply takes one fact in. What cannot be read, and what is older than what is known, changes nothing.
func (o *Objects) Apply(f Fact) {
	h := head{resource: f.Resource, key: f.Name, uid: f.UID,
		seen: Moment{At: f.Seen.NotAfter, Event: f.Event, Known: true}}
	if f.Namespace != "" && f.Resource != "leases" {
		h.key = f.Namespace + "/" + f.Name
	}
	h.version, _ = strconv.ParseUint(f.Version, 10, 64) // 0 is older than all others.
	h.first = h.seen
	switch f.Resource {
	case "statefulsets":
		apply(o, o.sets, h, f, readSet)
	case "pods":
		apply(o, o.pods, h, f, readPod)
	case "persistentvolumeclaims":
		apply(o, o.claims, h, f, (*claim).read)
	case "persistentvolumes":
		apply(o, o.volumes, h, f, (*volume).read)
	case "nodes":
		apply(o, o.nodes, h, f, readNode)
	case "leases":
		apply(o, o.leases, h, f, (*lease).read)
	case "volumeattachments":
		apply(o, o.attached, h, f, (*attachment).read)
	case "events":
		o.addNotice(h, f)
	}
}

// object is one of the kinds of objects.
type object interface{ base() *head }

func (h *head) base() *head { return h }

// apply puts a fact into the map of its kind. Read makes the object from the one before it, nil where there is none,
// and returns nil when it cannot be read.
func apply[T object](o *Objects, known map[string]T, h head, f Fact, read func(T, *Objects, head, []byte) T) {
	old, ok := known[h.key]
	if ok && old.base().version > h.version {
		return
	}
	if f.Deleted {
		delete(known, h.key)
		o.gone[f.Resource+" "+h.key] = h.seen
		return
	}
	if ok && old.base().uid == h.uid {
		h.first = old.base().first
	} else {
		var none T
		old = none
	}
	fresh := read(old, o, h, f.Raw)
	if any(fresh) == any(*new(T)) {
		return
	}
	known[h.key] = fresh
	o.tellClock(fresh.base(), f)
}

// tellClock learns from an object how far the clock of the API server is from that of the history: it was stamped, cut
// off to the second, before it was seen.
func (o *Objects) tellClock(h *head, f Fact) {
	if o.Live || h.created == 0 {
		return
	}
	o.clockAtLeast(history.Time(h.created*1e9) - f.Seen.NotAfter)
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
