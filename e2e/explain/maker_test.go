package explain_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
)

type m = map[string]any

// maker makes up a history about the StatefulSet trial/web, which has one claim a pod. Times are seconds since the
// begin of the trial, and the wall clock shows 09:00:00 then.
type maker struct {
	events   []history.Event
	versions map[string]int
	uids     map[string]string
	version  int
	spec     m
	status   m
	gen      int
	silent   map[string]float64 // Since when the kubelet of a node has not renewed its lease.
}

func at(seconds float64) history.Time {
	return history.Time(1000*time.Second) + history.Time(seconds*float64(time.Second))
}

func stampAt(seconds float64, layout string) string {
	begin := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	return begin.Add(time.Duration(seconds * float64(time.Second))).Format(layout)
}

func stamp(seconds float64) string { return stampAt(seconds, time.RFC3339) }

// newMaker has two nodes, watches that are on, and the StatefulSet with so many replicas.
func newMaker(replicas int) *maker {
	w := &maker{versions: map[string]int{}, uids: map[string]string{}, silent: map[string]float64{}}
	w.add(0, history.Event{Kind: history.KindPlan, Source: "trial", Plan: []byte(`{}`)})
	for _, r := range []string{"events", "leases", "nodes", "persistentvolumeclaims", "persistentvolumes", "pods",
		"statefulsets", "volumeattachments"} {
		w.add(0.05, history.Event{Kind: history.KindObserver, Source: "api",
			Observer: &history.Observer{Name: "api/" + r, State: history.ObserverOn}})
	}
	for _, n := range []string{"worker", "worker2"} {
		w.node(0.1, n, true, nil)
	}
	w.spec = m{"replicas": replicas, "volumeClaimTemplates": []any{m{"metadata": m{"name": "data"}}}}
	w.status = m{"currentRevision": "web-a", "updateRevision": "web-a"}
	w.set(1, nil)
	return w
}

func (w *maker) add(seconds float64, e history.Event) {
	e.Span = history.Between(at(seconds)-1e6, at(seconds))
	w.events = append(w.events, e)
}

// put tells of an object.
func (w *maker) put(seconds float64, resource, namespace, name string, raw m) {
	key := resource + "/" + name
	verb := history.VerbModified
	if w.uids[key] == "" {
		verb = history.VerbAdded
		w.versions[key]++
		w.uids[key] = fmt.Sprintf("%s-%d", name, w.versions[key])
	}
	w.tell(seconds, verb, resource, namespace, name, raw)
}

// drop tells that an object was deleted.
func (w *maker) drop(seconds float64, resource, namespace, name string) {
	w.tell(seconds, history.VerbDeleted, resource, namespace, name, m{})
	w.uids[resource+"/"+name] = ""
}

func (w *maker) tell(seconds float64, verb history.Verb, resource, namespace, name string, raw m) {
	data, err := json.Marshal(raw)
	if err != nil {
		panic(err) // Maps of plain values.
	}
	w.add(seconds, history.Event{Kind: history.KindObject, Source: "api", Object: &history.Object{Verb: verb,
		Resource: resource, Namespace: namespace, Name: name, UID: w.uids[resource+"/"+name], Raw: data}})
}

// history puts all in order.
func (w *maker) history() history.History {
	for _, n := range []string{"worker", "worker2"} {
		for seconds := 0.1; seconds < 60; seconds += 10 {
			if from, ok := w.silent[n]; !ok || seconds < from {
				w.lease(seconds, n)
			}
		}
	}
	events := slices.Clone(w.events)
	slices.SortStableFunc(events, func(a, b history.Event) int { return cmp.Compare(a.Span.NotAfter, b.Span.NotAfter) })
	for i := range events {
		events[i].ID = int64(i + 1)
		if o := events[i].Object; o != nil {
			w.version++
			fresh := *o
			fresh.ResourceVersion = strconv.Itoa(w.version)
			events[i].Object = &fresh
		}
	}
	return history.History{Events: events}
}

// set changes the StatefulSet's spec.
func (w *maker) set(seconds float64, change m) {
	for k, v := range change {
		w.spec[k] = v
	}
	w.gen++
	w.status["observedGeneration"] = w.gen
	w.say(seconds)
}

// rolls makes web-b the revision to update to.
func (w *maker) rolls(seconds float64) {
	w.status["updateRevision"] = "web-b"
	w.set(seconds, nil)
}

func (w *maker) say(seconds float64) {
	w.put(seconds, "statefulsets", "trial", "web", m{
		"metadata": m{"generation": w.gen, "creationTimestamp": stamp(1)}, "spec": w.spec, "status": w.status})
}

func (w *maker) node(seconds float64, name string, ready bool, more m) {
	condition := m{"type": "Ready", "status": "True", "lastTransitionTime": stamp(-100)}
	if !ready {
		condition = m{"type": "Ready", "status": "Unknown", "lastTransitionTime": stamp(seconds),
			"message": "Kubelet stopped posting node status."}
		w.silent[name] = seconds - 40
	}
	w.put(seconds, "nodes", "", name, m{"metadata": m{"labels": m{"kubernetes.io/hostname": name},
		"creationTimestamp": stamp(-1000)}, "spec": more, "status": m{"conditions": []any{condition}}})
}

func (w *maker) lease(seconds float64, name string) {
	w.put(seconds, "leases", "kube-node-lease", name, m{"spec": m{"leaseDurationSeconds": 40,
		"renewTime": stampAt(seconds, "2006-01-02T15:04:05.000000Z07:00")}})
}

// podOf is a pod as it is to be told.
type podOf struct {
	phase, node, revision string
	ready                 bool
	made, turned          float64 // When it was created, and when its readiness last changed.
	condition             m       // One more.
	containers            []any
	ending                float64 // When its end was asked for; 0 for not at all.
	finalizers            []any
	reason, message       string
}

func (w *maker) pod(seconds float64, ordinal int, p podOf) {
	name := fmt.Sprintf("web-%d", ordinal)
	if p.revision == "" {
		p.revision = "web-a"
	}
	metadata := m{"creationTimestamp": stamp(p.made), "labels": m{"controller-revision-hash": p.revision},
		"ownerReferences": []any{m{"kind": "StatefulSet", "name": "web", "controller": true}}}
	if p.ending != 0 {
		metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"] = stamp(p.ending+30), 30
	}
	if p.finalizers != nil {
		metadata["finalizers"] = p.finalizers
	}
	ready := m{"type": "Ready", "status": "False", "lastTransitionTime": stamp(p.turned)}
	if p.ready {
		ready["status"] = "True"
	}
	conditions := []any{ready}
	if p.condition != nil {
		conditions = append(conditions, p.condition)
	}
	w.put(seconds, "pods", "trial", name, m{"metadata": metadata,
		"spec": m{"nodeName": p.node, "volumes": []any{m{"name": "data",
			"persistentVolumeClaim": m{"claimName": "data-" + name}}}},
		"status": m{"phase": p.phase, "conditions": conditions, "containerStatuses": p.containers,
			"reason": p.reason, "message": p.message}})
}

// up tells of a pod that is Running and Ready at once, on worker for an even ordinal and on worker2 for an odd one.
func (w *maker) up(seconds float64, ordinals ...int) {
	for _, k := range ordinals {
		node := []string{"worker", "worker2"}[k%2]
		w.claim(seconds-0.02, k, fmt.Sprintf("pv-%d", k), "Bound")
		w.volume(seconds-0.01, fmt.Sprintf("pv-%d", k), node)
		w.pod(seconds, k, podOf{phase: "Running", node: node, ready: true, made: seconds, turned: seconds})
	}
}

func (w *maker) claim(seconds float64, ordinal int, volume, phase string) {
	w.put(seconds, "persistentvolumeclaims", "trial", fmt.Sprintf("data-web-%d", ordinal),
		m{"spec": m{"volumeName": volume}, "status": m{"phase": phase}})
}

// volume tells of one that only a node may use; any may without one.
func (w *maker) volume(seconds float64, name, node string) {
	affinity := m{}
	if node != "" {
		affinity = m{"required": m{"nodeSelectorTerms": []any{m{"matchExpressions": []any{
			m{"key": "kubernetes.io/hostname", "operator": "In", "values": []any{node}}}}}}}
	}
	w.put(seconds, "persistentvolumes", "", name, m{"spec": m{"accessModes": []any{"ReadWriteOnce"},
		"nodeAffinity": affinity}})
}

func (w *maker) notice(seconds float64, kind, name, reason, message string) {
	w.put(seconds, "events", "trial", fmt.Sprintf("%s.%s", name, reason), m{"involvedObject": m{"kind": kind,
		"name": name}, "reason": reason, "message": message, "type": "Warning"})
}

func (w *maker) fault(step int, name, node string, injected, healed float64) {
	stage := func(seconds float64, stage history.FaultStage) {
		w.add(seconds, history.Event{Kind: history.KindFault, Source: "guard",
			Fault: &history.Fault{Step: step, Name: name, Node: node, Stage: stage}})
	}
	stage(injected, history.StageInjected)
	stage(injected+0.2, history.StageConfirmed)
	if healed != 0 {
		stage(healed, history.StageHealed)
	}
}

func unscheduled(message string) m {
	return m{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
}

func waits(reason, message string) []any {
	return []any{m{"name": "web", "state": m{"waiting": m{"reason": reason, "message": message}}}}
}

func runs() []any { return []any{m{"name": "web", "ready": false, "state": m{"running": m{}}}} }
