package world

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
)

// VolumeLife is one volume and everything of it that was seen mounted: by nodes, and within containers.
type VolumeLife struct {
	Name   string // The PersistentVolume's; where none was seen, the handle or the beginning of its hash.
	Handle string // "" for a volume of no CSI driver.
	PV     *PV    // Nil when the API never showed it.
	Keys   []string
	Used   bool // It was seen where the kubelet mounts volumes, for a pod or for a node.
	Mounts []*Mount

	// For a device: the directories by which it is a volume. Others on the device are other things.
	roots map[string][]string // By key.
}

// Volumes are those that a volume fact names, that a CSI driver has, or that were mounted, on any node, where the
// kubelet mounts persistent volumes.
type Volumes struct {
	All     []*VolumeLife          // In the order of their names.
	ByName  map[string]*VolumeLife // The same.
	Unnamed []*history.Event       // Volume facts without an identity.

	byHandle map[string]*VolumeLife
	byKey    map[string]*VolumeLife
}

// readVolumes reads them. Which mounts are a volume's is told by where they are: the kubelet's places and the paths
// that the driver's calls name; and by the identity of what is mounted there, wherever else it is.
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
		root := "/" // Unless the directory of the file system that is mounted there was seen.
		for _, m := range slices.Backward(ledger.Lives) {
			if m.Node == e.Volume.Node && m.Key == key && slices.Contains(m.Paths, e.Volume.Path) {
				root = m.Root
			}
		}
		v.add(key, root, v.named(e.Volume.PV, storage))
	}
	places := make([]*VolumeLife, len(ledger.Lives)) // Of each mount, nil where it is no place of a volume.
	for _, shared := range []bool{false, true} {     // What all pods of a node share tells the name less plainly.
		for i, m := range ledger.Lives {
			switch {
			case shared != (m.Pod == ""):
			case m.Place != Place{}:
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

// named returns the volume of a name.
func (v *Volumes) named(name string, s *Storage) *VolumeLife {
	of := v.ByName[name]
	if of == nil {
		of = &VolumeLife{Name: name, PV: s.PVs[name], roots: map[string][]string{}}
		v.ByName[name] = of
	}
	return of
}

// handled adds the volume of a handle.
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

// calls adds the volumes that calls name, and returns the handles by the paths at which they were to be mounted.
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

// add says that what has an identity is a volume, unless it is another already, and returns which it is.
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

// ByHandle returns the volume of a handle, nil where neither the API nor a call told of it.
func (v *Volumes) ByHandle(handle string) *VolumeLife { return v.byHandle[handle] }

// Handled returns the volumes of CSI drivers, in the order of their handles.
func (v *Volumes) Handled() []*VolumeLife {
	all := make([]*VolumeLife, 0, len(v.byHandle))
	for _, handle := range slices.Sorted(maps.Keys(v.byHandle)) {
		all = append(all, v.byHandle[handle])
	}
	return all
}

// loop reports that an identity is that of a file behind a loop device.
func loop(key string) bool { return strings.HasPrefix(key, "file:") }

// has reports whether a mount with one of the volume's identities is of this volume. All of a file behind a loop device
// is one volume, whatever directory of it is mounted. A device may hold many: the nodes of kind share their host's
// disk.
func (v *VolumeLife) has(m *Mount) bool {
	return loop(m.Key) || slices.ContainsFunc(v.roots[m.Key], func(root string) bool { return nested(root, m.Root) })
}

// whole reports that the volume is all of a file or device: of what a container has mounted, the directory is not
// known.
func (v *VolumeLife) whole(key string) bool {
	return loop(key) || !slices.ContainsFunc(v.roots[key], func(root string) bool { return root != "/" })
}

// nested reports that one directory is in the other, or the same.
func nested(a, b string) bool {
	a, b = strings.TrimSuffix(a, "/")+"/", strings.TrimSuffix(b, "/")+"/"
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
}

// Apart reports that two mounts of the volume must not be there together: they are of the same directory, and on two
// nodes, or, for a volume of a single pod, for two pods.
func (v *VolumeLife) Apart(a, b *Mount) bool {
	if a.Key == "" || a.Key != b.Key || !loop(a.Key) && !nested(a.Root, b.Root) {
		return false
	}
	return a.Node != b.Node || v.PV.Allows("ReadWriteOncePod") && a.Pod != b.Pod && a.Pod != "" && b.Pod != ""
}

// Reaching returns the volume's mounts as their nodes could use them: over, once their disk was pulled.
func (v *VolumeLife) Reaching(p *Pulls) []*Mount {
	all := make([]*Mount, 0, len(v.Mounts))
	for _, m := range v.Mounts {
		m, _ = p.Cut(m)
		all = append(all, m)
	}
	return all
}

// Owner returns the name of the pod that a volume is of: the last one with a claim that is bound to it, or else one
// that it was mounted for; "" when none was seen.
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
