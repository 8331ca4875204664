package historytest

import (
	"fmt"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

// Tale builds the life of the StatefulSet "web", one change after the other. The test says what its controller does,
// right or wrong; History adds the right status.
type Tale struct {
	*Trial
	Spec    SetSpec
	Now     float64 // Time of the next change, in seconds since the begin of the trial.
	Pause   float64 // Seconds between two changes.
	pods    map[string]*TalePod
	current string
	volumes map[string]string // Claim to volume, for each existing claim.
	edition int
}

// SetPlan is the plan of a Tale: a single load step.
func SetPlan(replicas int) plan.Plan {
	p := SmokePlan()
	p.Scenario = "sets"
	p.Workload.StatefulSet, p.Workload.Replicas = "web", replicas
	p.Bounds.Settle, p.Bounds.Ready = plan.Duration(20*time.Second), plan.Duration(10*time.Second)
	p.Steps = []plan.Step{{N: 1, Do: plan.ActionLoad, Commits: 1, Bound: plan.Duration(time.Minute)}}
	return p
}

// Web begins a tale: the nodes, the watches, and the StatefulSet at +1 s.
func Web(spec SetSpec) *Tale {
	if spec.Image == "" {
		spec.Image = "v1"
	}
	w := &Tale{Trial: New(SetPlan(spec.Replicas)), Spec: spec, Now: 1, Pause: 3, pods: map[string]*TalePod{},
		current: Revision("web", spec.Image), volumes: map[string]string{}}
	for _, node := range []string{"worker", "worker2"} {
		w.Node(node, 0.2)
	}
	w.set(history.VerbAdded)
	return w
}

func (w *Tale) tick() float64 {
	at := w.Now
	w.Now += w.Pause
	return at
}

// Wait advances Now.
func (w *Tale) Wait(seconds float64) *Tale { w.Now += seconds; return w }

func (w *Tale) set(verb history.Verb) {
	at := w.tick()
	if verb == history.VerbAdded {
		w.edition++
	}
	w.Trial.set(verb, "web", fmt.Sprintf("web-uid-%d", w.edition), w.Spec, at,
		fields{"name": "web", "creationTimestamp": stamp(at)})
}

// Change changes the StatefulSet.
func (w *Tale) Change(change func(*SetSpec)) *Tale {
	change(&w.Spec)
	w.set(history.VerbModified)
	return w
}

// Drop deletes the StatefulSet.
func (w *Tale) Drop() *Tale { w.set(history.VerbDeleted); return w }

// Again creates another StatefulSet of the same name.
func (w *Tale) Again() *Tale { w.set(history.VerbAdded); return w }

// Update returns the current update revision.
func (w *Tale) Update() string { return Revision("web", w.Spec.Image) }

// Revision returns the revision at which the pod of an ordinal must be created.
func (w *Tale) Revision(ordinal int) string {
	if !w.Spec.OnDelete && ordinal < w.Spec.Start+w.Spec.Partition {
		return w.current
	}
	return w.Update()
}

// Pod returns the pod of an ordinal.
func (w *Tale) Pod(ordinal int) *TalePod { return w.pods[fmt.Sprintf("web-%d", ordinal)] }

// Make creates the pod of an ordinal at the right revision, after its claim if it has none.
func (w *Tale) Make(ordinal int) *Tale { return w.MakeAt(ordinal, w.Revision(ordinal)) }

// MakeAt is Make at a given revision.
func (w *Tale) MakeAt(ordinal int, revision string) *Tale {
	name := fmt.Sprintf("web-%d", ordinal)
	node := []string{"worker", "worker2"}[ordinal%2]
	if claim := "data-" + name; w.volumes[claim] == "" {
		pv := "pv-" + name
		if w.uids["claim/"+claim] != "" {
			pv = fmt.Sprintf("pv-%s-%d", name, w.version)
		}
		w.volumes[claim] = pv
		w.Claim(claim, pv, w.Now-0.01)
		w.LocalPV(pv, node, claim, 0.95, w.Now)
	}
	w.pods[name] = &TalePod{UID: fmt.Sprintf("%s-uid-%.0f", name, 1000*w.Now), Revision: revision, Phase: "Pending",
		Hostname: name, Image: revision, madeAt: w.Now}
	w.Say(history.VerbAdded, ordinal)
	w.Pod(ordinal).Node = node
	return w
}

// Ready makes the pod of an ordinal Running and Ready.
func (w *Tale) Ready(ordinal int) *Tale {
	p := w.Pod(ordinal)
	p.Phase, p.Ready, p.readyAt = "Running", true, w.Now
	w.Say(history.VerbModified, ordinal)
	w.complete()
	return w
}

// complete makes the update revision the current one once all pods are at it and Ready.
func (w *Tale) complete() {
	ready := 0
	for _, p := range w.pods {
		if p.Ready && p.Revision == w.Update() {
			ready++
		}
	}
	if ready == w.Spec.Replicas && len(w.pods) == ready {
		w.current = w.Update()
	}
}

// Unready makes the pod of an ordinal not Ready.
func (w *Tale) Unready(ordinal int) *Tale {
	w.Pod(ordinal).Ready = false
	return w.Say(history.VerbModified, ordinal)
}

// Up creates pods, each Ready before the next.
func (w *Tale) Up(ordinals ...int) *Tale {
	for _, k := range ordinals {
		w.Make(k).Ready(k)
	}
	return w
}

// Ask requests the deletion of the pod of an ordinal, without an Event that names the controller.
func (w *Tale) Ask(ordinal int) *Tale {
	p := w.Pod(ordinal)
	p.Ending, p.askedAt = true, w.Now
	return w.Say(history.VerbModified, ordinal)
}

// End is Ask with the controller's Event.
func (w *Tale) End(ordinal int) *Tale {
	at := w.Now
	w.Ask(ordinal)
	name := fmt.Sprintf("web-%d", ordinal)
	w.object("events", "trial", fmt.Sprintf("web.%d", int(1000*at)), "", history.VerbAdded, fields{
		"involvedObject": fields{"kind": "StatefulSet", "name": "web"}, "reason": "SuccessfulDelete",
		"message": "delete Pod " + name + " in StatefulSet web successful",
	}, at+0.01)
	return w
}

// Gone removes the pod of an ordinal.
func (w *Tale) Gone(ordinal int) *Tale {
	p := w.Pod(ordinal)
	p.Phase, p.Ready, p.Ending = "Succeeded", false, true
	w.Say(history.VerbDeleted, ordinal)
	delete(w.pods, fmt.Sprintf("web-%d", ordinal))
	return w
}

// Away ends pods as the controller does, each gone before the next.
func (w *Tale) Away(ordinals ...int) *Tale {
	for _, k := range ordinals {
		w.End(k).Gone(k)
	}
	return w
}

// Replace ends pods as the controller does, each recreated and Ready before the next.
func (w *Tale) Replace(ordinals ...int) *Tale {
	for _, k := range ordinals {
		w.Away(k).Up(k)
	}
	return w
}

// Say adds the current state of the pod of an ordinal.
func (w *Tale) Say(verb history.Verb, ordinal int) *Tale {
	w.say(verb, fmt.Sprintf("web-%d", ordinal), w.Pod(ordinal), w.tick())
	return w
}

// ByHand creates a pod without an owner, whose label or names may be those of a pod of web.
func (w *Tale) ByHand(name, label, hostname, subdomain string) *Tale {
	w.object("pods", "trial", name, name+"-uid", history.VerbAdded, fields{
		"metadata": fields{"name": name,
			"labels": fields{"statefulset.kubernetes.io/pod-name": label}},
		"spec": fields{"hostname": hostname, "subdomain": subdomain, "nodeName": "worker"},
	}, w.tick())
	return w
}

// Keep adds a ControllerRevision.
func (w *Tale) Keep(verb history.Verb, image string, number int) *Tale {
	name := Revision("web", image)
	w.object("controllerrevisions", "trial", name, name+"-uid", verb, fields{
		"metadata": fields{"name": name, "ownerReferences": []any{
			fields{"kind": "StatefulSet", "name": "web", "uid": fmt.Sprintf("web-uid-%d", w.edition)}}},
		"revision": number,
		"data": fields{"spec": fields{"template": fields{"spec": fields{
			"containers": []any{fields{"name": "web", "image": name}}}}}},
	}, w.tick())
	return w
}

// ClaimEnds requests the deletion of an ordinal's claim, or removes it; owner is the uid of its owner, "" for none.
func (w *Tale) ClaimEnds(verb history.Verb, ordinal int, owner string) *Tale {
	name := fmt.Sprintf("data-web-%d", ordinal)
	metadata := fields{"name": name, "deletionTimestamp": stamp(w.Now)}
	if owner != "" {
		metadata["ownerReferences"] = []any{fields{"uid": owner}}
	}
	w.claim(verb, name, w.volumes[name], "Bound", metadata, w.tick())
	if verb == history.VerbDeleted {
		delete(w.volumes, name)
	}
	return w
}

// Told ends the tale after some quiet seconds in which the watches were alive, and returns the history.
func (w *Tale) Told(after float64) history.History {
	end := w.Now + after
	w.watchAPI(end + 1)
	w.Phase(history.PhaseAudit, 0, end, end+0.5)
	w.Done(end + 2)
	return w.History()
}
