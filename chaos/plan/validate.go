package plan

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The limits of a legal plan. They keep a mistyped number from becoming a trial that never ends or floods the machine.
const (
	MaxSteps = 1000
	MaxBound = 24 * time.Hour
)

// Caps is what a plan may name and what the cluster can do.
type Caps struct {
	Faults    []FaultCaps
	Workloads []string
	Cannot    map[string]string // The reason by need that is not met, for example "power" or "nftables".
	// ControlPlanes is how many the cluster has; 0 stands for one, as the clusters have that are made for a trial.
	ControlPlanes int
}

// FaultCaps is what a plan knows of a fault.
type FaultCaps struct {
	Name     string
	Needs    []string // What the cluster must be able to do.
	Outlasts bool     // The fault can outlast the one within which it is.
	Manifest bool     // It puts the manifest of a static pod back as it was.
	Triggers bool     // The fault's act can wait on the node for a CSI call (Fault.When).
	Longest  Duration // The longest that the fault can be held; 0 is no limit.
	Storage  string   // The one kind of volume that it is a fault of; empty for every kind.
	Takes    []Part   // What it takes while it is in force.
	// Check validates its parameters; nil when it has none. The fields of its errors are relative to the fault.
	Check func(Setting) FieldErrors
}

// fault returns what is known of a fault, nil when it is not known.
func (c Caps) fault(name string) *FaultCaps {
	for i := range c.Faults {
		if c.Faults[i].Name == name {
			return &c.Faults[i]
		}
	}
	return nil
}

// Validate checks p on paper, with caps alone, and returns FieldErrors with everything that is wrong, or nil.
func (p Plan) Validate(caps Caps) error {
	w := p.Workload
	v := &validator{plan: p, caps: caps, work: w, order: orderOf(p), set: setPlan{
		replicas: w.Replicas, reach: w.Replicas, partition: w.Partition, revision: RevisionFirst,
		broken: map[string]bool{RevisionFirst: false},
	}}
	if p.Schema != SchemaVersion {
		v.Add("schema", fmt.Sprintf("use %d", SchemaVersion), "%d is not known", p.Schema)
	}
	v.name("scenario", p.Scenario)
	v.Range("workers", p.Workers, 1, MaxReplicas)
	if p.Kubernetes != "" {
		v.version("kubernetes", p.Kubernetes)
	}
	v.gates()
	v.workload()
	v.lasting("bounds.ready", p.Bounds.Ready)
	v.lasting("bounds.settle", p.Bounds.Settle)
	v.lasting("bounds.blindGap", p.Bounds.BlindGap)
	v.failover(p)
	if !p.Workload.Light {
		v.Range("bounds.minOps", p.Bounds.MinOps, 1, math.MaxInt32)
		v.Range("bounds.minAround", p.Bounds.MinAround, 1, math.MaxInt32)
	}
	if n := len(v.order.steps); n == 0 || n > MaxSteps {
		v.Add("steps", fmt.Sprintf("use 1 to %d steps", MaxSteps), "%d steps", n)
	}
	for i, s := range v.order.steps {
		if s.N != i+1 {
			v.Add(s.at+".n", fmt.Sprintf("use %d: steps are numbered 1, 2, 3 and so on", i+1), "%d is out of order",
				s.N)
		}
	}
	// What steps may do depends on them.
	if p.Workers > 0 && w.Replicas > 0 && slices.Contains(Topologies(), w.TopologyName()) {
		v.steps("steps", p.Steps, depth{})
		v.finally(p.Steps)
		v.overlaps()
	}
	return v.Err()
}

// gates checks the names of feature gates, and that those are on without which the API server refuses the workload.
func (v *validator) gates() {
	legal := regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)
	if len(v.plan.FeatureGates) > 0 && v.plan.Kubernetes == "" {
		v.Add("kubernetes", "name the version, like v1.37.0", "is left out, and feature gates are those of a version")
	}
	for i, gate := range v.plan.FeatureGates {
		if !legal.MatchString(gate) {
			v.Add(fmt.Sprintf("featureGates[%d]", i), "write it like "+RecreateGate, "%q is not a name", gate)
		}
	}
	if v.work.Strategy() == StrategyRecreate && !slices.Contains(v.plan.FeatureGates, RecreateGate) {
		v.Add("featureGates", "add "+RecreateGate, "strategy %q needs %s", StrategyRecreate, RecreateGate)
	}
}

type validator struct {
	FieldErrors

	plan  Plan
	caps  Caps
	work  Workload
	order *order
	set   setPlan // As it is at the step that was reached.

	backup bool // A step before that one makes a backup.
}

// name checks that a name is safe as a file name and as a part of a Kubernetes name.
func (v *validator) name(at, name string) bool {
	legal := len(validation.IsDNS1035Label(name)) == 0
	if !legal {
		v.Add(at, "use lower-case letters, digits and hyphens, beginning with a letter, at most 63", "%q is not a name",
			name)
	}
	return legal
}

// only adds an error for each field of an object that is set and not named.
func (v *validator) only(at string, object any, names []string, detail string, args ...any) {
	for _, name := range slices.Sorted(maps.Keys(SetFields(object))) {
		if !slices.Contains(names, name) {
			v.Add(at+"."+name, "leave it out", detail, args...)
		}
	}
}

func (v *validator) lasting(at string, value Duration) {
	if value <= 0 || value.D() > MaxBound {
		v.Add(at, fmt.Sprintf("use more than 0s and at most %s", MaxBound), "%s is out of range", value)
	}
}

func (v *validator) ordinal(at string, ordinal int) {
	Setting{Low: v.work.Start, Pods: v.set.reach}.Ordinal(&v.FieldErrors, at, ordinal)
}

// failover checks the bound of a failover: only a group has one.
func (v *validator) failover(p Plan) {
	switch f := p.Bounds.Failover; {
	case f == 0:
	case !p.Workload.Grouped():
		v.Add("bounds.failover", "leave it out, or give workload.topology", "is set, and the workload is no group")
	default:
		v.lasting("bounds.failover", f)
	}
}
