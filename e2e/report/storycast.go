package report

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
)

// subject is a volume that a chronicle can tell of.
type subject struct {
	pv, handle, driver string
	namespace, claim   string
	instance           string // The pod that has it.
	modes              []string
	size               string
	keys               map[string]bool // Of the files behind its loop devices.
}

// cast is the volumes and the pods of a history.
type cast struct {
	volumes []*subject        // Those of instances first, by their ordinals.
	pods    map[string]string // Name by uid.
}

// volumeJSON is what a PersistentVolume says of itself.
type volumeJSON struct {
	Spec struct {
		AccessModes []string          `json:"accessModes"`
		Capacity    map[string]string `json:"capacity"`
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

type podClaimsJSON struct {
	Spec struct {
		Volumes []struct {
			Claim *struct {
				Name string `json:"claimName"`
			} `json:"persistentVolumeClaim"`
		} `json:"volumes"`
	} `json:"spec"`
}

// readCast finds out who there is: the volumes that the API or the kernel names, and whose they are.
func readCast(h history.History) *cast {
	c := &cast{pods: map[string]string{}}
	byName := map[string]*subject{}
	named := func(pv string) *subject {
		if byName[pv] == nil {
			byName[pv] = &subject{pv: pv, keys: map[string]bool{}}
		}
		return byName[pv]
	}
	owners := map[string]string{} // Pod by claim.
	for i := range h.Events {
		o := h.Events[i].Object
		if o == nil {
			continue
		}
		switch o.Resource {
		case "persistentvolumes":
			var pv volumeJSON
			if json.Unmarshal(o.Raw, &pv) == nil {
				named(o.Name).learn(pv)
			}
		case "pods":
			var pod podClaimsJSON
			c.pods[o.UID] = firstOf(o.Name, c.pods[o.UID])
			if json.Unmarshal(o.Raw, &pod) != nil {
				continue
			}
			for _, v := range pod.Spec.Volumes {
				if v.Claim != nil {
					owners[o.Namespace+"/"+v.Claim.Name] = o.Name
				}
			}
		}
	}
	c.places(h, byName, named)
	for _, v := range byName {
		v.instance = firstOf(owners[v.namespace+"/"+v.claim], v.instance)
		if v.instance != "" {
			c.volumes = append(c.volumes, v)
		}
	}
	slices.SortFunc(c.volumes, func(a, b *subject) int {
		return cmp.Or(cmp.Compare(ordinal(a.instance), ordinal(b.instance)), cmp.Compare(a.instance, b.instance),
			cmp.Compare(a.pv, b.pv))
	})
	return c
}

func (v *subject) learn(pv volumeJSON) {
	if ref := pv.Spec.ClaimRef; ref != nil {
		v.namespace, v.claim = ref.Namespace, ref.Name
	}
	if csi := pv.Spec.CSI; csi != nil {
		v.handle, v.driver = csi.VolumeHandle, csi.Driver
	}
	v.modes, v.size = pv.Spec.AccessModes, pv.Spec.Capacity["storage"]
}

// places learns from where things are mounted which file is behind which volume, and which pod has it.
func (c *cast) places(h history.History, byName map[string]*subject, named func(string) *subject) {
	byHash := map[string]*subject{}
	for _, v := range byName {
		if v.handle != "" {
			sum := sha256.Sum256([]byte(v.handle))
			byHash[hex.EncodeToString(sum[:])] = v
		}
	}
	key := func(v *subject, i history.Identity) {
		if v != nil && i.BackingInode != 0 {
			v.keys[i.Key()] = true
		}
	}
	for i := range h.Events {
		e := &h.Events[i]
		if e.Volume != nil && e.Volume.PV != "" {
			key(named(e.Volume.PV), e.Volume.Identity)
		}
		if e.Mount == nil || e.Mount.Action == history.MountDetach {
			continue
		}
		if g, ok := history.ParseCSIGlobalMount(e.Mount.Path); ok {
			key(byHash[g.Hash], e.Mount.Identity)
		}
		pv, uid := volumeOfPath(e.Mount.Path)
		if pv == "" || byName[pv] == nil && c.pods[uid] == "" {
			continue
		}
		v := named(pv)
		v.instance = firstOf(v.instance, c.pods[uid])
		key(v, e.Mount.Identity)
	}
}

// volumeOfPath returns the PersistentVolume and the pod that a path of the kubelet's names.
func volumeOfPath(path string) (pv, uid string) {
	if kv, ok := history.ParseKubeletPath(path); ok && persistent(kv.Plugin) {
		return kv.Name, kv.PodUID
	}
	if b, ok := history.ParseKubeletBlockPath(path); ok {
		return b.Name, b.PodUID
	}
	return "", ""
}

// persistent says that a plugin is one of persistent volumes.
func persistent(plugin string) bool {
	return strings.HasSuffix(plugin, "~csi") || strings.HasSuffix(plugin, "~local-volume")
}

// has reports whether a mount is of this volume. What is behind a loop device is; of a device that many share, only
// what is mounted in the volume's own place.
func (v *subject) has(m *history.Mount) bool {
	if v.keys[m.Identity.Key()] {
		return true
	}
	pv, _ := volumeOfPath(m.Path)
	return pv == v.pv
}

// ordinal is the number at the end of a pod's name, and large where there is none.
func ordinal(name string) int {
	n, err := strconv.Atoi(name[strings.LastIndex(name, "-")+1:])
	if err != nil || n < 0 {
		return 1 << 30
	}
	return n
}

// about reports whether a finding is about a volume: by the volume's name, or by that of the pod that has it.
func (c *cast) about(f check.Finding, v *subject) bool {
	for _, word := range strings.Fields(f.Subject) {
		if word == v.pv || word == v.instance || v.handle != "" && word == v.handle {
			return true
		}
	}
	return false
}
