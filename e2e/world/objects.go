package world

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/history"
)

// Object is an API object at one resourceVersion. Meta, Spec and Status are never nil; versions share equal ones, so
// they must not be changed. Meta has no resourceVersion, see Version. For a kind without a spec, Spec is the whole
// object.
type Object[Spec, Status any] struct {
	Event   *history.Event // Its Object has verb, namespace, name and uid.
	Version uint64
	Meta    *metav1.ObjectMeta
	Spec    *Spec
	Status  *Status

	by history.Time // When this version or one after it was first known: it grows from version to version.
}

// Key is the function Key of its namespace and name.
func (o *Object[S, T]) Key() string { return Key(o.Event.Object.Namespace, o.Event.Object.Name) }

// Name returns the object's name.
func (o *Object[S, T]) Name() string { return o.Event.Object.Name }

// UID returns the object's uid.
func (o *Object[S, T]) UID() string { return o.Event.Object.UID }

// Deleted reports whether this is the end of the object.
func (o *Object[S, T]) Deleted() bool { return o.Event.Object.Verb == history.VerbDeleted }

// Guessed reports whether the end was only inferred: the object was missing in the list after a watch gap.
func (o *Object[S, T]) Guessed() bool { return o.Deleted() && len(o.Event.Object.Raw) == 0 }

// Deleting reports whether the object has a deletionTimestamp or is gone.
func (o *Object[S, T]) Deleting() bool { return o.Deleted() || o.Meta.DeletionTimestamp != nil }

// Key returns namespace/name, or the name alone if there is no namespace.
func Key(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// IsControlPlane reports whether a node with these labels is of the control plane.
func IsControlPlane(labels map[string]string) bool {
	_, ok := labels["node-role.kubernetes.io/control-plane"]
	return ok
}

// None is the status of a kind that has none.
type None struct{}

type (
	// Pod is a version of a pod.
	Pod = Object[corev1.PodSpec, PodStatus]
	// StatefulSet is a version of a StatefulSet.
	StatefulSet = Object[SetSpec, appsv1.StatefulSetStatus]
	// Claim is a version of a PersistentVolumeClaim.
	Claim = Object[corev1.PersistentVolumeClaimSpec, corev1.PersistentVolumeClaimStatus]
	// Volume is a version of a PersistentVolume.
	Volume = Object[corev1.PersistentVolumeSpec, corev1.PersistentVolumeStatus]
	// Node is a version of a node.
	Node = Object[corev1.NodeSpec, corev1.NodeStatus]
	// Attachment is a version of a VolumeAttachment.
	Attachment = Object[storagev1.VolumeAttachmentSpec, storagev1.VolumeAttachmentStatus]
	// Lease is a version of a Lease.
	Lease = Object[coordinationv1.LeaseSpec, None]
	// Revision is a version of a ControllerRevision.
	Revision = Object[appsv1.ControllerRevision, None]
	// Notice is a version of a Kubernetes Event.
	Notice = Object[corev1.Event, None]
)

// Versions holds all recorded versions of the objects of one kind.
type Versions[Spec, Status any] struct {
	All []*Object[Spec, Status] // In recorded order.
	// By Key, sorted by resourceVersion; equal ones stay in recorded order.
	ByKey map[string][]*Object[Spec, Status]
	// Strange counts events that have no content or no resourceVersion, Jumbled those that came twice or after a higher
	// resourceVersion.
	Strange, Jumbled int

	whole    bool // The kind has no spec: decode the whole object into Spec.
	metas    cache[metav1.ObjectMeta]
	specs    cache[Spec]
	statuses cache[Status]
	text     []byte // Scratch.
	last     uint64
	names    map[string]string // By uid.
}

func (v *Versions[S, T]) disorder() (strange, jumbled int) { return v.Strange, v.Jumbled }

func (v *Versions[S, T]) created(each func(e *history.Event, stamp time.Time)) {
	for _, o := range v.All {
		each(o.Event, o.Meta.CreationTimestamp.Time)
	}
}

func (v *Versions[S, T]) add(e *history.Event) {
	o, err := v.read(e)
	if err != nil {
		v.Strange++
		return
	}
	if e.Object.Verb != history.VerbListed && len(e.Object.Raw) > 0 {
		// A list is not sorted, and the end of an object that is missing in it has a resourceVersion that is guessed.
		if o.Version <= v.last {
			v.Jumbled++
		}
		v.last = o.Version
	}
	v.All = append(v.All, o)
	key := o.Key()
	all := v.ByKey[key]
	i := len(all)
	for i > 0 && all[i-1].Version > o.Version {
		i--
	}
	all = slices.Insert(all, i, o)
	v.ByKey[key] = all
	o.by = e.Span.NotAfter
	if i+1 < len(all) {
		o.by = min(o.by, all[i+1].by)
	}
	for i--; i >= 0 && all[i].by > o.by; i-- {
		all[i].by = o.by
	}
}

func (v *Versions[S, T]) read(e *history.Event) (*Object[S, T], error) {
	o := &Object[S, T]{Event: e}
	var err error
	if o.Version, err = strconv.ParseUint(e.Object.ResourceVersion, 10, 64); err != nil {
		return nil, err
	}
	if uid := e.Object.UID; uid != "" {
		if name, known := v.names[uid]; !known {
			v.names[uid] = e.Object.Name
		} else if name != e.Object.Name {
			return nil, fmt.Errorf("uid %s was that of %s", uid, name)
		}
	}
	var p parts
	if !o.Guessed() &&
		(len(e.Object.Raw) > 0 || e.Object.Resource != "nodes") { // A node may have no content.
		if p, err = split(e.Object.Raw); err != nil {
			return nil, err
		}
	}
	if o.Meta, err = metaOf(p.meta, e.Object, &v.metas, &v.text); err != nil {
		return nil, err
	}
	if v.whole {
		p.spec, p.status = e.Object.Raw, nil
	}
	if o.Spec, err = v.specs.decode(p.spec); err != nil {
		return nil, err
	}
	o.Status, err = v.statuses.decode(p.status)
	return o, err
}

// At returns the last version of an object known by t, nil if there is none or the object was gone.
func (v *Versions[S, T]) At(key string, t history.Time) *Object[S, T] {
	if o := v.Known(key, t); o != nil && !o.Deleted() {
		return o
	}
	return nil
}

// Known is At with the object's end included.
func (v *Versions[S, T]) Known(key string, t history.Time) *Object[S, T] {
	return last(v.ByKey[key], func(o *Object[S, T]) bool { return o.by > t })
}

// AtVersion returns the last version of an object up to a resourceVersion, its end included; nil if there is none.
func (v *Versions[S, T]) AtVersion(key string, version uint64) *Object[S, T] {
	return last(v.ByKey[key], func(o *Object[S, T]) bool { return o.Version > version })
}

// Latest returns the last version of an object, its end included; nil if there is none.
func (v *Versions[S, T]) Latest(key string) *Object[S, T] {
	return last(v.ByKey[key], func(*Object[S, T]) bool { return false })
}

// last returns the last of sorted states before those that come later, nil if there is none.
func last[T any](all []*T, later func(*T) bool) *T {
	i := sort.Search(len(all), func(i int) bool { return later(all[i]) })
	if i == 0 {
		return nil
	}
	return all[i-1]
}

// Objects holds the recorded API objects.
type Objects struct {
	Pods           *Versions[corev1.PodSpec, PodStatus]
	StatefulSets   *Versions[SetSpec, appsv1.StatefulSetStatus]
	Claims         *Versions[corev1.PersistentVolumeClaimSpec, corev1.PersistentVolumeClaimStatus]
	Volumes        *Versions[corev1.PersistentVolumeSpec, corev1.PersistentVolumeStatus]
	Nodes          *Versions[corev1.NodeSpec, corev1.NodeStatus]
	Attachments    *Versions[storagev1.VolumeAttachmentSpec, storagev1.VolumeAttachmentStatus]
	Leases         *Versions[coordinationv1.LeaseSpec, None]
	Revisions      *Versions[appsv1.ControllerRevision, None]
	StorageClasses *Versions[storagev1.StorageClass, None]
	Notices        *Versions[corev1.Event, None]

	byResource map[string]reader
}

// reader reads the objects of one kind.
type reader interface {
	add(e *history.Event)
	disorder() (strange, jumbled int)
	created(each func(e *history.Event, stamp time.Time))
}

// NewObjects returns an empty Objects.
func NewObjects() *Objects {
	o := &Objects{byResource: map[string]reader{}}
	register(o, &o.Pods, "pods", false)
	register(o, &o.StatefulSets, "statefulsets", false)
	register(o, &o.Claims, "persistentvolumeclaims", false)
	register(o, &o.Volumes, "persistentvolumes", false)
	register(o, &o.Nodes, "nodes", false)
	register(o, &o.Attachments, "volumeattachments", false)
	register(o, &o.Leases, "leases", false)
	register(o, &o.Revisions, "controllerrevisions", true)
	register(o, &o.StorageClasses, "storageclasses", true)
	register(o, &o.Notices, "events", true)
	return o
}

// register creates the Versions of one kind; resource is its plural name in the API.
func register[S, T any](o *Objects, versions **Versions[S, T], resource string, whole bool) {
	*versions = &Versions[S, T]{whole: whole, ByKey: map[string][]*Object[S, T]{}, names: map[string]string{}}
	o.byResource[resource] = *versions
}

func readObjects(w *World) *Objects {
	o := NewObjects()
	for _, e := range w.Of(history.KindObject) {
		o.Add(e)
	}
	return o
}

// Created calls each with every event, in no order, and the creationTimestamp of its object.
func (o *Objects) Created(each func(e *history.Event, stamp time.Time)) {
	for _, r := range o.byResource {
		r.created(each)
	}
}

// Disorder returns Versions.Strange and Versions.Jumbled of a resource.
func (o *Objects) Disorder(resource string) (strange, jumbled int) {
	if r := o.byResource[resource]; r != nil {
		return r.disorder()
	}
	return 0, 0
}

// Add adds one event. It ignores events of other kinds and of resources that are not read.
func (o *Objects) Add(e *history.Event) {
	if e.Kind != history.KindObject || e.Object == nil {
		return
	}
	if r := o.byResource[e.Object.Resource]; r != nil {
		r.add(e)
	}
}
