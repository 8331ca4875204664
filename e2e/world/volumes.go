package world

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/history"
)

// VolumeLife is one volume with all of its mounts, on nodes and within containers.
type VolumeLife struct {
	Name   string // Name of the PersistentVolume; if none was seen, the handle or the beginning of its hash.
	Handle string // Handle at the CSI driver, "" if the volume has none.
	PV     *PV    // Nil if the API never showed it.
	Keys   []string
	Used   bool // It was mounted where the kubelet mounts volumes, for a pod or globally.
	Mounts []*Mount

	// roots holds the directories of a device that are this volume, by key; other directories are something else.
	roots map[string][]string
}

// Volumes holds every volume that a volume fact names, that a CSI driver has, or that was mounted on any node where the
// kubelet mounts persistent volumes.
type Volumes struct {
	All     []*VolumeLife          // Sorted by name.
	ByName  map[string]*VolumeLife // The volumes of All.
	Unnamed []*history.Event       // Volume facts without an identity.

	byHandle map[string]*VolumeLife
	byKey    map[string]*VolumeLife
}

// readVolumes reads the volumes. A mount belongs to a volume by its path (a kubelet path, or one that a call of the
// driver names), or by the identity of what is mounted there, wherever else that is mounted.
func readVolumes(w *World) *Volumes {
	v := &Volumes{ByName: map[string]*VolumeLife{}, byHandle: map[string]*VolumeLife{},
		byKey: map[string]*VolumeLife{}}
	storage, ledger := w.Storage(), w.Ledger()
	for _, pv := range storage.PVs {
		if pv.Handle != "" {
			v.handled(pv.Handle, storage)
		}
	}
	called := v.calls(w.Calls(), storage)
	for _, e := range w.Of(history.KindVolume) {
		key := e.Volume.Identity.Key()
		if key == "" {
			v.Unnamed = append(v.Unnamed, e)
			continue
		}
		root := "/" // If no mount at the path shows another directory.
		for _, m := range slices.Backward(ledger.Lives) {
			if m.Node == e.Volume.Node && m.Key == key && slices.Contains(m.Paths, e.Volume.Path) {
				root = m.Root
			}
		}
		v.add(key, root, v.named(e.Volume.PV, storage))
	}
	places := make([]*VolumeLife, len(ledger.Lives)) // The volume of each mount by its path, or nil.
	for _, shared := range []bool{false, true} {     // Paths of pods first: a global path may have only a hash.
		for i, m := range ledger.Lives {
			switch {
			case shared != (m.Pod == ""):
			case m.Place != history.Place{}:
				places[i] = v.named(storage.VolumeAt(m.Place), storage)
				if m.Key != "" {
					v.add(m.Key, m.Root, places[i]).Used = true
				}
			default:
				for _, path := range m.Paths {
					places[i] = cmp.Or(v.byHandle[called[spot{m.Node, path}]], places[i])
				}
				if places[i] != nil && m.Key != "" {
					v.add(m.Key, m.Root, places[i])
				}
			}
		}
	}
	for i, m := range ledger.Lives {
		if of := v.byKey[m.Key]; of != nil && of.has(m) {
			of.Mounts = append(of.Mounts, m)
		} else if m.Key == "" && places[i] != nil {
			places[i].Mounts = append(places[i].Mounts, m)
		}
	}
	for _, m := range w.Containers().Holdings {
		if of := v.byKey[m.Key]; of != nil && of.whole(m.Key) {
			of.Mounts = append(of.Mounts, m)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.ByName)) {
		v.All = append(v.All, v.ByName[name])
	}
	return v
}

// named returns the volume of a name; it adds one if there is none.
func (v *Volumes) named(name string, s *Storage) *VolumeLife {
	of := v.ByName[name]
	if of == nil {
		of = &VolumeLife{Name: name, PV: s.PVs[name], roots: map[string][]string{}}
		v.ByName[name] = of
	}
	return of
}

// handled adds the volume of a handle, unless it is known.
func (v *Volumes) handled(handle string, s *Storage) {
	of := v.byHandle[handle]
	if of == nil {
		name := handle
		if pv := s.ByHandle(handle); pv != nil {
			name = pv.Name
		}
		of = v.named(name, s)
		of.Handle, v.byHandle[handle] = handle, of
	}
}

// spot is a path on a node.
type spot struct{ node, path string }

// calls adds the volumes that calls name, and returns their handles by the paths that the calls mount at.
func (v *Volumes) calls(all *Calls, s *Storage) map[spot]string {
	called := map[spot]string{}
	for _, c := range all.Calls {
		if c.Volume == "" {
			continue
		}
		v.handled(c.Volume, s)
		for _, path := range []string{c.Staging, c.Target} {
			if path != "" && strings.HasPrefix(c.RPC, "Node") {
				called[spot{c.Node, path}] = c.Volume
			}
		}
	}
	return called
}

// add assigns an identity key to a volume, unless another volume has it already, and returns the volume that has it.
func (v *Volumes) add(key, root string, of *VolumeLife) *VolumeLife {
	if known := v.byKey[key]; known != nil {
		of = known
	} else {
		v.byKey[key] = of
		of.Keys = append(of.Keys, key)
	}
	of.roots[key] = append(of.roots[key], root)
	return of
}

// ByHandle returns the volume of a handle, nil if neither the API nor a call names it.
func (v *Volumes) ByHandle(handle string) *VolumeLife { return v.byHandle[handle] }

// Handled returns the volumes that have a handle, sorted by it.
func (v *Volumes) Handled() []*VolumeLife {
	all := make([]*VolumeLife, 0, len(v.byHandle))
	for _, handle := range slices.Sorted(maps.Keys(v.byHandle)) {
		all = append(all, v.byHandle[handle])
	}
	return all
}

// loop reports whether an identity key is that of a file behind a loop device.
func loop(key string) bool { return strings.HasPrefix(key, "file:") }

// has reports whether a mount with one of the volume's keys is of this volume. A file behind a loop device is one
// volume, whatever directory of it is mounted. A device may hold many volumes: kind nodes share their host's disk.
func (v *VolumeLife) has(m *Mount) bool {
	return loop(m.Key) || slices.ContainsFunc(v.roots[m.Key], func(root string) bool { return nested(root, m.Root) })
}

// whole reports whether the volume is an entire file or device. Only such a volume can be recognised in a container,
// where the mounted directory is not known.
func (v *VolumeLife) whole(key string) bool {
	return loop(key) || !slices.ContainsFunc(v.roots[key], func(root string) bool { return root != "/" })
}

// nested reports whether one directory is the other or is within it.
func nested(a, b string) bool {
	a, b = strings.TrimSuffix(a, "/")+"/", strings.TrimSuffix(b, "/")+"/"
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
}

// Apart reports whether two mounts of the volume must not exist at once: they share a directory, and are on two nodes
// or, for ReadWriteOncePod, for two pods.
func (v *VolumeLife) Apart(a, b *Mount) bool {
	if a.Key == "" || a.Key != b.Key || !loop(a.Key) && !nested(a.Root, b.Root) {
		return false
	}
	onePod := v.PV != nil && slices.Contains(v.PV.Modes, corev1.ReadWriteOncePod)
	return a.Node != b.Node || onePod && a.Pod != b.Pod && a.Pod != "" && b.Pod != ""
}

// Reaching returns the volume's mounts as their nodes could use them, see Pulls.Cut.
func (v *VolumeLife) Reaching(p *Pulls) []*Mount {
	all := make([]*Mount, 0, len(v.Mounts))
	for _, m := range v.Mounts {
		m, _ = p.Cut(m)
		all = append(all, m)
	}
	return all
}

// Owner returns the name of the pod that a volume belongs to: the last pod with a claim bound to it, else a pod that it
// was mounted for; "" if there is none.
func (w *World) Owner(v *VolumeLife) string {
	owner := ""
	for _, p := range w.Pods().All {
		if w.Storage().Uses(p, v.Name) {
			owner = p.Name
		}
	}
	for _, m := range v.Mounts {
		if p := w.Pods().ByUID[m.Pod]; p != nil {
			owner = cmp.Or(owner, p.Name)
		}
	}
	return owner
}
