package trial_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/rundir"
)

// setStory is what the checks of StatefulSets read of a recorded run: without what clients did and what was mounted it
// is judged in a few milliseconds.
func setStory(t *testing.T, run string) history.History {
	t.Helper()
	dir, err := rundir.Open(filepath.Join(recorded, run))
	if err != nil {
		t.Fatal(err)
	}
	h, err := dir.ReadHistory()
	if err != nil {
		t.Fatal(err)
	}
	h.Events = slices.DeleteFunc(h.Events, func(e history.Event) bool {
		switch e.Kind {
		case history.KindPlan, history.KindPhase, history.KindFault, history.KindObserver, history.KindProcess:
			return false
		case history.KindObject:
			return e.Object.Resource == "leases"
		}
		return true
	})
	return h
}

// setChecks are the checks of StatefulSets.
func setChecks() []check.Check {
	return slices.DeleteFunc(check.All(), func(c check.Check) bool {
		return c.Name != "order" && !strings.HasPrefix(c.Name, "set-")
	})
}

// setMutation is one mechanical change of one event, of its envelope and of its content alike: a change that the two
// would tell of each other is no test of the rules.
type setMutation struct {
	how    string
	event  history.Event
	events []history.Event
}

func (m setMutation) String() string {
	o := m.event.Object
	return fmt.Sprintf("%s event %d: %s %s %s at %s", m.how, m.event.ID, o.Verb, o.Resource, o.Name, o.ResourceVersion)
}

// TestMutations changes recorded runs, one event at a time: it drops it, tells it twice, tells it again at the end,
// lets it change places with the next one of its object, gives it another name or uid, or changes what it says. At
// least 95 in 100 must be caught: a check that passed does so no longer. Those that are not are explained.
//
// What changes nothing is no mutation: an object is told whole each time, so a change that the next event of the object
// tells as well is told a moment later, and no more is lost.
func TestMutations(t *testing.T) {
	made, survived, unexplained := 0, map[string]int{}, []string{}
	for _, run := range []string{"selftest-deleted-row-42-fail", "smoke-861908-pass"} {
		h := setStory(t, run)
		before := check.Run(h, setChecks())
		for _, res := range before.Results {
			if res.Verdict != check.Pass {
				t.Fatalf("%s: %s is %s: %q %+v", run, res.Check, res.Verdict, res.Reasons, res.Findings)
			}
		}
		for _, m := range setMutations(h.Events) {
			made++
			if check.Run(history.History{Events: m.events}, setChecks()).Verdict != check.Pass {
				continue
			}
			why := explained(m)
			survived[why]++
			if why == "" {
				unexplained = append(unexplained, run+": "+m.String())
			}
		}
	}
	all := 0
	for _, why := range slices.Sorted(maps.Keys(survived)) {
		all += survived[why]
		t.Logf("%d survived: %s", survived[why], why)
	}
	t.Logf("%d of %d mutations caught: %.1f %%", made-all, made, 100*float64(made-all)/float64(made))
	if made < 100 || 100*all > 5*made {
		t.Errorf("%d mutations, %d survived: at least 100, and at most 5 in 100", made, all)
	}
	if len(unexplained) > 0 {
		t.Errorf("survived, and nobody knows why:\n%s", strings.Join(unexplained, "\n"))
	}
}

// explained says why a mutation that survived could not be caught, "" if it should have been.
func explained(m setMutation) string {
	switch resource := m.event.Object.Resource; {
	case resource == "statefulsets" && m.how == "drop":
		return "a status between two others: the controller may as well have written none, as it does when it is busy"
	case resource == "statefulsets":
		return "a status that was so within the 5 s by which a status may be late, and was put right within 30 s"
	case resource == "persistentvolumes":
		return "a step on the way of a volume to its claim: what it comes to is told by the claim"
	case m.how == "ready" || m.how == "unready":
		return "a readiness of a moment: less than the 2 s by which stamps may differ, or while a fault was at work"
	case m.how == "drop" || m.how == "reorder" || m.how == "replay":
		return "a readiness that came and went while a fault was at work, or up to 15 s after: a kubelet that was " +
			"cut off tells of its last change alone, and late"
	}
	return ""
}

func setMutations(events []history.Event) []setMutation {
	var all []setMutation
	for i, e := range events {
		if e.Object == nil || !slices.Contains(judgedResources(), e.Object.Resource) {
			continue
		}
		if e.Object.Resource == "persistentvolumes" && !claimed(events, e.Object.Name) {
			continue // Nobody's.
		}
		prev, next := neighbour(events, i, -1), neighbour(events, i, 1)
		now := says(e)
		betweenTwo := prev >= 0 && next >= 0 && soon(e, events[next]) && soon(events[prev], e)
		if !betweenTwo && !again(says(at(events, prev)), nil, now, says(at(events, next))) {
			all = append(all, setMutation{"drop", e, slices.Delete(slices.Clone(events), i, i+1)})
		}
		all = append(all, setMutation{"duplicate", e, slices.Insert(slices.Clone(events), i+1, e)})
		if last := latest(events, e); !maps.Equal(prevailing(now), prevailing(says(events[last]))) {
			end := slices.IndexFunc(events, func(e history.Event) bool {
				return e.Kind == history.KindPhase && e.Phase.Name == history.PhaseAudit
			})
			late := changed(e, e.Object.ResourceVersion, "999999")
			late.Object.ResourceVersion, late.Span = "999999", events[end].Span
			all = append(all, setMutation{"replay", e, slices.Insert(slices.Clone(events), end, late)})
		}
		if next >= 0 && !maps.Equal(prevailing(now), prevailing(says(events[next]))) && !soon(e, events[next]) {
			all = append(all, setMutation{"reorder", e, swapped(events, i, next)})
		}
		for _, l := range labels(e) {
			mutant := changed(e, l.from, l.to)
			if l.envelope != nil {
				l.envelope(mutant.Object)
			}
			if again(says(at(events, prev)), says(mutant), now, says(at(events, next))) || meant(events, i, mutant) {
				continue
			}
			with := slices.Clone(events)
			with[i] = mutant
			all = append(all, setMutation{l.how, e, with})
		}
	}
	return all
}

// claimed reports that a claim was bound to a volume.
func claimed(events []history.Event, volume string) bool {
	return slices.ContainsFunc(events, func(e history.Event) bool {
		return e.Object != nil && e.Object.Resource == "persistentvolumeclaims" && says(e)["volume"] == volume
	})
}

func judgedResources() []string {
	return []string{"persistentvolumeclaims", "persistentvolumes", "pods", "statefulsets"}
}

// label is a change of what an event says.
type label struct {
	how, from, to string
	envelope      func(*history.Object)
}

// labels returns the changes that can be made to an event.
func labels(e history.Event) []label {
	o := e.Object
	name := strings.NewReplacer("-0", "-1", "-1", "-2", "-2", "-0").Replace(o.Name)
	if o.Resource == "statefulsets" {
		name = o.Name + "-1"
	}
	all := []label{
		{"rename", `"name":"` + o.Name + `"`, `"name":"` + name + `"`, func(o *history.Object) { o.Name = name }},
		{"another uid", `"uid":"` + o.UID + `"`, `"uid":"another"`, func(o *history.Object) { o.UID = "another" }},
		{"another node", `"nodeName":"`, `"nodeName":"no-`, nil},
		{"another revision", `"controller-revision-hash":"`, `"controller-revision-hash":"no-`, nil},
		{"another volume", `"volumeName":"`, `"volumeName":"no-`, nil},
		{"not deleted", `"deletionTimestamp"`, `"deletedTimestamp"`, nil},
		{"not running", `"phase":"Running"`, `"phase":"Pending"`, nil},
		{"ready", `"status":"False","type":"Ready"`, `"status":"True","type":"Ready"`, nil},
		{"unready", `"status":"True","type":"Ready"`, `"status":"False","type":"Ready"`, nil},
	}
	for n := range 4 {
		for _, field := range []string{"readyReplicas", "replicas", "updatedReplicas", "currentReplicas"} {
			all = append(all, label{"another number of " + field, fmt.Sprintf(`"%s":%d`, field, n),
				fmt.Sprintf(`"%s":%d`, field, n+1), nil})
		}
	}
	return slices.DeleteFunc(all, func(l label) bool {
		return !bytes.Contains(o.Raw, []byte(l.from)) || l.how == "not deleted" && o.Verb == history.VerbDeleted
	})
}

func changed(e history.Event, from, to string) history.Event {
	o := *e.Object
	o.Raw = bytes.Replace(o.Raw, []byte(from), []byte(to), 1)
	if from == e.Object.ResourceVersion {
		o.Raw = bytes.Replace(e.Object.Raw, []byte(`"resourceVersion":"`+from+`"`),
			[]byte(`"resourceVersion":"`+to+`"`), 1)
	}
	e.Object = &o
	return e
}

// swapped lets two states of one object change places: each is told at the other's time and with the other's version.
func swapped(events []history.Event, i, k int) []history.Event {
	out := slices.Clone(events)
	first, second := events[i].Object.ResourceVersion, events[k].Object.ResourceVersion
	a, b := changed(events[k], second, first), changed(events[i], first, second)
	a.Object.ResourceVersion, b.Object.ResourceVersion = first, second
	a.Span, b.Span, a.ID, b.ID = events[i].Span, events[k].Span, events[i].ID, events[k].ID
	out[i], out[k] = a, b
	return out
}

// statusLag is how late a status may be, in which time nobody can tell a wrong one from an old one.
const statusLag = 5 * time.Second

// soon reports that two are statuses of one generation, one so soon after the other.
func soon(a, b history.Event) bool {
	return a.Object.Resource == "statefulsets" && b.Span.NotBefore.Sub(a.Span.NotAfter) < statusLag &&
		says(a)["generation"] == says(b)["generation"]
}

// meant reports that a mutant says of the pods what another status did that was written not long before or after.
func meant(events []history.Event, i int, mutant history.Event) bool {
	if mutant.Object.Resource != "statefulsets" {
		return false
	}
	for _, other := range events {
		if other.Object == nil || other.Object.Resource != "statefulsets" || other.Object.UID != mutant.Object.UID ||
			other.Span.NotBefore.Sub(events[i].Span.NotAfter) > statusLag ||
			events[i].Span.NotBefore.Sub(other.Span.NotAfter) > statusLag {
			continue
		}
		for _, field := range []string{"s.replicas", "s.ready", "s.updated", "s.current"} {
			if says(mutant)[field] != says(events[i])[field] && says(other)[field] == says(mutant)[field] {
				return true
			}
		}
	}
	return false
}

// neighbour returns the place of the event of the same object that came before (-1) or comes after (1), -1 for none.
func neighbour(events []history.Event, i, step int) int {
	for k := i + step; k >= 0 && k < len(events); k += step {
		if o := events[k].Object; o != nil && o.Resource == events[i].Object.Resource && o.UID == events[i].Object.UID {
			return k
		}
	}
	return -1
}

func at(events []history.Event, i int) history.Event {
	if i < 0 {
		return history.Event{}
	}
	return events[i]
}

// latest returns the place of the last event of the object of e.
func latest(events []history.Event, e history.Event) int {
	for k, other := range slices.Backward(events) {
		if o := other.Object; o != nil && o.Resource == e.Object.Resource && o.UID == e.Object.UID {
			return k
		}
	}
	return -1
}

// again reports that a change tells nothing but what the next event of the object tells as well: what it says instead
// (nil when it is dropped) is what was said before or what is said now, and what is said now is said again.
func again(before, instead, now, next map[string]string) bool {
	if before == nil {
		return false
	}
	for field := range now {
		told := before[field]
		if instead != nil {
			told = instead[field]
		}
		if told == now[field] {
			continue
		}
		if told != before[field] || next == nil || next[field] != now[field] {
			return false
		}
	}
	return true
}

// prevailing leaves out how an event came about.
func prevailing(says map[string]string) map[string]string {
	kept := maps.Clone(says)
	delete(kept, "verb")
	return kept
}

// says returns what an event says of what the rules are about, nil for no event.
func says(e history.Event) map[string]string {
	if e.Object == nil {
		return nil
	}
	var raw struct {
		Metadata struct {
			Name, UID, DeletionTimestamp string
			Generation                   int
			Labels                       map[string]string
		}
		Spec struct {
			NodeName, VolumeName string
			Replicas             int
			ClaimRef             struct{ Name, UID string }
		}
		Status struct {
			Phase                                                                        string
			Conditions                                                                   []struct{ Type, Status string }
			Replicas, ReadyReplicas, AvailableReplicas, CurrentReplicas, UpdatedReplicas int
			ObservedGeneration                                                           int
		}
	}
	if json.Unmarshal(e.Object.Raw, &raw) != nil {
		return map[string]string{"verb": string(e.Object.Verb)}
	}
	out := map[string]string{
		"verb": "there", "name": raw.Metadata.Name, "uid": raw.Metadata.UID,
		"ending":   fmt.Sprint(raw.Metadata.DeletionTimestamp != ""),
		"revision": raw.Metadata.Labels["controller-revision-hash"],
		"node":     raw.Spec.NodeName, "volume": raw.Spec.VolumeName,
		"claim":    raw.Spec.ClaimRef.Name + raw.Spec.ClaimRef.UID,
		"replicas": fmt.Sprint(raw.Spec.Replicas), "phase": raw.Status.Phase, "ready": "",
	}
	if e.Object.Verb == history.VerbDeleted {
		out["verb"] = "gone"
	}
	if e.Object.Resource == "statefulsets" {
		s := raw.Status
		out["status"] = fmt.Sprint(s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.CurrentReplicas,
			s.UpdatedReplicas)
		out["s.replicas"], out["s.ready"] = fmt.Sprint(s.Replicas), fmt.Sprint(s.ReadyReplicas)
		out["s.updated"], out["s.current"] = fmt.Sprint(s.UpdatedReplicas), fmt.Sprint(s.CurrentReplicas)
		out["generation"] = fmt.Sprint(raw.Metadata.Generation, s.ObservedGeneration)
	}
	for _, c := range raw.Status.Conditions {
		if c.Type == "Ready" {
			out["ready"] = c.Status
		}
	}
	return out
}
