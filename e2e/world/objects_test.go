package world

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/history"
)

// object is one event of the API watch; the object's metadata comes from the event.
func object(verb history.Verb, resource, name, uid string, version int, rest string) *history.Event {
	raw := fmt.Sprintf(`{"metadata":{"name":%q,"uid":%q,"resourceVersion":"%d","generation":3},%s}`, name, uid, version,
		rest)
	return &history.Event{ID: int64(version), Kind: history.KindObject, Span: history.At(history.Time(10 * version)),
		Object: &history.Object{Verb: verb, Resource: resource, Namespace: "n", Name: name, UID: uid,
			ResourceVersion: fmt.Sprint(version), Raw: json.RawMessage(raw)}}
}

// TestAt holds that it is the last version that was known by then, in whatever order versions became known.
func TestAt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := NewObjects()
		for range rapid.IntRange(0, 8).Draw(t, "events") {
			verb := rapid.SampledFrom([]history.Verb{history.VerbModified, history.VerbDeleted}).Draw(t, "verb")
			e := object(verb, "pods", "p-0", "u", rapid.IntRange(1, 9).Draw(t, "version"), `"spec":{}`)
			e.Span = history.At(history.Time(rapid.IntRange(1, 9).Draw(t, "known")))
			o.Add(e)
		}
		for at := range history.Time(11) {
			var want *Pod
			for _, p := range o.Pods.ByKey["n/p-0"] {
				if p.Event.Span.NotAfter <= at {
					want = p
				}
			}
			if want != nil && want.Deleted() {
				want = nil
			}
			if got := o.Pods.At("n/p-0", at); got != want {
				t.Errorf("at %d: %+v, want %+v", at, got, want)
			}
		}
	})
}

func TestObjectsAreDecodedAndOrdered(t *testing.T) {
	o := NewObjects()
	spec := `"spec":{"nodeName":"w","containers":[{"image":"a"},{"image":"b"}],"volumes":[{"name":"v",` +
		`"persistentVolumeClaim":{"claimName":"c"}}]}`
	ready := `,"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True",` +
		`"lastTransitionTime":"2026-11-21T00:00:05Z"}]}`
	for _, e := range []*history.Event{
		object(history.VerbAdded, "pods", "p-0", "u", 5, spec),
		object(history.VerbModified, "pods", "p-0", "u", 9, spec+ready),
		object(history.VerbModified, "pods", "p-0", "u", 7, spec),
		object(history.VerbDeleted, "pods", "p-0", "u", 11, spec),
		object(history.VerbAdded, "secrets", "s", "x", 12, spec),
	} {
		o.Add(e)
	}
	all := o.Pods.ByKey["n/p-0"]
	if len(all) != 4 || o.Pods.Jumbled != 1 || o.Pods.Strange != 0 {
		t.Fatalf("%d versions, %d jumbled, %d strange", len(all), o.Pods.Jumbled, o.Pods.Strange)
	}
	for i, want := range []uint64{5, 7, 9, 11} {
		if p := all[i]; p.Version != want || p.Spec != all[0].Spec || p.Meta != all[0].Meta || p.Meta.Generation != 3 {
			t.Errorf("version %d at %d: %+v", p.Version, i, p)
		}
	}
	if s := all[2].Status; !s.Ready || !s.Running || s.ReadySince == 0 || all[0].Status.Ready {
		t.Errorf("status %+v", s)
	}
	if Images(all[0].Spec.Containers) != "a b" || ClaimUses(all[0].Spec)[0] != (ClaimUse{"v", "c"}) {
		t.Errorf("spec %+v", all[0].Spec)
	}
	if p := o.Pods.At("n/p-0", 95); p != all[2] {
		t.Errorf("at 95 it is %+v", p)
	}
	if p := o.Pods.At("n/p-0", 200); p != nil {
		t.Errorf("after its end it is %+v", p)
	}
	if p := o.Pods.AtVersion("n/p-0", 8); p != all[1] || o.Pods.AtVersion("n/p-0", 4) != nil {
		t.Errorf("at version 8 it is %+v", p)
	}
}

// TestStrangeObjectsAreCounted holds that an object that contradicts its record is not read, but counted.
func TestStrangeObjectsAreCounted(t *testing.T) {
	for name, change := range map[string]func(*history.Object){
		"no content":          func(o *history.Object) { o.Raw = nil },
		"no object":           func(o *history.Object) { o.Raw = json.RawMessage(`[]`) },
		"null":                func(o *history.Object) { o.Raw = json.RawMessage(`null`) },
		"torn":                func(o *history.Object) { o.Raw = o.Raw[:len(o.Raw)/2] },
		"no version":          func(o *history.Object) { o.ResourceVersion = "" },
		"another version":     func(o *history.Object) { o.ResourceVersion = "8" },
		"another name":        func(o *history.Object) { o.Name = "p-1" },
		"another uid":         func(o *history.Object) { o.UID = "v" },
		"a number for a text": func(o *history.Object) { o.Raw = json.RawMessage(`{"spec":{"nodeName":7}}`) },
	} {
		o := NewObjects()
		e := object(history.VerbAdded, "pods", "p-0", "u", 5, `"spec":{}`)
		change(e.Object)
		o.Add(e)
		if o.Pods.Strange != 1 || len(o.Pods.All) != 0 {
			t.Errorf("%s: %d strange, %d read", name, o.Pods.Strange, len(o.Pods.All))
		}
	}
}

// TestJunkAfterAValue: it must not be read as a part of what is decoded next.
func TestJunkAfterAValue(t *testing.T) {
	o := NewObjects()
	o.Add(object(history.VerbAdded, "pods", "p-0", "u", 5, `"spec":"{} {\"nodeName\":1}","status":"{} {}"`))
	o.Add(object(history.VerbAdded, "pods", "p-1", "v", 6, `"spec":{"nodeName":"w"},"status":null`))
	if o.Pods.Strange != 1 || len(o.Pods.All) != 1 || o.Pods.All[0].Spec.NodeName != "w" {
		t.Errorf("%d strange, %+v", o.Pods.Strange, o.Pods.All)
	}
}

// TestIndentedObjectsAreRead holds that white space makes no difference.
func TestIndentedObjectsAreRead(t *testing.T) {
	for version, strange := range map[string]int{"5": 0, "8": 1} {
		o := NewObjects()
		e := object(history.VerbAdded, "pods", "p-0", "u", 5, `"spec":{}`)
		var text bytes.Buffer
		if err := json.Indent(&text, e.Object.Raw, "", "  "); err != nil {
			t.Fatal(err)
		}
		e.Object.Raw, e.Object.ResourceVersion = text.Bytes(), version
		if o.Add(e); o.Pods.Strange != strange {
			t.Errorf("version %s: %d strange, want %d", version, o.Pods.Strange, strange)
		}
	}
}

func TestStatefulSetDefaults(t *testing.T) {
	o := NewObjects()
	o.Add(object(history.VerbAdded, "statefulsets", "a", "u", 1, `"spec":{}`))
	o.Add(object(history.VerbAdded, "statefulsets", "b", "v", 2, `"spec":{"replicas":5,"ordinals":{"start":2},`+
		`"updateStrategy":{"rollingUpdate":{"partition":1,"maxUnavailable":"50%"}},"podManagementPolicy":"Parallel",`+
		`"volumeClaimTemplates":[{"metadata":{"name":"data"}}],`+
		`"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Delete","whenDeleted":"Retain"}}`))
	if d, want := o.StatefulSets.All[0].Spec.Demand, (Demand{Replicas: 1, Unavailable: 1, HistoryLimit: 10,
		Strategy: RollingUpdate}); d != want {
		t.Errorf("defaults %+v", d)
	}
	s := o.StatefulSets.All[1].Spec
	if want := (Demand{Replicas: 5, Start: 2, Partition: 1, Unavailable: 2, Limited: true, HistoryLimit: 10,
		Strategy: RollingUpdate, Parallel: true, DeleteScaled: true}); s.Demand != want || s.Templates[0] != "data" {
		t.Errorf("demand %+v, templates %v", s.Demand, s.Templates)
	}
	if s.Demand.Wants(1) || !s.Demand.Wants(6) || s.Demand.Wants(7) || !s.Demand.Held(2) || s.Demand.Held(3) {
		t.Error("wrong ordinals are wanted or held")
	}
}

// FuzzObjects reads arbitrary objects: it does not crash, and encoding/json reads every pod that it reads.
func FuzzObjects(f *testing.F) {
	for _, text := range []string{`{"metadata":{"name":"p"},"spec":{"nodeName":"w"}}`, `{`, `}`, `{"spec":}`, ``,
		`{"a"}`,
		`{"metadata":{"resourceVersion":"1"}}`, `{"spec":{"nodeName":"\ud83d"}}`,
		`{"spec":{},"spec":{"nodeName":"x"}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		o := NewObjects()
		for _, resource := range []string{"pods", "statefulsets", "events"} {
			o.Add(&history.Event{Kind: history.KindObject, Object: &history.Object{Verb: history.VerbAdded, Name: "p",
				Resource: resource, ResourceVersion: "1", Raw: text}})
		}
		var pod corev1.Pod
		if json.Unmarshal(text, &pod) == nil && len(o.Pods.All) == 1 && !strings.Contains(string(text), `\`) &&
			strings.Count(string(text), "spec") == 1 && strings.Contains(string(text), `"spec":{"nodeName"`) &&
			o.Pods.All[0].Spec.NodeName != pod.Spec.NodeName {
			t.Errorf("node %q, want %q", o.Pods.All[0].Spec.NodeName, pod.Spec.NodeName)
		}
	})
}
