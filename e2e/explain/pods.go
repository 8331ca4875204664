package explain

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

type containerJSON struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
	State struct {
		Waiting *struct {
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"waiting"`
		Running    *struct{}       `json:"running"`
		Terminated *terminatedJSON `json:"terminated"`
	} `json:"state"`
	LastState struct {
		Terminated *terminatedJSON `json:"terminated"`
	} `json:"lastState"`
	RestartCount int64 `json:"restartCount"`
}

type terminatedJSON struct {
	ExitCode int64  `json:"exitCode"`
	Reason   string `json:"reason"`
	Message  string `json:"message"`
}

type podJSON struct {
	Metadata metaJSON `json:"metadata"`
	Spec     struct {
		NodeName      string `json:"nodeName"`
		InitContainer []struct {
			Name string `json:"name"`
		} `json:"initContainers"`
		Volumes []struct {
			Claim *struct {
				Name string `json:"claimName"`
			} `json:"persistentVolumeClaim"`
		} `json:"volumes"`
	} `json:"spec"`
	Status struct {
		Phase      string          `json:"phase"`
		Reason     string          `json:"reason"`
		Message    string          `json:"message"`
		Conditions []conditionJSON `json:"conditions"`
		Init       []containerJSON `json:"initContainerStatuses"`
		Containers []containerJSON `json:"containerStatuses"`
	} `json:"status"`
}

// pod is a pod, with since when it is as it is.
type pod struct {
	head
	podJSON
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

func readPod(old *pod, o *Objects, h head, raw []byte) *pod {
	p := &pod{head: h, ordinal: -1}
	if json.Unmarshal(raw, &p.podJSON) != nil {
		return nil
	}
	p.created = p.Metadata.CreationTimestamp.seconds()
	p.revision = p.Metadata.Labels["controller-revision-hash"]
	p.findSet()
	stamp := p.condition("Ready").LastTransitionTime.seconds()
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
	if p.isOver() && !p.over.Known {
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
	for _, r := range p.Metadata.OwnerReferences {
		if r.Controller {
			p.foreign = r.Kind != "StatefulSet" || !strings.HasSuffix(p.set, "/"+r.Name)
		}
	}
}

func (p *pod) condition(kind string) conditionJSON {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return conditionJSON{}
}

func (p *pod) isReady() bool {
	return p.Status.Phase == "Running" && p.condition("Ready").Status == "True"
}

func (p *pod) isOver() bool { return p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" }

func (p *pod) terminating() bool { return p.Metadata.DeletionTimestamp != nil }

// endAsked is when the end was asked for: the deletionTimestamp is when the grace period is over.
func (p *pod) endAsked() int64 {
	if s := p.Metadata.DeletionTimestamp.seconds(); s != 0 {
		return s - p.Metadata.DeletionGracePeriodSeconds
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
	case p.isOver():
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
	namespace, _, _ := strings.Cut(p.key, "/")
	var keys []string
	for _, v := range p.Spec.Volumes {
		if v.Claim != nil {
			keys = append(keys, namespace+"/"+v.Claim.Name)
		}
	}
	return keys
}

type nodeJSON struct {
	Metadata metaJSON `json:"metadata"`
	Spec     struct {
		Unschedulable bool `json:"unschedulable"`
		Taints        []struct {
			Key    string `json:"key"`
			Value  string `json:"value"`
			Effect string `json:"effect"`
		} `json:"taints"`
	} `json:"spec"`
	Status struct {
		Conditions []conditionJSON `json:"conditions"`
	} `json:"status"`
}

type node struct {
	head
	nodeJSON
	unready  Moment
	cordoned Moment
}

func readNode(old *node, o *Objects, h head, raw []byte) *node {
	n := &node{head: h}
	if json.Unmarshal(raw, &n.nodeJSON) != nil {
		return nil
	}
	n.created = n.Metadata.CreationTimestamp.seconds()
	if old != nil {
		n.unready, n.cordoned = old.unready, old.cordoned
	}
	switch {
	case n.ready():
		n.unready = Moment{}
	case !n.unready.Known:
		n.unready = o.began(h, old != nil, n.condition().LastTransitionTime.seconds())
	}
	switch {
	case !n.Spec.Unschedulable:
		n.cordoned = Moment{}
	case !n.cordoned.Known && old != nil && !o.Live:
		n.cordoned = h.seen
	}
	return n
}

func (n *node) condition() conditionJSON {
	for _, c := range n.Status.Conditions {
		if c.Type == "Ready" {
			return c
		}
	}
	return conditionJSON{}
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
		if t.Effect == "NoSchedule" || t.Effect == "NoExecute" {
			taints = append(taints, fmt.Sprintf("%s:%s", t.Key, t.Effect))
		}
	}
	return taints
}

// outOfService reports whether somebody said that the node is off for good, so that its pods may be given up.
func (n *node) outOfService() bool {
	for _, t := range n.Spec.Taints {
		if t.Key == "node.kubernetes.io/out-of-service" {
			return true
		}
	}
	return false
}

type nodeTerm struct {
	Expressions []nodeRequirement `json:"matchExpressions"`
	Fields      []nodeRequirement `json:"matchFields"`
}

type nodeRequirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values"`
}

func (r nodeRequirement) String() string {
	switch r.Operator {
	case "Exists", "DoesNotExist":
		return r.Key + " " + r.Operator
	}
	return fmt.Sprintf("%s %s (%s)", r.Key, r.Operator, strings.Join(r.Values, ", "))
}
