package check

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// disk is one volume of a CSI driver and where it was mounted: by a node, and within containers.
type disk struct {
	handle string
	name   string // The PersistentVolume's, and the handle where none was seen.
	pv     *world.PV
	keys   []string
	lives  []*world.Mount
}

// diskStory is what the judges of attached volumes have to know: what the API said, what the drivers did, what the
// kernels had mounted.
type diskStory struct {
	history    *world.World
	scene      *world.Trial
	ruling     *ruling
	objects    *world.Storage
	log        *world.Calls
	ledger     *world.Ledger
	containers *world.Containers
	disks      map[string]*disk // By handle.
	handles    []string         // In order.
}

// readDisks reads all three sources. Which mounts are a volume's is told by where they are: the kubelet's places and
// the paths that the calls name; and by the identity of what is mounted there, wherever else it is.
func readDisks(h *world.World, s *world.Trial, r *ruling) *diskStory {
	d := &diskStory{history: h, scene: s, ruling: r, objects: h.Storage(), log: h.Calls(), ledger: h.Ledger(),
		containers: h.Containers(), disks: map[string]*disk{}}
	for _, pv := range d.objects.Pvs {
		if pv.Handle != "" {
			d.disk(pv.Handle)
		}
	}
	type spot struct{ node, path string }
	called := map[spot]string{}
	for _, c := range d.log.Calls {
		if c.Volume == "" {
			continue
		}
		d.disk(c.Volume)
		for _, path := range []string{c.Staging, c.Target} {
			if path != "" && strings.HasPrefix(c.RPC, "Node") {
				called[spot{c.Node, path}] = c.Volume
			}
		}
	}
	var found []*disk // Of each mount, nil where it is no place of a volume.
	for _, life := range d.ledger.Lives {
		var of *disk
		for _, path := range life.Paths {
			p, ok := world.PlaceOf(path)
			if handle := called[spot{life.Node, path}]; handle != "" {
				of = d.disks[handle]
			} else if pv := d.objects.PVAt(p); ok && pv != nil && pv.Handle != "" {
				of = d.disks[pv.Handle]
			}
		}
		found = append(found, of)
		if of != nil && strings.HasPrefix(life.Key, "file:") && !slices.Contains(of.keys, life.Key) {
			of.keys = append(of.keys, life.Key)
		}
	}
	for handle, v := range d.disks {
		d.handles = append(d.handles, handle)
		for i, life := range d.ledger.Lives {
			if found[i] == v || slices.Contains(v.keys, life.Key) {
				v.lives = append(v.lives, life)
			}
		}
		for _, life := range d.containers.Holdings {
			if slices.Contains(v.keys, life.Key) {
				v.lives = append(v.lives, life)
			}
		}
	}
	slices.Sort(d.handles)
	return d
}

func (d *diskStory) disk(handle string) {
	if d.disks[handle] != nil {
		return
	}
	v := &disk{handle: handle, name: handle, pv: d.objects.ByHandle(handle)}
	if v.pv != nil {
		v.name = v.pv.Name
	}
	d.disks[handle] = v
}

// window is from the first sight of any volume to the last sight of anything.
func (d *diskStory) window() history.Span {
	window := history.Span{NotBefore: world.Forever, NotAfter: d.scene.LastSight()}
	for _, c := range d.log.Of(world.RPCAttach, world.RPCDetach, world.RPCStage, world.RPCUnstage, world.RPCPublish,
		world.RPCUnpublish) {
		if c.Begin != nil {
			window.NotBefore = min(window.NotBefore, c.Begin.Span.NotBefore)
		}
	}
	for _, v := range d.disks {
		for _, life := range v.lives {
			window.NotBefore = min(window.NotBefore, life.From)
		}
	}
	return window
}

// judgeCalls counts the calls as evidence and holds that none can have been missed.
func (d *diskStory) judgeCalls(rpcs ...string) {
	for _, c := range d.log.Of(rpcs...) {
		if c.Begin == nil {
			d.ruling.unknown("a call of %s for volume %s on node %s has an end and no begin", c.RPC, c.Volume,
				c.TargetNode())
			continue
		}
		if c.Volume == "" || c.TargetNode() == "" {
			d.ruling.unknown("a call of %s at %s does not say for which volume and node it was", c.RPC,
				d.scene.Clock(c.Begin.Span.NotBefore))
			continue
		}
		d.ruling.evidence++
		if v := d.disks[c.Volume]; v != nil {
			d.ruling.looked("volume " + v.name)
		}
	}
	if len(d.handles) == 0 {
		d.ruling.unknown("no volume of a CSI driver was seen, and the plan has the workload on such ones")
	}
	if attaches := d.log.Of(world.RPCAttach, world.RPCDetach); len(attaches) == 0 {
		d.ruling.note("no ControllerPublishVolume or ControllerUnpublishVolume was called: " +
			"a driver that attaches nothing has no order of attaching and detaching to keep")
	}
	judgeCallSight(d.log, d.history, d.window(), d.scene, d.ruling)
}

// volumesInUse says in words whether a node's status named the volume as in use at a moment, and by which event.
func (d *diskStory) volumesInUse(v *disk, node string, at history.Time) (string, []int64) {
	var last *world.NodeVolumes
	for i, n := range d.objects.InUse[node] {
		if n.Event.Span.NotAfter <= at {
			last = &d.objects.InUse[node][i]
		}
	}
	switch {
	case last == nil || v.pv == nil:
		return "whether the node's volumesInUse named it is not known", nil
	case slices.Contains(last.InUse, corev1.UniqueVolumeName("kubernetes.io/csi/"+v.pv.Driver+"^"+v.handle)):
		return "the node's volumesInUse still named it", []int64{last.Event.ID}
	}
	return "the node's volumesInUse did not name it", []int64{last.Event.ID}
}

// detachWanted says when the volume's VolumeAttachment to a node was marked for deletion, the last time up to a moment.
func (d *diskStory) detachWanted(v *disk, node string, by history.Time) (string, []int64) {
	var mark *world.AttachmentState
	for _, a := range d.objects.Attachments {
		if a.Pv != v.name || a.Node != node {
			continue
		}
		i := slices.IndexFunc(a.States, func(s world.AttachmentState) bool { return s.Deleting })
		if i >= 0 && a.States[i].Event.Span.NotBefore <= by &&
			(mark == nil || cmp.Less(mark.Version, a.States[i].Version)) {
			mark = &a.States[i]
		}
	}
	if mark == nil {
		return "no VolumeAttachment was seen to be deleted", nil
	}
	return "its VolumeAttachment was deleted by " + d.scene.Clock(mark.Event.Span.NotAfter), []int64{mark.Event.ID}
}
