package chaosmesh

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/seatrial/seatrial/chaos/plan"
)

// inert is a field that is refused where it is set.
type inert = struct {
	path string
	set  bool
}

// known is what a plan knows of its pods on paper, and what manifests call them.
type known struct {
	work     plan.Workload
	labels   map[string]string // Those that the manifests know the pods by, beside their own.
	machines map[string]int
}

func (k known) pod(ordinal int) string { return fmt.Sprintf("%s-%d", k.work.StatefulSet, ordinal) }

// ordinals are those of all pods.
func (k known) ordinals() []int {
	all := make([]int, max(k.work.Replicas, 0))
	for i := range all {
		all[i] = k.work.Start + i
	}
	return all
}

// ordinal returns the ordinal of a pod's name, and whether it is one of the workload's.
func (k known) ordinal(pod string) (int, bool) {
	i := slices.IndexFunc(k.ordinals(), func(n int) bool { return k.pod(n) == pod })
	return k.work.Start + i, i >= 0
}

// describe names the pods.
func (k known) describe() string {
	all := k.ordinals()
	if len(all) < 2 {
		return k.pod(k.work.Start)
	}
	return k.pod(all[0]) + " to " + k.pod(all[len(all)-1])
}

// set returns the labels that a pod is known to have. Others, of which only the cluster knows, select nothing.
func (k known) set(ordinal int) labels.Set {
	set := labels.Set{
		"app.kubernetes.io/name":             k.work.StatefulSet,
		"apps.kubernetes.io/pod-index":       strconv.Itoa(ordinal),
		"statefulset.kubernetes.io/pod-name": k.pod(ordinal),
	}
	for key, value := range k.labels {
		set[key] = value
	}
	return set
}

// pods returns the ordinals of the pods that a selector selects, in order.
func (t *translator) pods(r *rules, path string, s v1alpha1.PodSelectorSpec) []int {
	before := len(r.errs)
	path += ".selector"
	t.namespaces(r, path, s)
	for _, f := range []inert{
		{"annotationSelectors", len(s.AnnotationSelectors) > 0},
		{"nodes", len(s.Nodes) > 0},
		{"nodeSelectors", len(s.NodeSelectors) > 0},
	} {
		if f.set {
			r.add(path+"."+f.path, "select pods by name or by label",
				"what it selects is known on the cluster alone, and a plan is complete before there is one")
		}
	}
	for _, phase := range s.PodPhaseSelectors {
		if phase != "Running" {
			r.add(path+".podPhaseSelectors", "leave it out",
				"the pods of a trial are Running, not %q", printable(phase))
		}
	}
	if len(r.errs) > before {
		return nil
	}
	if len(s.Pods) > 0 {
		return t.named(r, path, s.Pods)
	}
	found := t.labelled(r, path, s)
	if len(found) == 0 && len(r.errs) == before {
		r.add(path, t.hint("the workload's pods have the label app.kubernetes.io/name: "+t.work.StatefulSet),
			"matches no pod of the workload, which are %s", t.describe())
	}
	return found
}

// hint says how to make a selector match.
func (t *translator) hint(have string) string {
	return have + "; or say which labels the manifest knows them by: --labels key=value of `seatrial plan import`, " +
		"mesh.labels of a step"
}

// labelled returns the ordinals of the pods whose labels and fields match.
func (t *translator) labelled(r *rules, path string, s v1alpha1.PodSelectorSpec) []int {
	for _, key := range slices.Sorted(maps.Keys(s.FieldSelectors)) {
		if key != "metadata.name" {
			r.add(path+".fieldSelectors["+printable(key)+"]", "use metadata.name", "is not known before the trial")
			return nil
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{
		MatchLabels: s.LabelSelectors, MatchExpressions: s.ExpressionSelectors,
	})
	if err != nil {
		r.add(path+".labelSelectors", "correct the key, the operator or the values", "%s", printable(err.Error()))
		return nil
	}
	var found []int
	for _, n := range t.ordinals() {
		name, named := s.FieldSelectors["metadata.name"]
		if selector.Matches(t.set(n)) && (!named || name == t.pod(n)) {
			found = append(found, n)
		}
	}
	return found
}

// named returns the ordinals of pods that are named one by one.
func (t *translator) named(r *rules, path string, pods map[string][]string) []int {
	var found []int
	for _, namespace := range slices.Sorted(maps.Keys(pods)) {
		names := pods[namespace]
		for i, name := range names {
			n, ok := t.ordinal(name)
			field := fmt.Sprintf("%s.pods[%s][%d]", path, printable(namespace), i)
			switch {
			case !ok:
				r.add(field, "use one of "+t.describe(), "%q is no pod of the workload", printable(name))
			case slices.Contains(found, n):
				r.add(field, "leave it out", "%q is there twice", printable(name))
			default:
				found = append(found, n)
			}
		}
	}
	slices.Sort(found)
	return found
}

// namespaces holds that manifests speak of one namespace: it stands for the trial's own, whose name nobody can know
// beforehand.
func (t *translator) namespaces(r *rules, path string, s v1alpha1.PodSelectorSpec) {
	names := slices.Clone(s.Namespaces)
	for namespace := range s.Pods {
		if !slices.Contains(names, namespace) {
			names = append(names, namespace)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		switch {
		case name == "": // That of the object, which has none either.
		case strings.HasPrefix(name, "kube-") || name == "chaos-mesh":
			r.add(path+".namespaces", "name the namespace of the database", "%q is the cluster's own: its pods are "+
				"not the workload", printable(name))
		case t.namespace == "":
			t.namespace = name
		case t.namespace != name:
			r.add(path+".namespaces", "use one namespace throughout",
				"%q beside %q: one alone can stand for the trial's", printable(name), printable(t.namespace))
		}
	}
}

// choose returns those of candidates that the mode takes. What Chaos Mesh would draw anew each time is drawn with the
// seed of the plan, and the note says so.
func (t *translator) choose(r *rules, path string, mode v1alpha1.SelectorMode, value string, of []int) ([]int, string) {
	if len(of) == 0 || mode == v1alpha1.AllMode {
		return of, ""
	}
	n, _ := strconv.Atoi(value) // The rules have looked at it.
	switch mode {
	case v1alpha1.OneMode:
		n = 1
	case v1alpha1.FixedMode:
		if n > len(of) {
			r.add(path+".value", fmt.Sprintf("use 1 to %d", len(of)), "%d pods are wanted, and %d match", n, len(of))
			return nil, ""
		}
	case v1alpha1.FixedPercentMode, v1alpha1.RandomMaxPercentMode:
		most := len(of) * n / 100
		if most == 0 {
			r.add(path+".value", fmt.Sprintf("use %d or more", (100+len(of)-1)/len(of)),
				"%d percent of %d pods are none: nothing would be hurt", n, len(of))
			return nil, ""
		}
		n = most
		if mode == v1alpha1.RandomMaxPercentMode {
			n = 1 + t.rand.IntN(most)
		}
	}
	drawn := slices.Clone(of)
	t.rand.Shuffle(len(drawn), func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
	drawn = drawn[:n]
	slices.Sort(drawn)
	names := make([]string, len(drawn))
	for i, ordinal := range drawn {
		names[i] = t.pod(ordinal)
	}
	return drawn, fmt.Sprintf("mode %s drew %s with seed %d", mode, strings.Join(names, ", "), t.seed)
}

// victims returns the pods that a selector takes, and a note of what was drawn.
func (t *translator) victims(r *rules, path string, s v1alpha1.PodSelector) ([]int, string) {
	of := t.pods(r, path, s.Selector)
	return t.choose(r, path, s.Mode, s.Value, of)
}

// controlPlane stands for the node of the control plane among ordinals.
const controlPlane = -1

// nodes returns the machines that a PhysicalMachineChaos means, by the ordinals of the pods that run on them.
func (t *translator) nodes(r *rules, s v1alpha1.PhysicalMachineSelector) ([]int, string) {
	before := len(r.errs)
	for _, f := range []inert{
		{"spec.selector.labelSelectors", len(s.Selector.LabelSelectors) > 0},
		{"spec.selector.expressionSelectors", len(s.Selector.ExpressionSelectors) > 0},
		{"spec.selector.annotationSelectors", len(s.Selector.AnnotationSelectors) > 0},
		{"spec.selector.fieldSelectors", len(s.Selector.FieldSelectors) > 0},
		{"spec.selector.namespaces", len(s.Selector.Namespaces) > 0 && len(s.Selector.PhysicalMachines) == 0},
	} {
		if f.set {
			r.add(f.path, "use spec.selector.physicalMachines",
				"there are no PhysicalMachine objects on a trial's cluster")
		}
	}
	var found []int
	add := func(path, name string) {
		n, ok := t.machine(name)
		switch {
		case !ok:
			r.add(path, "say which pod runs on it: --machine NAME=ORDINAL of `seatrial plan import`, "+
				"mesh.machines of a step; or call it as that pod", "no machine %q is known", printable(name))
		case slices.Contains(found, n):
			r.add(path, "leave it out", "machine %q is there twice", printable(name))
		default:
			found = append(found, n)
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(s.Selector.PhysicalMachines)) {
		for i, name := range s.Selector.PhysicalMachines[namespace] {
			add(fmt.Sprintf("spec.selector.physicalMachines[%s][%d]", printable(namespace), i), name)
		}
	}
	for i, address := range s.Address {
		add(fmt.Sprintf("spec.address[%d]", i), strings.TrimPrefix(address, "http://"))
	}
	slices.Sort(found)
	if len(found) == 0 && len(r.errs) == before {
		r.add("spec.selector.physicalMachines", "name a machine", "names none")
	}
	return t.choose(r, "spec", s.Mode, s.Value, found)
}

// machine returns the pod on whose node a machine is: the one that was given for it, or that of its name.
func (t *translator) machine(name string) (int, bool) {
	if n, ok := t.machines[name]; ok {
		return n, slices.Contains(t.ordinals(), n)
	}
	if host, _, ok := strings.Cut(name, ":"); ok { // An address with the port of chaosd.
		if n, ok := t.machines[host]; ok {
			return n, slices.Contains(t.ordinals(), n)
		}
	}
	if name == "control-plane" || strings.HasSuffix(name, "-control-plane") {
		return controlPlane, true
	}
	return t.ordinal(name)
}

// newRand keeps what is drawn here apart from any other use of the same seed.
func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0xc4a0_5e5b)) }
