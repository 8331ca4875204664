package check

import (
	"cmp"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
)

// disk is one volume of a CSI driver and where it was mounted: by a node, and within containers.
type disk struct {
	handle string
	name   string // The PersistentVolume's, and the handle where none was seen.
	pv     *pvObject
	keys   []string
	lives  []*mountLife
}

// diskStory is what the judges of attached volumes have to know: what the API said, what the drivers did, what the
// kernels had mounted.
type diskStory struct {
	history    history.History
	scene      *scene
	ruling     *ruling
	objects    *storageObjects
	log        *callLog
	ledger     *mountLedger
	containers *containers
	disks      map[string]*disk // By handle.
	handles    []string         // In order.
}

// readDisks reads all three sources. Which mounts are a volume's is told by where they are: the kubelet's places and
// the paths that the calls name; and by the identity of what is mounted there, wherever else it is.
func readDisks(h history.History, s *scene, r *ruling) *diskStory {
	d := &diskStory{history: h, scene: s, ruling: r, objects: readStorage(h), log: readCalls(h), ledger: readLedger(h),
		containers: readContainers(h), disks: map[string]*disk{}}
	for _, pv := range d.objects.pvs {
		if pv.handle != "" {
			d.disk(pv.handle)
		}
	}
	type spot struct{ node, path string }
	called := map[spot]string{}
	for _, c := range d.log.calls {
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
	for _, life := range d.ledger.lives {
		var of *disk
		for _, path := range life.paths {
			p, ok := placeOf(path)
			if handle := called[spot{life.node, path}]; handle != "" {
				of = d.disks[handle]
			} else if pv := d.objects.pvAt(p); ok && pv != nil && pv.handle != "" {
				of = d.disks[pv.handle]
			}
		}
		found = append(found, of)
		if of != nil && strings.HasPrefix(life.key, "file:") && !slices.Contains(of.keys, life.key) {
			of.keys = append(of.keys, life.key)
		}
	}
	for handle, v := range d.disks {
		d.handles = append(d.handles, handle)
		for i, life := range d.ledger.lives {
			if found[i] == v || slices.Contains(v.keys, life.key) {
				v.lives = append(v.lives, life)
			}
		}
		for _, life := range d.containers.holdings {
			if slices.Contains(v.keys, life.key) {
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
	v := &disk{handle: handle, name: handle, pv: d.objects.byHandle(handle)}
	if v.pv != nil {
		v.name = v.pv.name
	}
	d.disks[handle] = v
}

// pvAt returns the PersistentVolume that belongs at a place, nil when none was seen.
func (s *storageObjects) pvAt(p place) *pvObject {
	if p.volume != "" {
		return s.pvs[p.volume]
	}
	if p.hash == "" {
		return nil
	}
	return s.byHash(p.hash)
}

// window is from the first sight of any volume to the last sight of anything.
func (d *diskStory) window() history.Span {
	window := history.Span{NotBefore: forever, NotAfter: d.scene.lastSight(d.history)}
	for _, c := range d.log.of(rpcAttach, rpcDetach, rpcStage, rpcUnstage, rpcPublish, rpcUnpublish) {
		if c.begin != nil {
			window.NotBefore = min(window.NotBefore, c.begin.Span.NotBefore)
		}
	}
	for _, v := range d.disks {
		for _, life := range v.lives {
			window.NotBefore = min(window.NotBefore, life.from)
		}
	}
	return window
}

// judgeCalls counts the calls as evidence and holds that none can have been missed.
func (d *diskStory) judgeCalls(rpcs ...string) {
	for _, c := range d.log.of(rpcs...) {
		if c.begin == nil {
			d.ruling.unknown("a call of %s for volume %s on node %s has an end and no begin", c.RPC, c.Volume,
				c.target())
			continue
		}
		if c.Volume == "" || c.target() == "" {
			d.ruling.unknown("a call of %s at %s does not say for which volume and node it was", c.RPC,
				d.scene.clock(c.begin.Span.NotBefore))
			continue
		}
		d.ruling.evidence++
	}
	if len(d.handles) == 0 {
		d.ruling.unknown("no volume of a CSI driver was seen, and the plan has the workload on such ones")
	}
	if attaches := d.log.of(rpcAttach, rpcDetach); len(attaches) == 0 {
		d.ruling.note("no ControllerPublishVolume or ControllerUnpublishVolume was called: " +
			"a driver that attaches nothing has no order of attaching and detaching to keep")
	}
	d.log.judgeSight(d.history, d.window(), d.scene, d.ruling)
}

// volumesInUse says in words whether a node's status named the volume as in use at a moment, and by which event.
func (d *diskStory) volumesInUse(v *disk, node string, at history.Time) (string, []int64) {
	var last *nodeVolumes
	for i, n := range d.objects.inUse[node] {
		if n.event.Span.NotAfter <= at {
			last = &d.objects.inUse[node][i]
		}
	}
	switch {
	case last == nil || v.pv == nil:
		return "whether the node's volumesInUse named it is not known", nil
	case slices.Contains(last.inUse, "kubernetes.io/csi/"+v.pv.driver+"^"+v.handle):
		return "the node's volumesInUse still named it", []int64{last.event.ID}
	}
	return "the node's volumesInUse did not name it", []int64{last.event.ID}
}

// detachWanted says when the volume's VolumeAttachment to a node was marked for deletion, the last time up to a moment.
func (d *diskStory) detachWanted(v *disk, node string, by history.Time) (string, []int64) {
	var mark *attachmentState
	for _, a := range d.objects.attachments {
		if a.pv != v.name || a.node != node {
			continue
		}
		i := slices.IndexFunc(a.states, func(s attachmentState) bool { return s.deleting })
		if i >= 0 && a.states[i].event.Span.NotBefore <= by &&
			(mark == nil || cmp.Less(mark.version, a.states[i].version)) {
			mark = &a.states[i]
		}
	}
	if mark == nil {
		return "no VolumeAttachment was seen to be deleted", nil
	}
	return "its VolumeAttachment was deleted by " + d.scene.clock(mark.event.Span.NotAfter), []int64{mark.event.ID}
}
