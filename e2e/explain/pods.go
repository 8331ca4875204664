package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/seatrial/seatrial/e2e/world"
)

// pod is a pod, with since when it is as it is.
type pod struct {
	head
	*world.Pod
	set       string // "namespace/name" of the StatefulSet whose it may be.
	ordinal   int
	foreign   bool // Something else controls it.
	revision  string
	unready   Moment // Since when it is not Running and Ready; not known while it is.
	ready     Moment // Since when it is.
	asked     Moment // Since when it is terminating.
	over      Moment // Since when it has succeeded or failed.
	everReady bool
}

func readPod(old *pod, o *Objects, h head, v *world.Pod) *pod {
	p := &pod{head: h, Pod: v, ordinal: -1, revision: v.Meta.Labels["controller-revision-hash"]}
	p.findSet()
	stamp := v.Status.Turned
	if old != nil {
		p.unready, p.ready, p.asked, p.over, p.everReady = old.unready, old.ready, old.asked, old.over, old.everReady
	}
	switch up := p.isReady(); {
	case up && !p.ready.Known:
		p.ready, p.unready = o.began(h, old != nil, stamp), Moment{}
	case !up && !p.unready.Known:
		p.unready, p.ready = o.began(h, old != nil, max(stamp, p.created)), Moment{}
	}
	p.everReady = p.everReady || p.isReady()
	if p.terminating() && !p.asked.Known {
		p.asked = o.began(h, old != nil, p.endAsked())
	}
	if p.Status.Over && !p.over.Known {
		p.over = o.began(h, old != nil, stamp)
	}
	return p
}

// findSet takes the name apart (pkg/controller/statefulset, getParentNameAndOrdinal).
func (p *pod) findSet() {
	i := strings.LastIndexByte(p.key, '-')
	if i < 0 {
		return
	}
	n, err := strconv.Atoi(p.key[i+1:])
	if err != nil || n < 0 || strconv.Itoa(n) != p.key[i+1:] {
		return
	}
	p.set, p.ordinal = p.key[:i], n
	if r := metav1.GetControllerOfNoCopy(p.Meta); r != nil {
		p.foreign = r.Kind != "StatefulSet" || !strings.HasSuffix(p.set, "/"+r.Name)
	}
}

func (p *pod) condition(kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

func (p *pod) isReady() bool { return p.Status.Running && p.Status.Ready }

func (p *pod) terminating() bool { return p.Meta.DeletionTimestamp != nil }

// endAsked is when the end was asked for: the deletionTimestamp is when the grace period is over.
func (p *pod) endAsked() int64 {
	if p.Meta.DeletionTimestamp.IsZero() {
		return 0
	}
	return p.Meta.DeletionTimestamp.Unix() - p.grace()
}

// grace is how many seconds a pod has to end in.
func (p *pod) grace() int64 {
	if g := p.Meta.DeletionGracePeriodSeconds; g != nil {
		return *g
	}
	return 0
}

// unavailableFor returns how much longer a pod that is Ready is not available, 0 when it is (podutil.IsPodAvailable).
func (p *pod) unavailableFor(o *Objects, minReady int64) time.Duration {
	since := p.condition("Ready").LastTransitionTime
	now, ok := o.wall(o.At)
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
func (p *pod) state(o *Objects, minReady int64) state {
	switch {
	case p == nil:
		return stateMissing
	case p.Status.Over:
		return stateOver
	case p.terminating():
		return stateTerminating
	case !p.isReady():
		return stateNotReady
	case p.unavailableFor(o, minReady) > 0:
		return stateNotAvailable
	}
	return ""
}

func (p *pod) claims() []string {
	var keys []string
	for _, u := range world.ClaimUses(p.Spec) {
		keys = append(keys, world.Key(p.Event.Object.Namespace, u.Claim))
	}
	return keys
}

type node struct {
	head
	*world.Node
	unready  Moment
	cordoned Moment
}

func readNode(old *node, o *Objects, h head, v *world.Node) *node {
	n := &node{head: h, Node: v}
	if old != nil {
		n.unready, n.cordoned = old.unready, old.cordoned
	}
	switch {
	case n.ready():
		n.unready = Moment{}
	case !n.unready.Known:
		n.unready = o.began(h, old != nil, seconds(n.condition().LastTransitionTime))
	}
	switch {
	case !n.Spec.Unschedulable:
		n.cordoned = Moment{}
	case !n.cordoned.Known && old != nil && !o.Live:
		n.cordoned = h.seen
	}
	return n
}

func (n *node) condition() corev1.NodeCondition {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c
		}
	}
	return corev1.NodeCondition{}
}

// ready is true for a node that says nothing of itself: it is not known to be otherwise.
func (n *node) ready() bool {
	c := n.condition()
	return c.Status == "True" || c.Status == "" && len(n.Status.Conditions) == 0
}

// barred returns the taints that keep pods without a toleration off a node.
func (n *node) barred() []string {
	var taints []string
	for _, t := range n.Spec.Taints {
		if t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute {
			taints = append(taints, fmt.Sprintf("%s:%s", t.Key, t.Effect))
		}
	}
	return taints
}

// outOfService reports whether somebody said that the node is off for good, so that its pods may be given up.
func (n *node) outOfService() bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeOutOfService
	})
}

// terms are what the volume asks of a node; any of them is enough.
func (v *volume) terms() []corev1.NodeSelectorTerm {
	if a := v.Spec.NodeAffinity; a != nil && a.Required != nil {
		return a.Required.NodeSelectorTerms
	}
	return nil
}

// requirements are those of a term.
func requirements(t corev1.NodeSelectorTerm) []corev1.NodeSelectorRequirement {
	return slices.Concat(t.MatchExpressions, t.MatchFields)
}

// asks says in words which nodes may use the volume.
func (v *volume) asks() string {
	var terms []string
	for _, t := range v.terms() {
		var parts []string
		for _, r := range requirements(t) {
			part := fmt.Sprintf("%s %s (%s)", r.Key, r.Operator, strings.Join(r.Values, ", "))
			if r.Operator == corev1.NodeSelectorOpExists || r.Operator == corev1.NodeSelectorOpDoesNotExist {
				part = fmt.Sprintf("%s %s", r.Key, r.Operator)
			}
			parts = append(parts, part)
		}
		terms = append(terms, strings.Join(parts, " and "))
	}
	return strings.Join(terms, ", or ")
}

// named returns the values that the volume's node affinity wants: mostly names of nodes.
func (v *volume) named() []string {
	var names []string
	for _, t := range v.terms() {
		for _, r := range requirements(t) {
			if r.Operator == corev1.NodeSelectorOpIn {
				names = append(names, r.Values...)
			}
		}
	}
	return names
}

// allowed returns the nodes there are that may use the volume, in order; none where its node affinity cannot be read.
func (o *Objects) allowed(v *volume) []*node {
	var selector *nodeaffinity.NodeSelector
	if len(v.terms()) > 0 {
		var err error
		if selector, err = nodeaffinity.NewNodeSelector(v.Spec.NodeAffinity.Required); err != nil {
			return nil
		}
	}
	var out []*node
	for _, name := range keysOf(o.nodes) {
		n := o.nodes[name]
		meta := metav1.ObjectMeta{Name: name, Labels: n.Meta.Labels}
		if selector == nil || selector.Match(&corev1.Node{ObjectMeta: meta}) {
			out = append(out, n)
		}
	}
	return out
}

// shared reports that a volume may be attached to many nodes (pkg/volume/util, IsMultiAttachAllowed).
func (v *volume) shared() bool {
	return slices.Contains(v.Spec.AccessModes, corev1.ReadWriteMany) ||
		slices.Contains(v.Spec.AccessModes, corev1.ReadOnlyMany)
}
