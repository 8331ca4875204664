package chaosmesh

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seatrial/seatrial/chaos/plan"
)

// row is one action of a kind of experiment that can be carried out.
type row struct {
	kind, action string
	// fields are those of its spec that are carried out, beside action, mode, value, selector and duration; one with an
	// exclamation mark must be set. Every other field that is set is refused.
	fields string
	atOnce bool // It is over at once, and needs no duration.
	// check holds the values of its spec against the rules; given is the object as it was written.
	check func(r *rules, obj, given client.Object)
	// steps returns the steps that mean the same.
	steps func(t *translator, r *rules, m Manifest) []plan.Step
}

// rows are all that can be carried out.
func rows() []row {
	const files = " volumePath path methods percent containerNames"
	leave := (*translator).leave
	return []row{
		{"PodChaos", "container-kill", "containerNames!", true, (*rules).pod, (*translator).podChaos},
		{"PodChaos", "pod-failure", "", false, (*rules).pod, leave},
		{"PodChaos", "pod-kill", "gracePeriod", true, (*rules).pod, (*translator).podChaos},
		{"NetworkChaos", "loss", "loss!", false, (*rules).network, (*translator).packetLoss},
		{"NetworkChaos", "netem", "loss!", false, (*rules).network, (*translator).packetLoss},
		{"NetworkChaos", "partition", "target! direction partitionBehavior", false, (*rules).network,
			(*translator).partition},
		{"IOChaos", "fault", "errno!" + files, false, (*rules).io, leave},
		{"IOChaos", "latency", "delay!" + files, false, (*rules).io, leave},
		{"StressChaos", "", "stressors! containerNames", false, (*rules).stress, leave},
		{"PhysicalMachineChaos", "network-loss", "network-loss! address", false, (*rules).machine,
			(*translator).machineLoss},
		{"PhysicalMachineChaos", "network-partition", "network-partition! address", false, (*rules).machine,
			(*translator).machinePartition},
		{"PhysicalMachineChaos", "process", "process! address", true, (*rules).machine, (*translator).process},
	}
}

// whyNot says why the other actions of a kind are not carried out.
func whyNot(kind string) string {
	return map[string]string{
		"NetworkChaos": "it needs netem in the kernel of the nodes",
		"IOChaos":      "it changes what is read, and not whether or when, so no probe could show it",
		"PhysicalMachineChaos": "it needs chaosd on the machine, which nodes of a trial do not run; and the nodes " +
			"of a kind cluster share one clock",
	}[kind]
}

// kinds are the kinds that can be used, in alphabetical order.
func kinds() []string {
	all := []string{"Schedule", "Workflow"}
	for _, row := range rows() {
		all = append(all, row.kind)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// row returns the row of an experiment, and the actions of its kind that there are rows for.
func (m Manifest) row() (found row, ok bool, actions []string) {
	for _, row := range rows() {
		if row.kind != m.kind() {
			continue
		}
		actions = append(actions, row.action)
		if row.action == m.action() {
			found, ok = row, true
		}
	}
	return found, ok, actions
}

func (m Manifest) action() string {
	if f := specOf(m.Object).FieldByName("Action"); f.IsValid() {
		return f.String()
	}
	return ""
}

// set returns the fields of the spec that are set as it was written.
func (m Manifest) set() []string {
	data, err := json.Marshal(specOf(m.given).Interface())
	var fields map[string]any
	if err != nil || json.Unmarshal(data, &fields) != nil {
		return nil // It was decoded from JSON.
	}
	var names []string
	for name, value := range fields {
		switch v := value.(type) {
		case map[string]any:
			if len(v) == 0 {
				continue
			}
		case []any:
			if len(v) == 0 {
				continue
			}
		case nil:
			continue
		case string:
			if v == "" {
				continue
			}
		case float64:
			if v == 0 {
				continue
			}
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// experiment holds an experiment against its row, and what all experiments have in common against the rules.
func (r *rules) experiment(m Manifest) {
	row, ok, actions := m.row()
	switch {
	case !ok && m.action() == "":
		r.oneOf("spec.action", "", actions...)
		return
	case !ok:
		r.add("spec.action", nearest(m.action(), actions), "%q cannot be carried out: %s", printable(m.action()),
			whyNot(m.kind()))
		return
	}
	set := m.set()
	for _, name := range set {
		// Chaos Mesh itself fills in the uid.
		known := append(strings.Fields(row.fields), "action", "mode", "value", "selector", "duration", "uid")
		if !slices.Contains(known, name) && !slices.Contains(known, name+"!") {
			r.add("spec."+printable(name), "leave it out", "is not carried out with %s", r.what(row))
		}
	}
	whole := true
	for _, name := range strings.Fields(row.fields) {
		if name, needed := strings.CutSuffix(name, "!"); needed && !slices.Contains(set, name) {
			r.add("spec."+name, "set it", "is missing for %s", r.what(row))
			whole = false
		}
	}
	if !whole {
		return
	}
	if s, duration, ok := podsOf(m.Object); ok {
		given, _, _ := podsOf(m.given)
		r.selector("spec", *s, *given)
		r.length(duration, row.atOnce)
	}
	row.check(r, m.Object, m.given)
}

func (*rules) what(row row) string {
	if row.action == "" {
		return row.kind
	}
	return row.kind + " " + row.action
}

// podsOf returns the selector and the duration of an experiment on pods, as they stand in it.
func podsOf(obj client.Object) (*v1alpha1.PodSelector, *string, bool) {
	switch o := obj.(type) {
	case *v1alpha1.PodChaos:
		return &o.Spec.PodSelector, o.Spec.Duration, true
	case *v1alpha1.NetworkChaos:
		return &o.Spec.PodSelector, o.Spec.Duration, true
	case *v1alpha1.IOChaos:
		return &o.Spec.PodSelector, o.Spec.Duration, true
	case *v1alpha1.StressChaos:
		return &o.Spec.PodSelector, o.Spec.Duration, true
	}
	return nil, nil, false
}
