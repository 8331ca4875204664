package check

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/seatrial/seatrial/chaos/history"
)

// storageObjects is what the API said of volumes and of the pods that use them.
type storageObjects struct {
	pvs         map[string]*pvObject // By name.
	pods        map[string]*podObject
	attachments []*attachment // In the order in which they were first seen.
	claims      map[string]string
	inUse       map[string][]nodeVolumes // By node, in order.
	podsOn      bool                     // The pods were watched.
	names       interned
}

// pvObject is a PersistentVolume as it was last seen.
type pvObject struct {
	name, handle, driver string
	modes                []string
	event                *history.Event
}

// podObject is one pod, told by its uid, from its creation to its end.
type podObject struct {
	uid, name, namespace, node string
	claims                     []string
	read                       bool           // Its claims are known: they never change.
	made                       *history.Event // Where it was first seen.
	gone                       *history.Event // Its end, nil while it is there.
}

// attachment is one VolumeAttachment and its states in the order of their resourceVersions.
type attachment struct {
	name, uid, pv, node string
	states              []attachmentState
}

type attachmentState struct {
	event                       *history.Event
	version                     uint64
	attached, deleting, deleted bool
}

// nodeVolumes is what a node's status said of volumes at one time.
type nodeVolumes struct {
	event *history.Event
	inUse []string
}

type pvJSON struct {
	Spec struct {
		AccessModes []string `json:"accessModes"`
		ClaimRef    *struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"claimRef"`
		CSI *struct {
			Driver       string `json:"driver"`
			VolumeHandle string `json:"volumeHandle"`
		} `json:"csi"`
	} `json:"spec"`
}

type claimJSON struct {
	Spec struct {
		VolumeName string `json:"volumeName"`
	} `json:"spec"`
}

type attachmentJSON struct {
	Metadata struct {
		DeletionTimestamp *string `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		NodeName string `json:"nodeName"`
		Source   struct {
			Volume string `json:"persistentVolumeName"`
		} `json:"source"`
	} `json:"spec"`
	Status struct {
		Attached bool `json:"attached"`
	} `json:"status"`
}

type nodeVolumesJSON struct {
	Status struct {
		InUse []string `json:"volumesInUse"`
	} `json:"status"`
}

// readStorage reads the API's side. An object without content tells only that it is there, or gone.
func readStorage(h history.History) *storageObjects {
	s := &storageObjects{pvs: map[string]*pvObject{}, pods: map[string]*podObject{}, claims: map[string]string{},
		inUse: map[string][]nodeVolumes{}, names: interned{}}
	for i := range h.Events {
		e := &h.Events[i]
		if e.Kind == history.KindObserver && e.Observer != nil && e.Observer.Name == podsObserver &&
			e.Observer.State == history.ObserverOn {
			s.podsOn = true
		}
		if e.Kind != history.KindObject || e.Object == nil {
			continue
		}
		switch e.Object.Resource {
		case "persistentvolumes":
			s.addPV(e)
		case "persistentvolumeclaims":
			var c claimJSON
			if json.Unmarshal(e.Object.Raw, &c) == nil && c.Spec.VolumeName != "" {
				s.claims[e.Object.Namespace+"/"+e.Object.Name] = c.Spec.VolumeName
			}
		case "pods":
			s.addPod(e)
		case "volumeattachments":
			s.addAttachment(e)
		case "nodes":
			var n nodeVolumesJSON
			if json.Unmarshal(e.Object.Raw, &n) == nil {
				s.inUse[e.Object.Name] = append(s.inUse[e.Object.Name], nodeVolumes{e, n.Status.InUse})
			}
		}
	}
	for _, a := range s.attachments {
		slices.SortStableFunc(a.states, func(x, y attachmentState) int { return cmp.Compare(x.version, y.version) })
	}
	return s
}

func (s *storageObjects) addPV(e *history.Event) {
	var pv pvJSON
	if json.Unmarshal(e.Object.Raw, &pv) != nil {
		return
	}
	o := &pvObject{name: e.Object.Name, modes: pv.Spec.AccessModes, event: e}
	if pv.Spec.CSI != nil {
		o.handle, o.driver = pv.Spec.CSI.VolumeHandle, pv.Spec.CSI.Driver
	}
	if c := pv.Spec.ClaimRef; c != nil {
		s.claims[c.Namespace+"/"+c.Name] = o.name
	}
	s.pvs[o.name] = o
}

func (s *storageObjects) addPod(e *history.Event) {
	p := s.pods[e.Object.UID]
	if p == nil {
		p = &podObject{uid: e.Object.UID, name: e.Object.Name, namespace: e.Object.Namespace, made: e}
		s.pods[p.uid] = p
	}
	if !p.read || p.node == "" { // Neither ever changes: to read them again would be most of the work of judging.
		p.readVolumes(e.Object.Raw, s.names)
	}
	if e.Object.Verb == history.VerbDeleted && p.gone == nil {
		p.gone = e
	}
}

func (p *podObject) readVolumes(raw []byte, names interned) {
	var claims []string
	s := &scan{text: raw}
	s.object(func(name []byte) {
		if string(name) != "spec" {
			return
		}
		s.object(func(name []byte) {
			switch string(name) {
			case "nodeName":
				p.node = firstOf(s.str(names), p.node)
			case "volumes":
				s.array(func() {
					if c := readClaim(s, names); c.claim != "" {
						claims = append(claims, p.namespace+"/"+c.claim)
					}
				})
			}
		})
	})
	if p.read = p.read || !s.bad && len(raw) > 0; len(p.claims) == 0 {
		p.claims = claims
	}
}

func (s *storageObjects) addAttachment(e *history.Event) {
	var raw attachmentJSON
	version, err := strconv.ParseUint(e.Object.ResourceVersion, 10, 64)
	deleted := e.Object.Verb == history.VerbDeleted
	if err != nil || json.Unmarshal(e.Object.Raw, &raw) != nil && !deleted {
		return
	}
	i := slices.IndexFunc(s.attachments, func(a *attachment) bool { return a.uid == e.Object.UID })
	if i < 0 {
		i = len(s.attachments)
		s.attachments = append(s.attachments, &attachment{name: e.Object.Name, uid: e.Object.UID})
	}
	a := s.attachments[i]
	a.pv, a.node = firstOf(a.pv, raw.Spec.Source.Volume), firstOf(a.node, raw.Spec.NodeName)
	a.states = append(a.states, attachmentState{event: e, version: version, deleted: deleted,
		attached: raw.Status.Attached && !deleted, deleting: deleted || raw.Metadata.DeletionTimestamp != nil})
}

// byHandle returns the PersistentVolume of a handle, nil when none was seen.
func (s *storageObjects) byHandle(handle string) *pvObject {
	return s.pvWhere(func(pv *pvObject) bool { return handle != "" && pv.handle == handle })
}

// byHash returns the PersistentVolume whose global mount has a name, nil when none was seen.
func (s *storageObjects) byHash(hash string) *pvObject {
	return s.pvWhere(func(pv *pvObject) bool { return pv.handle != "" && handleHash(pv.handle) == hash })
}

// pvWhere returns the first one that is meant, in the order of the names.
func (s *storageObjects) pvWhere(is func(*pvObject) bool) *pvObject {
	var found *pvObject
	for _, pv := range s.pvs {
		if is(pv) && (found == nil || pv.name < found.name) {
			found = pv
		}
	}
	return found
}

// volumeAt returns the name of the PersistentVolume that belongs at a place: that of the path, or, for a handle that
// no PersistentVolume has, the beginning of its hash.
func (s *storageObjects) volumeAt(p place) string {
	if p.volume != "" {
		return p.volume
	}
	if pv := s.byHash(p.hash); pv != nil {
		return pv.name
	}
	return "with the handle's hash " + p.hash[:min(len(p.hash), 12)]
}

// podName returns the name of the pod with a uid, and the uid where the API never showed it.
func (s *storageObjects) podName(uid string) string {
	if p := s.pods[uid]; p != nil {
		return p.name
	}
	return "with uid " + uid
}

// uses reports whether a claim of the pod is bound to a PersistentVolume.
func (s *storageObjects) uses(p *podObject, pv string) bool {
	return slices.ContainsFunc(p.claims, func(claim string) bool { return s.claims[claim] == pv })
}

// allows reports whether a mode is among those of the volume; nothing is allowed on one that was never seen.
func (pv *pvObject) allows(mode string) bool { return pv != nil && slices.Contains(pv.modes, mode) }

// manyNodes reports that a volume may be on several nodes at once. Kubernetes too lets a volume be attached to many
// nodes when any of its modes is one of these (pkg/volume/util, IsMultiAttachAllowed).
func (pv *pvObject) manyNodes() bool { return pv.allows("ReadWriteMany") || pv.allows("ReadOnlyMany") }
