package historytest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
)

// Observer adds what an observer says of itself.
func (t *Trial) Observer(name, node, boot string, state history.ObserverState, detail string, from, to float64) {
	source := "api"
	if node != "" {
		source = "ledger/" + node
	}
	t.Add(history.Event{Kind: history.KindObserver, Source: source, Span: history.Between(At(from), At(to)),
		Observer: &history.Observer{Name: name, Node: node, Boot: boot, State: state, Detail: detail}})
}

// Beats adds a beat of the observer each second in [from, to].
func (t *Trial) Beats(name, node, boot string, from, to float64) {
	for s := from; s <= to; s++ {
		t.Observer(name, node, boot, history.ObserverBeat, "", s, s)
	}
}

// Mount adds a mount that appears or is present, and returns its id. Its moments are known to 0.1 ms.
func (t *Trial) Mount(action history.MountAction, node, boot string, inode uint64, path string, at float64) uint64 {
	t.mountID++
	t.Add(history.Event{Kind: history.KindMount, Source: "ledger/" + node, Span: history.Between(At(at),
		At(at+0.0001)),
		Mount: &history.Mount{
			Action: action, Node: node, Boot: boot, MountID: t.mountID, Root: "/", Path: path, FSType: "ext4",
			Identity: Identity(inode),
		}})
	return t.mountID
}

// Unmount adds the end of a mount.
func (t *Trial) Unmount(node, boot string, id uint64, at float64) {
	t.Add(history.Event{Kind: history.KindMount, Source: "ledger/" + node, Span: history.Between(At(at),
		At(at+0.0001)),
		Mount: &history.Mount{Action: history.MountDetach, Node: node, Boot: boot, MountID: id}})
}

// Identity is that of a loop device over the backing file with the given inode.
func Identity(inode uint64) history.Identity {
	return history.Identity{
		Device: fmt.Sprintf("7:%d", inode), BackingDev: "8:1", BackingInode: inode,
		BackingFile: fmt.Sprintf("/var/lib/seatrial/volumes/%d.img", inode),
	}
}

// Volume adds which storage stands behind a PersistentVolume.
func (t *Trial) Volume(pv, node, path string, inode uint64, at float64) {
	t.Add(history.Event{Kind: history.KindVolume, Source: "trial", Span: history.At(At(at)),
		Volume: &history.Volume{PV: pv, Node: node, Path: path, Identity: Identity(inode)}})
}

// Node adds a node of the cluster.
func (t *Trial) Node(name string, at float64) {
	t.object("nodes", "", name, "node-"+name, history.VerbListed, nil, at)
}

// PodUID returns the uid of the living pod of that name.
func (t *Trial) PodUID(name string) string { return t.uids[name] }

// Runs says on which node the pods of that name run from now on.
func (t *Trial) Runs(name, node string) { t.nodes[name] = node }

// Pod adds one change of a pod. An added pod gets a new uid; phase is the pod's, and ending says that it has a
// deletionTimestamp.
func (t *Trial) Pod(verb history.Verb, name, phase string, ready, ending bool, at float64) {
	if verb == history.VerbAdded {
		t.uids[name] = fmt.Sprintf("%s-uid-%d", name, t.version+1)
		t.made[name] = append(t.made[name], t.uids[name])
	}
	status := "False"
	if ready {
		status = "True"
	}
	set, ordinal := name, ""
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		set, ordinal = name[:i], name[i+1:]
	}
	metadata := map[string]any{
		"name": name,
		"labels": map[string]any{
			"controller-revision-hash":           Revision(set, t.images[set]),
			"statefulset.kubernetes.io/pod-name": name,
			"apps.kubernetes.io/pod-index":       ordinal,
		},
		"ownerReferences": []any{map[string]any{"kind": "StatefulSet", "name": set, "controller": true}},
	}
	if ending {
		metadata["deletionTimestamp"] = "2026-11-21T00:00:00Z"
	}
	t.object("pods", "trial", name, t.uids[name], verb, map[string]any{
		"metadata": metadata,
		"spec": map[string]any{
			"nodeName": t.nodes[name], "hostname": name, "subdomain": set,
			"volumes": []any{map[string]any{
				"name": "data", "persistentVolumeClaim": map[string]any{"claimName": "data-" + name},
			}},
		},
		"status": map[string]any{
			"phase": phase, "conditions": []any{map[string]any{"type": "Ready", "status": status}},
		},
	}, at)
}

// Set adds one change of the StatefulSet.
func (t *Trial) Set(verb history.Verb, name string, replicas int, policy string, at float64) {
	t.object("statefulsets", "trial", name, name+"-uid", verb, map[string]any{
		"spec": map[string]any{"replicas": replicas, "podManagementPolicy": policy, "serviceName": name,
			"image":                t.images[name],
			"volumeClaimTemplates": []any{map[string]any{"metadata": map[string]any{"name": "data"}}}},
	}, at)
}

func (t *Trial) object(resource, namespace, name, uid string, verb history.Verb, raw any, at float64) {
	t.version++
	o := history.Object{
		Verb: verb, Resource: resource, Namespace: namespace, Name: name, UID: uid,
		ResourceVersion: fmt.Sprint(t.version),
	}
	if raw != nil {
		data, err := json.Marshal(raw)
		if err != nil {
			panic(err) // Maps of plain values.
		}
		o.Raw = data
	}
	t.Add(history.Event{Kind: history.KindObject, Source: "api", Span: history.Between(At(at-0.001), At(at)),
		Object: &o})
}

// Claim adds a claim that is made, and bound to a volume a little later.
func (t *Trial) Claim(name, pv string, at float64) {
	t.uids["claim/"+name] = fmt.Sprintf("%s-uid-%d", name, t.version+1)
	state := func(verb history.Verb, volume, phase string, at float64) {
		t.object("persistentvolumeclaims", "trial", name, t.uids["claim/"+name], verb, map[string]any{
			"metadata": map[string]any{"name": name},
			"spec": map[string]any{"volumeName": volume, "storageClassName": "made-up",
				"resources": map[string]any{"requests": map[string]any{"storage": "512Mi"}}},
			"status": map[string]any{"phase": phase},
		}, at)
	}
	state(history.VerbAdded, "", "Pending", at)
	state(history.VerbModified, pv, "Bound", at+0.04)
}

// LocalPV adds a PersistentVolume of a node's own that is bound to a claim a little after it was wanted.
func (t *Trial) LocalPV(pv, node, claim string, at, wanted float64) {
	state := func(verb history.Verb, claim any, phase string, at float64) {
		t.object("persistentvolumes", "", pv, pv+"-uid", verb, map[string]any{
			"metadata": map[string]any{"name": pv},
			"spec": map[string]any{
				"accessModes": []string{"ReadWriteOnce"}, "capacity": map[string]any{"storage": "512Mi"},
				"claimRef": claim, "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "made-up",
				"nodeAffinity": map[string]any{"required": map[string]any{"nodeSelectorTerms": []any{
					map[string]any{"matchExpressions": []any{map[string]any{
						"key": "kubernetes.io/hostname", "operator": "In", "values": []string{node}}}},
				}}},
			},
			"status": map[string]any{"phase": phase},
		}, at)
	}
	state(history.VerbAdded, nil, "Available", at)
	state(history.VerbModified, map[string]any{"namespace": "trial", "name": claim, "uid": t.uids["claim/"+claim]},
		"Bound",
		wanted+0.03)
}

// watchAPI turns the watches of the API on and lets them live to a moment.
func (t *Trial) watchAPI(to float64) {
	for _, resource := range []string{
		"controllerrevisions", "events", "nodes", "persistentvolumeclaims", "persistentvolumes", "pods", "statefulsets",
	} {
		t.Observer("api/"+resource, "", "", history.ObserverOn, "", 0.3, 0.3)
		t.Beats("api/"+resource, "", "", 1, to)
	}
}

// Process adds a process of a pod that ran from one moment to another, and to an unseen end when that is 0.
func (t *Trial) Process(node, name, podUID string, pid int, from, to float64) {
	for _, p := range []struct {
		action history.ProcessAction
		at     float64
	}{{history.ProcessStarted, from}, {history.ProcessGone, to}} {
		if p.at == 0 {
			continue
		}
		t.Add(history.Event{Kind: history.KindProcess, Source: "ledger/" + node, Span: history.Between(At(p.at-0.2),
			At(p.at)),
			Process: &history.Process{Action: p.action, Node: node, Name: name, PID: pid, Start: At(from),
				PodUID: podUID}})
	}
}
