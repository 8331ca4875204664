package chaosmesh

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/seatrial/seatrial/chaos/plan"
)

func (i *importer) pod(ordinal int) string { return fmt.Sprintf("%s-%d", i.work.StatefulSet, ordinal) }

// ordinals returns the ordinals of all pods.
func (i *importer) ordinals() []int {
	all := make([]int, max(i.work.Replicas, 0))
	for n := range all {
		all[n] = i.work.Start + n
	}
	return all
}

// ordinal returns the ordinal in a pod's name, and whether it is a pod of the workload.
func (i *importer) ordinal(pod string) (int, bool) {
	n := slices.IndexFunc(i.ordinals(), func(n int) bool { return i.pod(n) == pod })
	return i.work.Start + n, n >= 0
}

func (i *importer) names() string {
	all := i.ordinals()
	if len(all) < 2 {
		return i.pod(i.work.Start)
	}
	return i.pod(all[0]) + " to " + i.pod(all[len(all)-1])
}

// labels returns a pod's labels that are known without a cluster. A selector for any other label matches nothing.
func (i *importer) labels(ordinal int) labels.Set {
	return labels.Merge(labels.Set{
		"app.kubernetes.io/name":             i.work.StatefulSet,
		"apps.kubernetes.io/pod-index":       strconv.Itoa(ordinal),
		"statefulset.kubernetes.io/pod-name": i.pod(ordinal),
	}, i.mesh.Labels)
}

// victims returns the ordinals of the pods that an experiment affects, itself or through their nodes, and a note of a
// random draw.
func (m manifest) victims() ([]int, string) {
	if s := podsOf(m.Object); s != nil {
		return m.pods("spec", *s)
	}
	return m.machines(m.Object.(*v1alpha1.PhysicalMachineChaos).Spec.PhysicalMachineSelector)
}

// pods returns the sorted ordinals that a selector and its mode choose, and a note of a random draw.
func (m manifest) pods(at string, selector v1alpha1.PodSelector) ([]int, string) {
	before, path, s := len(m.errs), at+".selector", selector.Selector
	m.unknown(path, "select pods by name or by label",
		"what it selects is known on the cluster alone, and a plan is complete before there is one",
		selector.Selector, "namespaces", "pods", "labelSelectors", "expressionSelectors", "fieldSelectors",
		"podPhaseSelectors")
	for _, phase := range s.PodPhaseSelectors {
		if phase != "Running" {
			m.add(path+".podPhaseSelectors", "leave it out", "the pods of a trial are Running, not %q", phase)
		}
	}
	m.namespaces(path, s)
	others := len(s.LabelSelectors) + len(s.ExpressionSelectors) + len(s.FieldSelectors)
	switch {
	case len(s.Pods)+others+len(s.Namespaces)+len(s.PodPhaseSelectors) == 0:
		m.add(path, "name pods, labels or a namespace", "is empty: it would select every pod there is")
	case len(s.Pods) > 0 && others > 0:
		m.add(path+".pods", "leave it out, or the other selectors",
			"Chaos Mesh does not look at the other selectors beside it")
	}
	if len(m.errs) > before {
		return nil, ""
	}
	var found []int
	if len(s.Pods) > 0 {
		found = m.named(path+".pods", s.Pods, "use one of "+m.names(), m.ordinal)
	} else {
		found = m.labelled(path, s)
	}
	if len(found) == 0 && len(m.errs) == before {
		m.add(path, "the workload's pods have the label app.kubernetes.io/name: "+m.work.StatefulSet+"; or say which "+
			"labels the manifest knows them by: --labels key=value of `seatrial plan import`, mesh.labels of a step",
			"matches no pod of the workload, which are %s", m.names())
	}
	return m.choose(at, selector.Mode, selector.Value, found)
}

// unknown refuses the fields of a selector that cannot be evaluated without a cluster.
func (m manifest) unknown(path, fix, detail string, selector any, known ...string) {
	set := plan.SetFields(selector)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if !slices.Contains(known, name) {
			m.add(path+"."+name, fix, "%s", detail)
		}
	}
}

// labelled returns the ordinals of the pods whose labels and fields match.
func (m manifest) labelled(path string, s v1alpha1.PodSelectorSpec) []int {
	for _, key := range slices.Sorted(maps.Keys(s.FieldSelectors)) {
		if key != "metadata.name" {
			m.add(path+".fieldSelectors["+key+"]", "use metadata.name", "is not known before the trial")
			return nil
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{
		MatchLabels: s.LabelSelectors, MatchExpressions: s.ExpressionSelectors,
	})
	if err != nil {
		m.add(path+".labelSelectors", "correct the key, the operator or the values", "%v", err)
		return nil
	}
	name, named := s.FieldSelectors["metadata.name"]
	return slices.DeleteFunc(m.ordinals(), func(n int) bool {
		return !selector.Matches(m.labels(n)) || named && name != m.pod(n)
	})
}

// named returns the ordinals of what is listed by namespace and name.
func (m manifest) named(path string, names map[string][]string, fix string, find func(string) (int, bool)) []int {
	var found []int
	for _, namespace := range slices.Sorted(maps.Keys(names)) {
		for i, name := range names[namespace] {
			n, ok := find(name)
			field := fmt.Sprintf("%s[%s][%d]", path, namespace, i)
			switch {
			case !ok:
				m.add(field, fix, "%q is not known", name)
			case slices.Contains(found, n):
				m.add(field, "leave it out", "%q is there twice", name)
			default:
				found = append(found, n)
			}
		}
	}
	slices.Sort(found)
	return found
}

// namespaces checks that all manifests use one namespace. It stands for the trial's, whose name is not known in
// advance.
func (m manifest) namespaces(path string, s v1alpha1.PodSelectorSpec) {
	names := append(slices.Sorted(maps.Keys(s.Pods)), s.Namespaces...)
	if len(names) == 0 {
		names = []string{m.GetNamespace()}
	}
	for _, name := range names {
		switch {
		case name == "": // The object's own namespace, which is empty too.
		case strings.HasPrefix(name, "kube-") || name == "chaos-mesh":
			m.add(path+".namespaces", "name the namespace of the database",
				"%q is the cluster's own: its pods are not the workload", name)
		case m.namespace == "":
			m.namespace = name
		case m.namespace != name:
			m.add(path+".namespaces", "use one namespace throughout",
				"%q beside %q: one alone can stand for the trial's", name, m.namespace)
		}
	}
}

// choose returns the candidates that the mode takes. Chaos Mesh draws anew each time; here the plan's seed decides, and
// the note names the draw.
func (m manifest) choose(at string, mode v1alpha1.SelectorMode, value string, of []int) ([]int, string) {
	modes := []string{"all", "fixed", "fixed-percent", "one", "random-max-percent"}
	if !m.errs.OneOf(m.path(at+".mode"), "mode", string(mode), modes...) || len(of) == 0 {
		return nil, ""
	}
	n, err := strconv.Atoi(value)
	low, high := 1, len(of)
	switch mode {
	case v1alpha1.AllMode, v1alpha1.OneMode:
		if value != "" {
			m.add(at+".value", "leave it out", "mode %q has none", mode)
		}
		if mode == v1alpha1.AllMode {
			return of, ""
		}
		n, err = 1, nil
	case v1alpha1.FixedPercentMode, v1alpha1.RandomMaxPercentMode:
		low, high = (100+len(of)-1)/len(of), 100 // A lower percentage would be no pod.
	}
	if err != nil || n < low || n > high {
		m.add(at+".value", fmt.Sprintf("use %d to %d", low, high), "%q is out of range for mode %q: %d match", value,
			mode, len(of))
		return nil, ""
	}
	if high == 100 && mode != v1alpha1.OneMode && mode != v1alpha1.FixedMode {
		n = len(of) * n / 100
	}
	if mode == v1alpha1.RandomMaxPercentMode {
		n = 1 + m.rand.IntN(n)
	}
	drawn := slices.Clone(of)
	m.rand.Shuffle(len(drawn), func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
	drawn = drawn[:n]
	slices.Sort(drawn)
	names := make([]string, len(drawn))
	for i, ordinal := range drawn {
		names[i] = m.pod(ordinal)
	}
	return drawn, fmt.Sprintf("mode %s drew %s with seed %d", mode, strings.Join(names, ", "), m.seed)
}

// controlPlane stands for the control-plane node among ordinals.
const controlPlane = -1

// machines returns the machines of a PhysicalMachineChaos, as the ordinals of the pods on them.
func (m manifest) machines(s v1alpha1.PhysicalMachineSelector) ([]int, string) {
	before := len(m.errs)
	m.unknown("spec.selector", "use spec.selector.physicalMachines",
		"there are no PhysicalMachine objects on a trial's cluster", s.Selector, "physicalMachines", "namespaces")
	const fix = "say which pod runs on it: --machine NAME=ORDINAL of `seatrial plan import`, mesh.machines of a " +
		"step; or give it the name of that pod"
	found := m.named("spec.selector.physicalMachines", s.Selector.PhysicalMachines, fix, m.machine)
	if len(s.Address) > 0 {
		found = m.named("spec.address", map[string][]string{"": s.Address}, fix, m.machine)
	}
	if len(found) == 0 && len(m.errs) == before {
		m.add("spec.selector.physicalMachines", "name a machine", "names none")
	}
	return m.choose("spec", s.Mode, s.Value, found)
}

// machine returns the ordinal of the pod on whose node a machine is: the one that the plan names, or the pod of the
// same name. An address includes chaosd's port.
func (i *importer) machine(name string) (int, bool) {
	host, _, _ := strings.Cut(strings.TrimPrefix(name, "http://"), ":")
	if n, ok := i.mesh.Machines[host]; ok {
		return n, slices.Contains(i.ordinals(), n)
	}
	if host == "control-plane" || strings.HasSuffix(host, "-control-plane") {
		return controlPlane, true
	}
	return i.ordinal(host)
}
