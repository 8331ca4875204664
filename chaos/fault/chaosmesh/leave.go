package chaosmesh

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
)

// placeholder is the namespace of the pods in a manifest that is part of a plan. It becomes the trial's own, which has
// no name before the trial begins.
const placeholder = "trial"

// leave returns the steps that leave an experiment to Chaos Mesh, one for each victim.
func (t *translator) leave(r *rules, m Manifest) []plan.Step {
	selector, duration, _ := podsOf(m.Object)
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

// left reports whether a manifest is of an experiment that is left to Chaos Mesh: there is a probe for it.
func left(obj client.Object) bool {
	_, err := newProbe(obj, fault.Env{})
	return err == nil
}

// resolve returns the manifest as it was written, for one victim, by name. What was filled in is left out: an older
// Chaos Mesh does not know every field that a newer one has a default for.
func (t *translator) resolve(m Manifest, ordinal int) (json.RawMessage, error) {
	obj := m.given.DeepCopyObject().(client.Object)
	meta := metav1.ObjectMeta{Name: m.Object.GetName(), Namespace: placeholder}
	reflect.ValueOf(obj).Elem().FieldByName("ObjectMeta").Set(reflect.ValueOf(meta))
	status := reflect.ValueOf(obj).Elem().FieldByName("Status")
	status.SetZero()
	selector, _, _ := podsOf(obj)
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
