package historytest

import (
	"fmt"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
)

// fields are the fields of a made-up API object.
type fields = map[string]any

// object adds one change of an API object.
func (t *Trial) object(resource, namespace, name, uid string, verb history.Verb, raw fields, at float64) {
	t.version++
	o := history.Object{
		Verb: verb, Resource: resource, Namespace: namespace, Name: name, UID: uid,
		ResourceVersion: fmt.Sprint(t.version),
	}
	if raw != nil {
		o.Raw = encode(raw)
	}
	t.fact("api", at-0.001, at, history.Event{Kind: history.KindObject, Object: &o})
}

// stamp renders a time as the API does.
func stamp(at float64) string {
	return time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC).Add(At(at).Sub(Start)).Format(time.RFC3339)
}

// status returns the status of a condition.
func status(yes bool) string { return map[bool]string{true: "True", false: "False"}[yes] }

// Node adds a cluster node.
func (t *Trial) Node(name string, at float64) {
	labels := fields{"kubernetes.io/hostname": name}
	if name == "control-plane" {
		labels["node-role.kubernetes.io/control-plane"] = ""
	}
	t.object("nodes", "", name, "node-"+name, history.VerbListed, fields{"metadata": fields{"labels": labels}}, at)
}

// InUse adds a node status with volumesInUse and volumesAttached.
func (t *Trial) InUse(node string, at float64, pvs ...string) {
	t.nodeStatus(history.VerbModified, node, true, pvs, at)
}

// NotReady is InUse for a node that is not Ready.
func (t *Trial) NotReady(node string, at float64, pvs ...string) {
	t.nodeStatus(history.VerbModified, node, false, pvs, at)
}

// GoneNode is InUse for a node that is deleted at that time.
func (t *Trial) GoneNode(node string, at float64, pvs ...string) {
	t.nodeStatus(history.VerbDeleted, node, true, pvs, at)
}

func (t *Trial) nodeStatus(verb history.Verb, node string, ready bool, pvs []string, at float64) {
	names, attached := []string{}, []any{}
	for _, pv := range pvs {
		names = append(names, "kubernetes.io/csi/"+Driver+"^"+Handle(pv))
		attached = append(attached, fields{"name": names[len(names)-1]})
	}
	t.object("nodes", "", node, "node-"+node, verb, fields{"status": fields{
		"volumesInUse": names, "volumesAttached": attached,
		"conditions": []any{fields{"type": "Ready", "status": status(ready)}}}}, at)
}

// PodUID returns the uid of the current pod of a name.
func (t *Trial) PodUID(name string) string { return t.uids[name] }

// Runs sets the node of all later pods of a name.
func (t *Trial) Runs(name, node string) { t.nodes[name] = node }

// Pod adds one change of a pod. An added pod gets a new uid; ending gives it a deletionTimestamp.
func (t *Trial) Pod(verb history.Verb, name, phase string, ready, ending bool, at float64) {
	if verb == history.VerbAdded {
		t.uids[name] = fmt.Sprintf("%s-uid-%d", name, t.version+1)
		t.made[name] = append(t.made[name], t.uids[name])
	}
	set := name[:max(strings.LastIndexByte(name, '-'), 0)]
	t.say(verb, name, &TalePod{UID: t.uids[name], Node: t.nodes[name], Revision: Revision(set, ""), Phase: phase,
		Hostname: name, Ready: ready, Ending: ending}, at)
}

// TalePod is the current state of a pod; a test may change it between two calls. A time of 0 leaves out its timestamp.
type TalePod struct {
	UID, Node, Revision, Phase, Hostname, Image string
	Ready, Ending, Disrupted, Evicted           bool
	readyAt, askedAt, madeAt                    float64
}

// say adds the current state of a pod.
func (t *Trial) say(verb history.Verb, name string, p *TalePod, at float64) {
	i := strings.LastIndexByte(name, '-')
	set, ordinal := name[:i], name[i+1:]
	metadata := fields{
		"name": name,
		"labels": fields{"controller-revision-hash": p.Revision,
			"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": ordinal},
		"ownerReferences": []any{fields{"kind": "StatefulSet", "name": set, "controller": true}},
	}
	ready := fields{"type": "Ready", "status": status(p.Ready)}
	if p.madeAt > 0 {
		metadata["creationTimestamp"], ready["lastTransitionTime"] = stamp(p.madeAt), stamp(p.readyAt)
	}
	if p.Ending {
		metadata["deletionTimestamp"] = "2026-11-21T00:00:00Z"
	}
	if p.askedAt > 0 {
		metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"] = stamp(p.askedAt+30), 30
	}
	conditions := []any{ready}
	if p.Disrupted {
		conditions = append(conditions, fields{"type": "DisruptionTarget", "status": "True"})
	}
	if p.Evicted {
		conditions = append(conditions, fields{"type": "DisruptionTarget", "status": "True",
			"reason": "EvictionByEvictionAPI"})
	}
	t.object("pods", "trial", name, p.UID, verb, fields{
		"metadata": metadata,
		"spec": fields{
			"nodeName": p.Node, "hostname": p.Hostname, "subdomain": set,
			"containers": []any{fields{"name": set, "image": p.Image}},
			"volumes": []any{fields{"name": "data",
				"persistentVolumeClaim": fields{"claimName": "data-" + name}}},
		},
		"status": fields{"phase": p.Phase, "conditions": conditions},
	}, at)
}

// SetSpec is the spec of a made-up StatefulSet. Image stands for its whole pod template.
type SetSpec struct {
	Replicas, Start, Partition, MinReady int
	HistoryLimit                         int // 0 means 10.
	Parallel, OnDelete, Recreate         bool
	MaxUnavailable                       any // A number or a string; nil for none.
	WhenDeleted, WhenScaled              string
	Image                                string
}

// Set adds one change of the StatefulSet.
func (t *Trial) Set(verb history.Verb, name string, replicas int, at float64) {
	t.set(verb, name, name+"-uid", SetSpec{Replicas: replicas}, at, nil)
}

func (t *Trial) set(verb history.Verb, name, uid string, s SetSpec, at float64, metadata fields) {
	rolling := fields{"partition": s.Partition}
	if s.MaxUnavailable != nil {
		rolling["maxUnavailable"] = s.MaxUnavailable
	}
	strategy := fields{"type": "RollingUpdate", "rollingUpdate": rolling}
	if s.OnDelete {
		strategy = fields{"type": "OnDelete"}
	}
	if s.Recreate {
		strategy = fields{"type": "Recreate"}
	}
	policy := "OrderedReady"
	if s.Parallel {
		policy = "Parallel"
	}
	limit := s.HistoryLimit
	if limit == 0 {
		limit = 10
	}
	raw := fields{
		"spec": fields{
			"replicas": s.Replicas, "podManagementPolicy": policy, "serviceName": name,
			"minReadySeconds": s.MinReady, "revisionHistoryLimit": limit, "updateStrategy": strategy,
			"ordinals": fields{"start": s.Start},
			"template": fields{"spec": fields{"containers": []any{fields{"name": name, "image": s.Image}}}},
			"persistentVolumeClaimRetentionPolicy": fields{
				"whenDeleted": s.WhenDeleted, "whenScaled": s.WhenScaled},
			"volumeClaimTemplates": []any{fields{"metadata": fields{"name": "data"}}},
		},
	}
	if metadata != nil {
		raw["metadata"] = metadata
	}
	t.object("statefulsets", "trial", name, uid, verb, raw, at)
}

// Claim adds a claim and, a little later, its binding to a volume.
func (t *Trial) Claim(name, pv string, at float64) {
	t.uids["claim/"+name] = fmt.Sprintf("%s-uid-%d", name, t.version+1)
	t.claim(history.VerbAdded, name, "", "Pending", fields{"name": name}, at)
	t.claim(history.VerbModified, name, pv, "Bound", fields{"name": name}, at+0.04)
}

func (t *Trial) claim(verb history.Verb, name, pv, phase string, metadata fields, at float64) {
	t.object("persistentvolumeclaims", "trial", name, t.uids["claim/"+name], verb, fields{
		"metadata": metadata,
		"spec": fields{"volumeName": pv, "storageClassName": "made-up",
			"resources": fields{"requests": fields{"storage": "512Mi"}}},
		"status": fields{"phase": phase},
	}, at)
}

// LocalPV adds a local PersistentVolume of a node, bound to a claim shortly after wanted.
func (t *Trial) LocalPV(pv, node, claim string, at, wanted float64) {
	state := func(verb history.Verb, claim any, phase string, at float64) {
		t.object("persistentvolumes", "", pv, pv+"-uid", verb, fields{
			"metadata": fields{"name": pv},
			"spec": fields{
				"accessModes": []string{"ReadWriteOnce"}, "capacity": fields{"storage": "512Mi"},
				"claimRef": claim, "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "made-up",
				"nodeAffinity": fields{"required": fields{"nodeSelectorTerms": []any{
					fields{"matchExpressions": []any{fields{
						"key": "kubernetes.io/hostname", "operator": "In", "values": []string{node}}}},
				}}},
			},
			"status": fields{"phase": phase},
		}, at)
	}
	state(history.VerbAdded, nil, "Available", at)
	state(history.VerbModified, fields{"namespace": "trial", "name": claim, "uid": t.uids["claim/"+claim]}, "Bound",
		wanted+0.03)
}

// PV adds a PersistentVolume of the CSI driver, bound to a claim of the trial.
func (t *Trial) PV(pv, claim, mode string, at float64) {
	t.object("persistentvolumes", "", pv, pv+"-uid", history.VerbAdded, fields{"spec": fields{
		"accessModes": []string{mode},
		"claimRef":    fields{"namespace": "trial", "name": claim},
		"csi":         fields{"driver": Driver, "volumeHandle": Handle(pv)},
	}}, at)
}

// Attachment adds one state of the VolumeAttachment of a volume to a node.
func (t *Trial) Attachment(verb history.Verb, pv, node string, attached, ending bool, at float64) {
	metadata := fields{}
	if ending {
		metadata["deletionTimestamp"] = "2026-11-21T00:00:00Z"
	}
	name := "csi-" + pv + "-" + node
	t.object("volumeattachments", "", name, name+"-uid", verb, fields{
		"metadata": metadata,
		"spec":     fields{"attacher": Driver, "nodeName": node, "source": fields{"persistentVolumeName": pv}},
		"status":   fields{"attached": attached},
	}, at)
}
