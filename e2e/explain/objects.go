package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/seatrial/seatrial/e2e/world"
)

type set struct {
	world.Demand
	*world.StatefulSet
	replicas int // Demand.Replicas, bounded.
}

// replica reports whether a pod of that ordinal is to stay.
func (s *set) replica(ordinal int) bool { return ordinal >= s.Start && ordinal-s.Start < s.replicas }

func (s *set) pod(ordinal int) string { return s.Name() + "-" + strconv.Itoa(ordinal) }

// pod is a pod that may be a StatefulSet's.
type pod struct {
	*world.Pod
	k       *known
	set     string // "namespace/name" of the StatefulSet whose it is by its name.
	ordinal int
}

// pod returns the pod of an object, false where it is no StatefulSet's.
func (k *known) pod(v *world.Pod) (*pod, bool) {
	if v == nil {
		return nil, false
	}
	name, ordinal, ok := world.OrdinalOf(v.Name())
	if r := metav1.GetControllerOfNoCopy(v.Meta); !ok || r != nil && (r.Kind != "StatefulSet" || r.Name != name) {
		return nil, false
	}
	return &pod{v, k, world.Key(v.Event.Object.Namespace, name), ordinal}, true
}

// revisionLabel names the revision that a pod is of.
const revisionLabel = appsv1.ControllerRevisionHashLabelKey

func (p *pod) revision() string { return p.Meta.Labels[revisionLabel] }

func (p *pod) condition(kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

func isReady(p *world.Pod) bool  { return p.Status.Running && p.Status.Ready }
func notReady(p *world.Pod) bool { return !isReady(p) }

func (p *pod) terminating() bool { return p.Meta.DeletionTimestamp != nil }

// ready returns since when the pod is Running and Ready, unready since when it is not.
func (p *pod) ready() moment {
	first, changed := since(p.k.Pods, p.Pod, isReady)
	return p.k.began(first.Event, changed, first.Status.Turned)
}

func (p *pod) unready() moment {
	if isReady(p.Pod) {
		return moment{}
	}
	first, changed := since(p.k.Pods, p.Pod, notReady)
	return p.k.began(first.Event, changed, max(first.Status.Turned, first.Meta.CreationTimestamp.Unix()))
}

// asked returns since when its end is asked for.
func (p *pod) asked() moment {
	first, changed := since(p.k.Pods, p.Pod, func(v *world.Pod) bool { return v.Meta.DeletionTimestamp != nil })
	stamp := int64(0)
	if end := first.Meta.DeletionTimestamp; !end.IsZero() { // When the grace period is over.
		stamp = end.Unix() - p.grace()
	}
	return p.k.began(first.Event, changed, stamp)
}

// over returns since when it has succeeded or failed.
func (p *pod) over() moment {
	first, changed := since(p.k.Pods, p.Pod, func(v *world.Pod) bool { return v.Status.Over })
	return p.k.began(first.Event, changed, first.Status.Turned)
}

func (p *pod) everReady() bool {
	_, was := since(p.k.Pods, p.Pod, notReady)
	return was || isReady(p.Pod)
}

// grace is how many seconds a pod has to end in.
func (p *pod) grace() int64 {
	if g := p.Meta.DeletionGracePeriodSeconds; g != nil {
		return *g
	}
	return 0
}

// unavailableFor returns how much longer a pod that is Ready is not available, 0 when it is (podutil.IsPodAvailable).
func (p *pod) unavailableFor(minReady int64) time.Duration {
	since := p.condition("Ready").LastTransitionTime
	now, ok := p.k.wall()
	if minReady <= 0 || since.IsZero() || !ok {
		return 0
	}
	left := time.Duration(since.UnixNano() + minReady*int64(time.Second) - now)
	return max(0, min(left, time.Duration(minReady)*time.Second))
}

// state is what keeps the controller waiting for a pod.
type state string

// The states, in the words in which they are told.
const (
	stateMissing      state = "not there"
	stateTerminating  state = "terminating"
	stateOver         state = "over"
	stateNotReady     state = "not Ready"
	stateNotAvailable state = "not available"
)

// state returns "" for a pod that is available; it takes nil, for one that is not there.
func (p *pod) state(minReady int64) state {
	switch {
	case p == nil:
		return stateMissing
	case p.Status.Over:
		return stateOver
	case p.terminating():
		return stateTerminating
	case !isReady(p.Pod):
		return stateNotReady
	case p.unavailableFor(minReady) > 0:
		return stateNotAvailable
	}
	return ""
}

func claimsOf(p *world.Pod) []string {
	var keys []string
	for _, u := range world.ClaimUses(p.Spec) {
		keys = append(keys, world.Key(p.Event.Object.Namespace, u.Claim))
	}
	return keys
}

// noticed returns the last Event about the pod with one of the reasons, nil where there is none.
func (p *pod) noticed(reasons ...string) *world.Notice {
	return p.k.noticed("Pod "+p.Key(), p.UID(), reasons...)
}

func (p *pod) claims() []*world.Claim {
	var all []*world.Claim
	for _, key := range claimsOf(p.Pod) {
		if c := p.k.Claims.At(key, p.k.at); c != nil {
			all = append(all, c)
		}
	}
	return all
}

// nodeReady is true for a node that says nothing of itself: it is not known to be otherwise.
func nodeReady(n *world.Node) bool {
	c := world.NodeReady(n)
	return c.Status == "True" || c.Status == "" && len(n.Status.Conditions) == 0
}

// nodeUnready returns since when a node is not Ready.
func (k *known) nodeUnready(n *world.Node) moment {
	first, changed := since(k.Nodes, n, func(v *world.Node) bool { return !nodeReady(v) })
	turned := world.NodeReady(first).LastTransitionTime
	return k.began(first.Event, changed, world.Seconds(&turned))
}

// cordoned returns since when a node is, where that was seen.
func (k *known) cordoned(n *world.Node) moment {
	if first, changed := since(k.Nodes, n, func(v *world.Node) bool { return v.Spec.Unschedulable }); changed {
		return seen(first.Event)
	}
	return moment{}
}

// barred returns the taints that keep pods without a toleration off a node.
func barred(n *world.Node) []string {
	var taints []string
	for _, t := range n.Spec.Taints {
		if t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute {
			taints = append(taints, fmt.Sprintf("%s:%s", t.Key, t.Effect))
		}
	}
	return taints
}

// terms are what a volume asks of a node; any of them is enough.
func terms(v *world.Volume) []corev1.NodeSelectorTerm {
	if a := v.Spec.NodeAffinity; a != nil && a.Required != nil {
		return a.Required.NodeSelectorTerms
	}
	return nil
}

// asks says in words which nodes may use a volume.
func asks(v *world.Volume) string {
	var all []string
	for _, t := range terms(v) {
		var parts []string
		for _, r := range slices.Concat(t.MatchExpressions, t.MatchFields) {
			part := fmt.Sprintf("%s %s (%s)", r.Key, r.Operator, strings.Join(r.Values, ", "))
			parts = append(parts, strings.TrimSuffix(part, " ()")) // Exists has no values.
		}
		all = append(all, strings.Join(parts, " and "))
	}
	return strings.Join(all, ", or ")
}

// named returns the values that a volume's node affinity wants: mostly names of nodes.
func named(v *world.Volume) []string {
	var names []string
	for _, t := range terms(v) {
		for _, r := range slices.Concat(t.MatchExpressions, t.MatchFields) {
			if r.Operator == corev1.NodeSelectorOpIn {
				names = append(names, r.Values...)
			}
		}
	}
	return names
}

// allowed returns the nodes there are that may use a volume, in order; none where its node affinity cannot be read.
func (k *known) allowed(v *world.Volume) []*world.Node {
	var selector *nodeaffinity.NodeSelector
	if len(terms(v)) > 0 {
		var err error
		if selector, err = nodeaffinity.NewNodeSelector(v.Spec.NodeAffinity.Required); err != nil {
			return nil
		}
	}
	return slices.DeleteFunc(there(k, k.Nodes), func(n *world.Node) bool {
		meta := metav1.ObjectMeta{Name: n.Name(), Labels: n.Meta.Labels}
		return selector != nil && !selector.Match(&corev1.Node{ObjectMeta: meta})
	})
}
