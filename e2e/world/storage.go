package world

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/history"
)

// Storage holds the API objects of volumes.
type Storage struct {
	PVs         map[string]*PV    // By name, as last seen.
	Attachments []*AttachmentLife // In the order in which they were first seen.

	byHandle, byHash map[string]*PV       // The first by name if several share a handle.
	claims           map[string]string    // Claim key to volume name.
	bound            map[string][]binding // By claim key: every claim of that name.
	pods             *Pods
}

// PV is a PersistentVolume as last seen.
type PV struct {
	Name, Handle, Driver string
	Modes                []corev1.PersistentVolumeAccessMode
	Namespace, Claim     string // The claimRef: the claim that it is bound to or reserved for.
	Size                 string
	Directory            bool // It is of type hostPath.
}

// AttachmentLife is one VolumeAttachment with its states, sorted by resourceVersion.
type AttachmentLife struct {
	PV, Node string
	States   []*Attachment
}

// Attached reports whether a VolumeAttachment exists with status.attached.
func Attached(a *Attachment) bool { return a.Status.Attached && !a.Deleted() }

// readStorage reads the volumes, claims and VolumeAttachments.
func readStorage(w *World) *Storage {
	o := w.Objects()
	s := &Storage{PVs: map[string]*PV{}, claims: map[string]string{}, pods: w.Pods(),
		byHandle: map[string]*PV{}, byHash: map[string]*PV{}, bound: map[string][]binding{}}
	for _, c := range o.Claims.All {
		s.bind(c)
		if c.Spec.VolumeName != "" {
			s.claims[c.Key()] = c.Spec.VolumeName
		}
	}
	for _, v := range o.Volumes.All {
		if !v.Guessed() {
			s.addPV(v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.PVs)) {
		if pv := s.PVs[name]; pv.Handle != "" && s.byHandle[pv.Handle] == nil {
			s.byHandle[pv.Handle], s.byHash[history.HandleHash(pv.Handle)] = pv, pv
		}
	}
	byUID := map[string]*AttachmentLife{}
	for _, v := range o.Attachments.All {
		a := byUID[v.UID()]
		if a == nil {
			a = &AttachmentLife{}
			byUID[v.UID()] = a
			s.Attachments = append(s.Attachments, a)
		}
		if pv := v.Spec.Source.PersistentVolumeName; pv != nil {
			a.PV = cmp.Or(a.PV, *pv)
		}
		a.Node = cmp.Or(a.Node, v.Spec.NodeName)
		a.States = append(a.States, v)
	}
	for _, a := range s.Attachments {
		slices.SortStableFunc(a.States, func(x, y *Attachment) int { return cmp.Compare(x.Version, y.Version) })
	}
	return s
}

// binding is one claim, from its first to its last resourceVersion, and its volume.
type binding struct {
	uid, volume string
	from, to    uint64
}

// bind adds a state of a claim.
func (s *Storage) bind(c *Claim) {
	all := s.bound[c.Key()]
	i := slices.IndexFunc(all, func(b binding) bool { return b.uid == c.UID() })
	if i < 0 {
		i, all = len(all), append(all, binding{uid: c.UID(), from: c.Version, to: math.MaxUint64})
	}
	all[i].from, all[i].volume = min(all[i].from, c.Version), cmp.Or(all[i].volume, c.Spec.VolumeName)
	if c.Deleted() {
		all[i].to = c.Version
	}
	s.bound[c.Key()] = all
}

// Until returns the resourceVersion at which the pod was gone, MaxUint64 if its end was not seen.
func (l *PodLife) Until() uint64 {
	if l.End == nil {
		return math.MaxUint64
	}
	return l.End.Version
}

func (s *Storage) addPV(v *Volume) {
	o := &PV{Name: v.Name(), Directory: v.Spec.HostPath != nil, Modes: v.Spec.AccessModes}
	switch csi, flex := v.Spec.CSI, v.Spec.FlexVolume; {
	case csi != nil:
		o.Handle, o.Driver = csi.VolumeHandle, csi.Driver
	case flex != nil: // To its driver it is the name of its PersistentVolume.
		o.Handle, o.Driver = o.Name, flex.Driver
	}
	if size, ok := v.Spec.Capacity[corev1.ResourceStorage]; ok {
		o.Size = size.String()
	}
	if c := v.Spec.ClaimRef; c != nil {
		o.Namespace, o.Claim = c.Namespace, c.Name
		s.claims[Key(c.Namespace, c.Name)] = o.Name
	}
	s.PVs[o.Name] = o
}

// ByHandle returns the PersistentVolume of a handle, nil if there is none.
func (s *Storage) ByHandle(handle string) *PV { return s.byHandle[handle] }

// VolumeAt returns the name of the PersistentVolume that is mounted at a place. If no PersistentVolume has the handle,
// it returns words with the beginning of the handle's hash.
func (s *Storage) VolumeAt(p history.Place) string {
	if p.Volume != "" {
		return p.Volume
	}
	if pv := s.byHash[p.Hash]; pv != nil {
		return pv.Name
	}
	return "with the handle's hash " + p.Hash[:min(len(p.Hash), 12)]
}

// PodName returns the name of the pod with a uid, or words with the uid if the API never showed the pod.
func (s *Storage) PodName(uid string) string {
	if p := s.pods.ByUID[uid]; p != nil {
		return p.Name
	}
	return "with uid " + uid
}

// Uses reports whether a claim of the pod is bound to a PersistentVolume.
func (s *Storage) Uses(p *PodLife, pv string) bool { return slices.Contains(s.VolumesOf(p), pv) }

// VolumesOf returns the names of the PersistentVolumes that the pod's claims were bound to while it was there. A claim
// that was made again has several.
func (s *Storage) VolumesOf(p *PodLife) []string {
	var names []string
	for _, c := range p.Claims {
		key := Key(p.Namespace, c.Claim)
		if all := s.bound[key]; len(all) == 0 {
			names = append(names, s.claims[key])
		} else {
			for _, b := range all {
				if b.from <= p.Until() && p.First.Version <= b.to {
					names = append(names, b.volume)
				}
			}
		}
	}
	return names
}

// ManyNodes reports whether the volume may be on several nodes at once.
func (pv *PV) ManyNodes() bool { return pv != nil && ManyNodes(pv.Modes) }

// AccessModes tells access modes in words.
func AccessModes(modes []corev1.PersistentVolumeAccessMode) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(modes), " ", ", "), "[]")
}

// ManyNodes reports whether a volume with these access modes may be on several nodes at once. The rule is that of
// Kubernetes: any one of two modes suffices (pkg/volume/util, IsMultiAttachAllowed).
func ManyNodes(modes []corev1.PersistentVolumeAccessMode) bool {
	return slices.Contains(modes, corev1.ReadWriteMany) || slices.Contains(modes, corev1.ReadOnlyMany)
}

// Periods returns the periods in which the volume was attached.
func (a *AttachmentLife) Periods() []Period {
	var all []Period
	attached := false
	for i, s := range a.States {
		switch {
		case Attached(s) && !attached:
			all = append(all, Period{Of: a, From: s.Version, Begin: s.Event})
		case !Attached(s) && attached:
			last := &all[len(all)-1]
			last.To, last.End = s.Version, s.Event
			if s.Guessed() { // It ended at some time since the state before.
				last.To = a.States[i-1].Version + 1
			}
		}
		attached = Attached(s)
	}
	return all
}

// Period is a period in which a VolumeAttachment had status.attached, from resourceVersion From to To; To is 0 and End
// nil if its end was not seen.
type Period struct {
	Of       *AttachmentLife
	From, To uint64
	Begin    *history.Event
	End      *history.Event
}
