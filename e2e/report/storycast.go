package report

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/world"
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

// readCast finds out who there is: the volumes that the API or the kernel names, and whose they are.
func readCast(w *world.World) *cast {
	c := &cast{pods: map[string]string{}}
	byName := map[string]*subject{}
	named := func(pv string) *subject {
		if byName[pv] == nil {
			byName[pv] = &subject{pv: pv, keys: map[string]bool{}}
		}
		return byName[pv]
	}
	owners := map[string]string{} // Pod by claim.
	for _, v := range w.Objects().Volumes.All {
		named(v.Name()).learn(v.Spec)
	}
	for _, p := range w.Objects().Pods.All {
		c.pods[p.UID()] = p.Name()
		for _, u := range world.ClaimUses(p.Spec) {
			owners[world.Key(p.Event.Object.Namespace, u.Claim)] = p.Name()
		}
	}
	c.places(w, byName, named)
	for _, v := range byName {
		v.instance = cmp.Or(owners[v.namespace+"/"+v.claim], v.instance)
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

func (v *subject) learn(pv *corev1.PersistentVolumeSpec) {
	if ref := pv.ClaimRef; ref != nil {
		v.namespace, v.claim = ref.Namespace, ref.Name
	}
	if csi := pv.CSI; csi != nil {
		v.handle, v.driver = csi.VolumeHandle, csi.Driver
	}
	v.modes = nil
	for _, m := range pv.AccessModes {
		v.modes = append(v.modes, string(m))
	}
	v.size = ""
	if size, ok := pv.Capacity[corev1.ResourceStorage]; ok {
		v.size = size.String()
	}
}

// places learns from where things are mounted which file is behind which volume, and which pod has it.
func (c *cast) places(w *world.World, byName map[string]*subject, named func(string) *subject) {
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
	for _, e := range w.Of(history.KindVolume) {
		if e.Volume.PV != "" {
			key(named(e.Volume.PV), e.Volume.Identity)
		}
	}
	for _, e := range w.Of(history.KindMount) {
		place, ok := world.PlaceOf(e.Mount.Path)
		if e.Mount.Action == history.MountDetach || !ok {
			continue
		}
		key(byHash[place.Hash], e.Mount.Identity)
		if place.Volume == "" || byName[place.Volume] == nil && c.pods[place.Pod] == "" {
			continue
		}
		v := named(place.Volume)
		v.instance = cmp.Or(v.instance, c.pods[place.Pod])
		key(v, e.Mount.Identity)
	}
}

// has reports whether a mount is of this volume. What is behind a loop device is; of a device that many share, only
// what is mounted in the volume's own place.
func (v *subject) has(m *world.Mount) bool {
	return v.keys[m.Key] || slices.ContainsFunc(m.Paths, func(path string) bool {
		place, ok := world.PlaceOf(path)
		return ok && place.Volume == v.pv
	})
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
