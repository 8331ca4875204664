package chaosmesh

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
)

// placeholder is the namespace of the pods in a manifest that is part of a plan. It becomes the trial's own, which has
// no name before the trial begins.
const placeholder = "trial"

// leave returns the steps that leave an experiment to Chaos Mesh, one for each victim. It refuses what no probe of ours
// could see.
func (t *translator) leave(r *rules, m Manifest) []plan.Step {
	selector, duration, ok := left(m.Object)
	if !ok {
		r.add("kind", "use another", "kind %q cannot be left to Chaos Mesh", m.kind())
		return nil
	}
	if why, fix := unseen(m.Object); why != "" {
		r.add("spec.action", fix, "no probe of ours could show it: %s", why)
		return nil
	}
	victims, note := t.victims(r, "spec", *selector)
	var steps []plan.Step
	for _, n := range victims {
		manifest, err := t.resolve(m, n)
		if err != nil {
			r.add("spec", "correct it", "%s", printable(err.Error()))
			return nil
		}
		f := plan.Fault{Name: Name, Ordinal: n, Hold: hold(duration), Params: plan.Params{"manifest": manifest}}
		steps = append(steps, t.step(r, m, addNote(note, "by Chaos Mesh in the cluster"), f)...)
	}
	return steps
}

// left returns the selector and the duration of an experiment that can be left to Chaos Mesh, as they stand in it.
func left(obj client.Object) (*v1alpha1.PodSelector, *string, bool) {
	switch o := obj.(type) {
	case *v1alpha1.PodChaos:
		return &o.Spec.PodSelector, o.Spec.Duration, true
	case *v1alpha1.NetworkChaos:
		return &o.Spec.PodSelector, o.Spec.Duration, true
	case *v1alpha1.IOChaos:
		return &o.Spec.PodSelector, o.Spec.Duration, true
	case *v1alpha1.TimeChaos:
		return &o.Spec.PodSelector, o.Spec.Duration, true
	case *v1alpha1.StressChaos:
		return &o.Spec.PodSelector, o.Spec.Duration, true
	}
	return nil, nil, false
}

// resolve returns the manifest as it was written, for one victim, by name. What was filled in is left out: an older
// Chaos Mesh does not know every field that a newer one has a default for.
func (t *translator) resolve(m Manifest, ordinal int) (json.RawMessage, error) {
	obj := m.given.DeepCopyObject().(client.Object)
	meta := metav1.ObjectMeta{Name: m.Object.GetName(), Namespace: placeholder}
	reflect.ValueOf(obj).Elem().FieldByName("ObjectMeta").Set(reflect.ValueOf(meta))
	status := reflect.ValueOf(obj).Elem().FieldByName("Status")
	status.SetZero()
	selector, _, _ := left(obj)
	*selector = v1alpha1.PodSelector{Mode: v1alpha1.AllMode, Selector: v1alpha1.PodSelectorSpec{
		Pods: map[string][]string{placeholder: {t.pod(ordinal)}},
	}}
	return encode(obj)
}

// encode writes an object as JSON without what only the cluster fills in.
func encode(obj client.Object) (json.RawMessage, error) {
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	delete(fields, "status")
	if meta, ok := fields["metadata"].(map[string]any); ok {
		delete(meta, "creationTimestamp")
	}
	return json.Marshal(fields)
}

// seeable are the operations that the probe of files carries out: they leave the volume as it is.
func seeable() []v1alpha1.IoMethod {
	return []v1alpha1.IoMethod{"getattr", "lookup"}
}

// unseen says why the effect of an experiment could not be seen by a probe of ours, and what to do about it. An empty
// reason is one that can be seen.
func unseen(obj client.Object) (why, fix string) {
	switch o := obj.(type) {
	case *v1alpha1.NetworkChaos:
		return fmt.Sprintf("%s of packets needs netem in the kernel of the nodes", o.Spec.Action),
			`use "partition" or "loss"`
	case *v1alpha1.IOChaos:
		switch {
		case o.Spec.Action != v1alpha1.IoLatency && o.Spec.Action != v1alpha1.IoFaults:
			return fmt.Sprintf("%s changes what is read, and not whether or when", o.Spec.Action),
				`use "latency" or "fault"`
		case len(o.Spec.Methods) > 0 && !slices.ContainsFunc(o.Spec.Methods,
			func(m v1alpha1.IoMethod) bool { return slices.Contains(seeable(), m) }):
			return "a probe does not write to the volume", fmt.Sprintf("add one of %q to spec.methods", seeable())
		case newFiles(o, fault.Env{}).attempts() > maxCalls:
			return fmt.Sprintf("%d percent of calls are met by more calls than there is time for", o.Spec.Percent),
				"use a spec.percent of 15 or more"
		}
	case *v1alpha1.TimeChaos:
		return fmt.Sprintf("the clock of a process that runs already, %s off, is seen by that process alone",
			o.Spec.TimeOffset), "leave it out"
	}
	return "", ""
}
