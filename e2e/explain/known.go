package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// known is what a world had told by the moment at.
type known struct {
	at, start history.Time
	live      bool             // The world is a cluster as it is now: moments are nanoseconds since 1970.
	facts     []*history.Event // Of faults.
	faults    []fault

	sets     kind[world.SetSpec, appsv1.StatefulSetStatus]
	pods     kind[corev1.PodSpec, world.PodStatus]
	claims   kind[corev1.PersistentVolumeClaimSpec, corev1.PersistentVolumeClaimStatus]
	volumes  kind[corev1.PersistentVolumeSpec, corev1.PersistentVolumeStatus]
	nodes    kind[corev1.NodeSpec, corev1.NodeStatus]
	attached kind[storagev1.VolumeAttachmentSpec, storagev1.VolumeAttachmentStatus]
	leases   kind[coordinationv1.LeaseSpec, world.None]
	events   kind[corev1.Event, world.None]

	notices  map[string][]notice // Events of the API by what they are about: "Pod namespace/name".
	on       map[string]bool     // The resources that were watched.
	missing  []string            // What could not be seen, and why, a sentence each.
	offset   history.Time        // What to add to a moment to get nanoseconds since 1970.
	offsetOK bool
}

func newKnown(w *world.World) *known {
	o := w.Objects()
	return &known{
		start: w.Begin(), notices: map[string][]notice{}, on: map[string]bool{},
		sets: newKind(o.StatefulSets), pods: newKind(o.Pods), claims: newKind(o.Claims), volumes: newKind(o.Volumes),
		nodes: newKind(o.Nodes), attached: newKind(o.Attachments), leases: newKind(o.Leases),
		events: newKind(o.Notices),
	}
}

// knownAt returns what a world had told by a moment.
func knownAt(w *world.World, moment history.Time) *known {
	k := newKnown(w)
	for i := range w.Events {
		k.take(&w.Events[i], moment)
	}
	k.at = moment
	k.finish()
	return k
}

// take takes an event in, unless it came after a moment.
func (k *known) take(e *history.Event, until history.Time) {
	inTime := e.Span.NotAfter <= until
	switch {
	case e.Kind == history.KindObject && e.Object != nil:
		k.object(e, inTime)
	case !inTime:
	case e.Kind == history.KindObserver && e.Observer != nil:
		k.observe(e)
	case e.Kind == history.KindFault && e.Fault != nil:
		k.facts = append(k.facts, e)
	}
}

func (k *known) object(e *history.Event, inTime bool) {
	var created metav1.Time
	switch e.Object.Resource {
	case "statefulsets":
		created = k.sets.take(e, inTime)
	case "pods":
		created = k.pods.take(e, inTime)
	case "persistentvolumeclaims":
		created = k.claims.take(e, inTime)
	case "persistentvolumes":
		created = k.volumes.take(e, inTime)
	case "nodes":
		created = k.nodes.take(e, inTime)
	case "volumeattachments":
		created = k.attached.take(e, inTime)
	case "leases":
		created = k.leases.take(e, inTime)
		if l := k.leases.get(world.Key(e.Object.Namespace, e.Object.Name)); l != nil && l.Spec.RenewTime != nil {
			k.stampedBy(e, l.Spec.RenewTime.Time)
		}
	case "events":
		k.events.take(e, inTime)
		if n := k.events.now[world.Key(e.Object.Namespace, e.Object.Name)]; n != nil && n.Event == e {
			k.notice(n)
		}
	}
	k.stampedBy(e, created.Time)
}

// stampedBy holds the API server's clock against the history's: what a fact tells was stamped before it was seen.
func (k *known) stampedBy(e *history.Event, stamp time.Time) {
	if offset := history.Time(stamp.UnixNano()) - e.Span.NotAfter; !k.live && !stamp.IsZero() {
		if !k.offsetOK || offset > k.offset {
			k.offset, k.offsetOK = offset, true
		}
	}
}

func (k *known) observe(e *history.Event) {
	resource, ok := strings.CutPrefix(e.Observer.Name, "api/")
	switch {
	case !ok:
	case e.Observer.State == history.ObserverOn:
		k.on[resource] = true
	case k.live:
		k.missing = append(k.missing, e.Observer.Detail)
	case e.Observer.State == history.ObserverGap || e.Observer.State == history.ObserverLoss:
		k.missing = append(k.missing, fmt.Sprintf("the watch of %s was blind from %s to %s (event %d)", resource,
			k.clock(momentOf(e.Span.NotBefore)), k.clock(momentOf(e.Span.NotAfter)), e.ID))
	}
}

// finish says what was not seen, and puts the faults in order.
func (k *known) finish() {
	for _, name := range []string{"statefulsets", "pods", "persistentvolumeclaims", "persistentvolumes", "nodes",
		"volumeattachments", "events"} {
		if !k.on[name] && !k.live {
			k.missing = append(k.missing, name+" were not watched: what they would tell is not known")
		}
	}
	k.faults = faultsOf(k.facts)
}

// kind is the objects of one kind as they are known. Deleted ones stay, to tell since when they are gone.
type kind[S, T any] struct {
	all  *world.Versions[S, T]
	next int // Of all.All.
	now  map[string]*world.Object[S, T]
}

func newKind[S, T any](all *world.Versions[S, T]) kind[S, T] {
	return kind[S, T]{all: all, now: map[string]*world.Object[S, T]{}}
}

// take takes in the version that an event shows, unless it is older than what is known. It returns when the object was
// created, zero where it was not taken. Every event must be given to it, in the order of the history.
func (k *kind[S, T]) take(e *history.Event, inTime bool) (created metav1.Time) {
	if k.next == len(k.all.All) || k.all.All[k.next].Event != e {
		return created
	}
	o := k.all.All[k.next]
	k.next++
	old := k.now[o.Key()]
	if !inTime || old != nil && old.Version > o.Version {
		return created
	}
	k.now[o.Key()] = o
	return o.Meta.CreationTimestamp
}

// get returns an object that is there, nil where there is none.
func (k *kind[S, T]) get(key string) *world.Object[S, T] {
	if o := k.now[key]; o != nil && !o.Deleted() {
		return o
	}
	return nil
}

// there returns the objects that are there, in the order of their keys.
func (k *kind[S, T]) there() []*world.Object[S, T] {
	var all []*world.Object[S, T]
	for _, key := range slices.Sorted(maps.Keys(k.now)) {
		if o := k.get(key); o != nil {
			all = append(all, o)
		}
	}
	return all
}

// gone returns when an object was deleted.
func (k *kind[S, T]) gone(key string) Moment {
	if o := k.now[key]; o != nil && o.Deleted() {
		return seen(o.Event)
	}
	return Moment{}
}

// since returns the first of the versions up to this one that were all so, and whether one before it was not.
func (k *kind[S, T]) since(o *world.Object[S, T], is func(*world.Object[S, T]) bool) (*world.Object[S, T], bool) {
	first := o
	for _, v := range slices.Backward(k.all.ByKey[o.Key()]) {
		if v.Version > o.Version {
			continue
		}
		if v.UID() != o.UID() {
			break
		}
		if !is(v) {
			return first, true
		}
		first = v
	}
	return first, false
}

// first returns since when an object of that uid was seen.
func (k *kind[S, T]) first(o *world.Object[S, T]) Moment {
	first, _ := k.since(o, func(*world.Object[S, T]) bool { return true })
	return seen(first.Event)
}

// began returns since when something is so: since the fact that showed it, when it was otherwise in the one before;
// since the stamp, when it never was seen otherwise, or since it was seen at all.
func (k *known) began(e *history.Event, changed bool, stamp int64) Moment {
	if changed {
		return seen(e)
	}
	if at := k.stamped(stamp); at.Known && at.At <= e.Span.NotAfter {
		at.Event = e.ID
		return at
	}
	if k.live {
		return Moment{}
	}
	return seen(e)
}

func seen(e *history.Event) Moment { return Moment{At: e.Span.NotAfter, Event: e.ID, Known: true} }

func momentOf(t history.Time) Moment { return Moment{At: t, Known: true} }

// proof returns evidence of fields of an object, or of the whole of it.
func proof[S, T any](o *world.Object[S, T], fields ...string) []Evidence {
	if len(fields) == 0 {
		fields = []string{""}
	}
	var out []Evidence
	for _, f := range fields {
		out = append(out, Evidence{Event: o.Event.ID, Object: o.Event.Object.Resource + " " + o.Key(), Field: f})
	}
	return out
}

// absence returns evidence that an object is not there.
func absence(resource, key string, gone Moment) []Evidence {
	return []Evidence{{Event: gone.Event, Object: resource + " " + key}}
}

// notice is an Event of the API.
type notice struct {
	*world.Notice
	last Moment
}

// mostNotices bounds how many Events are kept of one object.
const mostNotices = 64

func (k *known) notice(v *world.Notice) {
	n := notice{v, seen(v.Event)}
	if k.live {
		n.last = k.stamped(max(world.Seconds(&v.Spec.LastTimestamp), v.Spec.EventTime.Unix()))
	}
	about := v.Spec.InvolvedObject.Kind + " " + world.Key(v.Event.Object.Namespace, v.Spec.InvolvedObject.Name)
	list := slices.DeleteFunc(k.notices[about], func(old notice) bool { return old.Key() == n.Key() })
	if v.Deleted() {
		k.notices[about] = list
		return
	}
	if len(list) >= mostNotices {
		list = list[1:]
	}
	k.notices[about] = append(list, n)
}

// noticed returns the last Event about an object with one of the reasons, nil where there is none. A uid of "" is any.
func (k *known) noticed(what, key, uid string, reasons ...string) *notice {
	return k.latest(what+" "+key, func(n *notice) bool {
		of := string(n.Spec.InvolvedObject.UID)
		return slices.Contains(reasons, n.Spec.Reason) && (uid == "" || of == "" || of == uid)
	})
}

// latest returns the last Event about an object that is such a one, nil where there is none.
func (k *known) latest(about string, is func(*notice) bool) *notice {
	var found *notice
	for i := range k.notices[about] {
		n := &k.notices[about][i]
		if (found == nil || n.last.At >= found.last.At) && is(n) {
			found = n
		}
	}
	return found
}

// fault is one that was injected.
type fault struct {
	world.Fault
	injected, healed Moment // Healed is not known while the fault is active.
	events           []int64
}

// faultsOf returns the faults that were injected, as the facts by then say, in the order of their steps.
func faultsOf(facts []*history.Event) []fault {
	names := map[int]string{}
	for _, e := range facts {
		names[e.Fault.Step] = cmp.Or(names[e.Fault.Step], e.Fault.Name)
	}
	var all []fault
	for _, step := range slices.Sorted(maps.Keys(names)) {
		f := fault{Fault: world.FaultLife(facts, step, names[step])}
		injected := f.Facts[history.StageInjected]
		if injected == nil {
			continue
		}
		f.injected = Moment{At: injected.Span.NotBefore, Event: injected.ID, Known: true}
		f.events = []int64{injected.ID}
		if e := f.Facts[history.StageConfirmed]; e != nil {
			f.events = append(f.events, e.ID)
		}
		if e := cmp.Or(f.Facts[history.StageHealed], f.Facts[history.StageConfirmedHealed]); e != nil {
			f.healed = seen(e)
		}
		all = append(all, f)
	}
	return all
}

// wall returns nanoseconds since 1970 at the moment, and false when that is not known.
func (k *known) wall() (int64, bool) { return int64(k.at + k.offset), k.offsetOK }

// stamped returns the moment of a time stamp, in seconds since 1970.
func (k *known) stamped(seconds int64) Moment {
	if seconds <= 0 || !k.offsetOK {
		return Moment{}
	}
	return momentOf(history.Time(seconds*1e9) - k.offset)
}

// clock tells a moment to people.
func (k *known) clock(m Moment) string {
	switch {
	case !m.Known:
		return ""
	case k.live:
		return time.Unix(0, int64(m.At)).UTC().Format("2006-01-02 15:04:05 UTC")
	}
	return fmt.Sprintf("%+.1f s", m.At.Sub(k.start).Seconds())
}

// sinceWhen is " since +31.2 s", and nothing when it is not known since when.
func (k *known) sinceWhen(m Moment) string {
	if !m.Known {
		return ""
	}
	return " since " + k.clock(m)
}

// lasted returns how long ago a moment was, 0 when it is not known.
func (k *known) lasted(m Moment) time.Duration {
	if !m.Known || m.At > k.at {
		return 0
	}
	return k.at.Sub(m.At)
}

// Lasting renders a duration as people say it: to a tenth of a second below a minute.
func Lasting(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	d = d.Round(time.Second)
	if d%time.Minute == 0 {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
}
