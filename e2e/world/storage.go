package world

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/history"
)

// Storage is what the API said of volumes and of the pods that use them.
type Storage struct {
	Pvs         map[string]*PV // By name.
	Pods        map[string]*PodLife
	Attachments []*AttachmentLife // In the order in which they were first seen.
	claims      map[string]string
	InUse       map[string][]NodeVolumes // By node, in order.
	PodsOn      bool                     // The pods were watched.
}

// PV is a PersistentVolume as it was last seen.
type PV struct {
	Name, Handle, Driver string
	Modes                []string
	event                *history.Event
}

// PodLife is one pod, told by its uid, from its creation to its end.
type PodLife struct {
	UID, Name, Namespace, Node string
	claims                     []string
	Made                       *history.Event // Where it was first seen.
	Gone                       *history.Event // Its end, nil while it is there.
}

// AttachmentLife is one VolumeAttachment and its states in the order of their resourceVersions.
type AttachmentLife struct {
	name, uid, Pv, Node string
	States              []AttachmentState
}

// AttachmentState is a VolumeAttachment at one resourceVersion.
type AttachmentState struct {
	Event                       *history.Event
	Version                     uint64
	Attached, Deleting, deleted bool
}

// NodeVolumes is what a node's status said of volumes at one time.
type NodeVolumes struct {
	Event *history.Event
	InUse []corev1.UniqueVolumeName
}

// readStorage reads the API's side. An object without content tells only that it is there, or gone.
func readStorage(h *World) *Storage {
	o := h.Objects()
	s := &Storage{Pvs: map[string]*PV{}, Pods: map[string]*PodLife{}, claims: map[string]string{},
		InUse: map[string][]NodeVolumes{}, PodsOn: slices.ContainsFunc(h.Of(history.KindObserver), turnsPodsOn)}
	for _, c := range o.Claims.All {
		if c.Spec.VolumeName != "" {
			s.claims[c.Key()] = c.Spec.VolumeName
		}
	}
	for _, pv := range o.Volumes.All {
		s.addPV(pv)
	}
	for _, p := range o.Pods.All {
		s.addPod(p)
	}
	for _, a := range o.Attachments.All {
		s.addAttachment(a)
	}
	for _, n := range o.Nodes.All {
		s.InUse[n.Name()] = append(s.InUse[n.Name()], NodeVolumes{n.Event, n.Status.VolumesInUse})
	}
	for _, a := range s.Attachments {
		slices.SortStableFunc(a.States, func(x, y AttachmentState) int { return cmp.Compare(x.Version, y.Version) })
	}
	return s
}

func turnsPodsOn(e *history.Event) bool {
	return e.Observer.Name == PodsObserver && e.Observer.State == history.ObserverOn
}

func (s *Storage) addPV(v *Volume) {
	if v.Guessed() {
		return
	}
	o := &PV{Name: v.Name(), event: v.Event}
	for _, mode := range v.Spec.AccessModes {
		o.Modes = append(o.Modes, string(mode))
	}
	if v.Spec.CSI != nil {
		o.Handle, o.Driver = v.Spec.CSI.VolumeHandle, v.Spec.CSI.Driver
	}
	if c := v.Spec.ClaimRef; c != nil {
		s.claims[c.Namespace+"/"+c.Name] = o.Name
	}
	s.Pvs[o.Name] = o
}

func (s *Storage) addPod(v *Pod) {
	p := s.Pods[v.UID()]
	if p == nil {
		p = &PodLife{UID: v.UID(), Name: v.Name(), Namespace: v.Event.Object.Namespace, Made: v.Event}
		s.Pods[p.UID] = p
	}
	p.Node = FirstOf(p.Node, v.Spec.NodeName)
	if len(p.claims) == 0 { // They never change.
		for _, c := range ClaimUses(v.Spec) {
			p.claims = append(p.claims, p.Namespace+"/"+c.Claim)
		}
	}
	if v.Deleted() && p.Gone == nil {
		p.Gone = v.Event
	}
}

func (s *Storage) addAttachment(v *Attachment) {
	i := slices.IndexFunc(s.Attachments, func(a *AttachmentLife) bool { return a.uid == v.UID() })
	if i < 0 {
		i = len(s.Attachments)
		s.Attachments = append(s.Attachments, &AttachmentLife{name: v.Name(), uid: v.UID()})
	}
	a := s.Attachments[i]
	if pv := v.Spec.Source.PersistentVolumeName; pv != nil {
		a.Pv = FirstOf(a.Pv, *pv)
	}
	a.Node = FirstOf(a.Node, v.Spec.NodeName)
	a.States = append(a.States, AttachmentState{Event: v.Event, Version: v.Version, deleted: v.Deleted(),
		Attached: v.Status.Attached && !v.Deleted(), Deleting: v.Deleting()})
}

// ByHandle returns the PersistentVolume of a handle, nil when none was seen.
func (s *Storage) ByHandle(handle string) *PV {
	return s.pvWhere(func(pv *PV) bool { return handle != "" && pv.Handle == handle })
}

// ByHash returns the PersistentVolume whose global mount has a name, nil when none was seen.
func (s *Storage) ByHash(hash string) *PV {
	return s.pvWhere(func(pv *PV) bool { return pv.Handle != "" && handleHash(pv.Handle) == hash })
}

// pvWhere returns the first one that is meant, in the order of the names.
func (s *Storage) pvWhere(is func(*PV) bool) *PV {
	var found *PV
	for _, pv := range s.Pvs {
		if is(pv) && (found == nil || pv.Name < found.Name) {
			found = pv
		}
	}
	return found
}

// VolumeAt returns the name of the PersistentVolume that belongs at a place: that of the path, or, for a handle that
// no PersistentVolume has, the beginning of its hash.
func (s *Storage) VolumeAt(p Place) string {
	if p.Volume != "" {
		return p.Volume
	}
	if pv := s.ByHash(p.Hash); pv != nil {
		return pv.Name
	}
	return "with the handle's hash " + p.Hash[:min(len(p.Hash), 12)]
}

// PodName returns the name of the pod with a uid, and the uid where the API never showed it.
func (s *Storage) PodName(uid string) string {
	if p := s.Pods[uid]; p != nil {
		return p.Name
	}
	return "with uid " + uid
}

// Uses reports whether a claim of the pod is bound to a PersistentVolume.
func (s *Storage) Uses(p *PodLife, pv string) bool {
	return slices.ContainsFunc(p.claims, func(claim string) bool { return s.claims[claim] == pv })
}

// Allows reports whether a mode is among those of the volume; nothing is allowed on one that was never seen.
func (pv *PV) Allows(mode string) bool { return pv != nil && slices.Contains(pv.Modes, mode) }

// ManyNodes reports that a volume may be on several nodes at once. Kubernetes too lets a volume be attached to many
// nodes when any of its modes is one of these (pkg/volume/util, IsMultiAttachAllowed).
func (pv *PV) ManyNodes() bool { return pv.Allows("ReadWriteMany") || pv.Allows("ReadOnlyMany") }

// Periods returns the times during which the volume was attached.
func (a *AttachmentLife) Periods() []Period {
	var all []Period
	var open *Period
	for _, s := range a.States {
		switch {
		case s.Attached && open == nil:
			open = &Period{Of: a, From: s.Version, Begin: s.Event}
		case !s.Attached && open != nil:
			open.To, open.End = s.Version, s.Event
			all = append(all, *open)
			open = nil
		}
	}
	if open != nil {
		all = append(all, *open)
	}
	return all
}

// Period is a time in which a VolumeAttachment said attached, in resourceVersions; To is 0 when it was not seen to end.
type Period struct {
	Of       *AttachmentLife
	From, To uint64
	Begin    *history.Event
	End      *history.Event
}

// PVAt returns the PersistentVolume that belongs at a place, nil when none was seen.
func (s *Storage) PVAt(p Place) *PV {
	if p.Volume != "" {
		return s.Pvs[p.Volume]
	}
	if p.Hash == "" {
		return nil
	}
	return s.ByHash(p.Hash)
}

// NodeOf returns the node of the last pod of that name, and "" when none was seen.
func (s *Storage) NodeOf(pod string) string {
	var last *PodLife
	for _, p := range s.Pods {
		if p.Name == pod && p.Node != "" && (last == nil || p.Made.ID > last.Made.ID) {
			last = p
		}
	}
	if last == nil {
		return ""
	}
	return last.Node
}
