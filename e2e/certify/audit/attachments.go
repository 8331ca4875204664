package audit

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/seatrial/seatrial/e2e/world"
)

// attachmentRules look at which volume is attached where.
func attachmentRules() []Rule {
	return []Rule{
		{
			Name:  "two-attachments",
			Looks: "a volume for one node only is attached, or is to be attached, to several",
			Why:   "two nodes that write to one disk damage its file system, and both lose writes",
			Source: "Persistent Volumes, Access Modes (docs/concepts/storage/persistent-volumes/); kubernetes PR " +
				"124334",
			Fix: "stop the writers on all nodes but one, check the file system, and find out why the first detach " +
				"seemed done",
			Needs:  []Part{Attachments, Volumes},
			Moving: true, find: twoAttachments,
		},
		{
			Name:  "orphan-attachment",
			Looks: "a VolumeAttachment whose node or volume is gone",
			Why:   "nobody detaches the disk any more: it stays attached to a machine that may still write",
			Source: "VolumeAttachment " +
				"(docs/reference/kubernetes-api/config-and-storage-resources/volume-attachment-v1/)",
			Fix: "make sure that the machine is off, that the storage itself shows the disk as detached, then delete " +
				"the VolumeAttachment",
			Needs:  []Part{Attachments, Nodes, Volumes},
			Moving: true, find: orphanAttachment,
		},
		{
			Name: "volumes-in-use",
			Looks: "pods, VolumeAttachments and the node's status disagree about a volume: mounted but not " +
				"attached, attached but not in volumesInUse or volumesAttached, in use without a pod",
			Why: "the attach-detach controller detaches a volume once it is not in volumesInUse: if the list is " +
				"wrong, the volume is still mounted then, and another node gets it",
			Source: "kubernetes issue 121937; NodeStatus (docs/reference/kubernetes-api/cluster-resources/node-v1/)",
			Fix: "drain the node and look for the mount on it; reboot the node if the volume stays mounted " +
				"without a pod; do not move the pod to another node before that",
			Needs:  []Part{Attachments, Claims, Drivers, Nodes, Pods, Volumes},
			Moving: true, find: volumesInUse,
		},
	}
}

func twoAttachments(r *ruling) {
	of := map[string][]*storagev1.VolumeAttachment{}
	for a := range each(r.Attachments) {
		if name := a.Spec.Source.PersistentVolumeName; name != nil {
			of[*name] = append(of[*name], a)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		volume := r.volumes[name]
		if volume == nil || world.ManyNodes(volume.Spec.AccessModes) {
			continue // One without a volume is found by orphan-attachment.
		}
		nodes := map[string]bool{} // Whether it is attached there.
		var where []Object
		for _, a := range of[name] {
			nodes[a.Spec.NodeName] = nodes[a.Spec.NodeName] || a.Status.Attached
			where = append(where, object("VolumeAttachment", a))
		}
		attached := 0
		for _, is := range nodes {
			if is {
				attached++
			}
		}
		where = append([]Object{object("PersistentVolume", volume)}, where...)
		all := names(slices.Sorted(maps.Keys(nodes)))
		switch {
		case attached > 1:
			r.found(Danger, where, "PersistentVolume %s, %s, is attached to %d nodes at once; attachments on: %s",
				name, world.AccessModes(volume.Spec.AccessModes), attached, all)
		case len(nodes) > 1:
			r.found(Warning, where, "PersistentVolume %s, %s, is to be attached to %d nodes at once: %s",
				name, world.AccessModes(volume.Spec.AccessModes), len(nodes), all)
		}
	}
}

func orphanAttachment(r *ruling) {
	for a := range each(r.Attachments) {
		where := []Object{object("VolumeAttachment", a)}
		if r.nodes[a.Spec.NodeName] == nil {
			r.found(Warning, where, "VolumeAttachment %s (attached: %t) is of node %s, which is gone",
				a.Name, a.Status.Attached, a.Spec.NodeName)
		}
		if name := a.Spec.Source.PersistentVolumeName; name != nil && r.volumes[*name] == nil {
			r.found(Warning, where, "VolumeAttachment %s (attached: %t) on node %s is of PersistentVolume %s, which "+
				"is gone",
				a.Name, a.Status.Attached, a.Spec.NodeName, *name)
		}
	}
}

// csiPrefix begins the name by which a node's status calls a volume of a CSI driver.
const csiPrefix = "kubernetes.io/csi/"

// unique returns the name by which a node's status calls a volume, empty for one that no CSI driver attaches.
func (s *state) unique(v *corev1.PersistentVolume) string {
	csi := v.Spec.CSI
	if csi == nil {
		return ""
	}
	if d := s.drivers[csi.Driver]; d != nil && d.Spec.AttachRequired != nil && !*d.Spec.AttachRequired {
		return ""
	}
	return csiPrefix + csi.Driver + "^" + csi.VolumeHandle
}

// onNode is what is known of one volume on one node.
type onNode struct {
	volume    string // The PersistentVolume, or the name in the node's status if there is none.
	inUse     bool   // In volumesInUse.
	listed    bool   // In volumesAttached.
	attached  bool   // By a VolumeAttachment.
	users     []Object
	isStarted bool // A user runs: the volume is mounted.
	object    Object
}

func volumesInUse(r *ruling) {
	attachments := map[string][]*storagev1.VolumeAttachment{} // By node.
	for a := range each(r.Attachments) {
		attachments[a.Spec.NodeName] = append(attachments[a.Spec.NodeName], a)
	}
	called := map[string]*corev1.PersistentVolume{}
	for i := range r.Volumes {
		if name := r.unique(&r.Volumes[i]); name != "" {
			called[name] = &r.Volumes[i]
		}
	}
	var others []string
	for node := range each(r.Nodes) {
		on := r.volumesOn(node, attachments[node.Name], called)
		for _, name := range slices.Sorted(maps.Keys(on)) {
			if on[name].object.Name == "" && !strings.HasPrefix(name, csiPrefix) {
				others = append(others, name+" on node "+node.Name)
				continue
			}
			judgeOnNode(r, object("Node", node), on[name])
		}
	}
	if len(others) > 0 {
		r.unseen("only volumes of CSI drivers are compared, not %s", names(others))
	}
}

// volumesOn joins what pods, attachments and the status of a node say of its volumes, by their names in the status.
func (s *state) volumesOn(
	node *corev1.Node, attachments []*storagev1.VolumeAttachment, called map[string]*corev1.PersistentVolume,
) map[string]*onNode {
	on := map[string]*onNode{}
	at := func(name string) *onNode {
		if on[name] == nil {
			on[name] = &onNode{volume: name}
			if v := called[name]; v != nil {
				on[name].volume, on[name].object = v.Name, object("PersistentVolume", v)
			}
		}
		return on[name]
	}
	for _, name := range node.Status.VolumesInUse {
		at(string(name)).inUse = true
	}
	for _, a := range node.Status.VolumesAttached {
		at(string(a.Name)).listed = true
	}
	for _, a := range attachments {
		pv := a.Spec.Source.PersistentVolumeName
		if !a.Status.Attached || pv == nil || s.volumes[*pv] == nil {
			continue
		}
		if name := s.unique(s.volumes[*pv]); name != "" {
			at(name).attached = true
		}
	}
	for _, p := range s.podsOn[node.Name] {
		if ended(p) {
			continue
		}
		for _, v := range s.volumesOf(p) {
			if name := s.unique(v); name != "" {
				o := at(name)
				o.users = append(o.users, object("Pod", p))
				o.isStarted = o.isStarted || running(p)
			}
		}
	}
	return on
}

// judgeOnNode finds what cannot be: what a pod that has not started yet explains is left out.
func judgeOnNode(r *ruling, node Object, v *onNode) {
	where := append([]Object{node}, v.users...)
	if v.object.Name != "" {
		where = slices.Insert(where, 1, v.object)
	}
	switch {
	case v.isStarted && !v.attached:
		r.found(Danger, where, "volume %s is mounted on node %s by %s, but no VolumeAttachment has it attached there",
			v.volume, node.Name, v.users[0])
	case v.isStarted && !v.inUse:
		r.found(Danger, where, "volume %s is attached to node %s and mounted by %s, but is not in the node's "+
			"volumesInUse",
			v.volume, node.Name, v.users[0])
	case v.isStarted && !v.listed:
		r.found(Warning, where, "volume %s is attached to node %s and mounted by %s, but is not in the node's "+
			"volumesAttached", v.volume, node.Name, v.users[0])
	case len(v.users) > 0:
	case v.inUse && !v.attached:
		r.found(Danger, where, "node %s has volume %s in volumesInUse, but no pod there uses it and no "+
			"VolumeAttachment "+
			"has it attached there: a mount may be left behind", node.Name, v.volume)
	case v.inUse:
		r.found(Danger, where, "node %s has volume %s in volumesInUse, but no pod there uses it: a mount may be left "+
			"behind", node.Name, v.volume)
	case v.attached:
		r.found(Warning, where, "volume %s is attached to node %s, but no pod there uses it", v.volume, node.Name)
	case v.listed:
		r.found(Warning, where, "node %s has volume %s in volumesAttached, but no VolumeAttachment and no pod say so",
			node.Name, v.volume)
	}
}
