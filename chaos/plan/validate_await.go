package plan

import (
	"fmt"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
)

// MaxCount is the most that Await.Count can be.
const MaxCount = 1000

// await holds the rules of what a step waits for. Deep is how many steps it is within.
func (v *validator) await(at string, a Await, deep int) {
	if !slices.Contains(Awaits(), a.For) {
		v.errs.add(at+".for", oneOf(a.For, Awaits()), "nothing called %q can be awaited", a.For)
		return
	}
	v.awaitFields(at, a)
	switch {
	case a.call() && !slices.Contains(CSIRPCs(), a.RPC):
		v.errs.add(at+".rpc", oneOf(a.RPC, CSIRPCs()), "no method %q", a.RPC)
	case a.call() && !v.disk:
		v.errs.add(at+".for", fmt.Sprintf("use workload.storage: %q", StorageSharedDisk),
			"the volumes have no CSI driver")
	case a.For == AwaitStill:
		v.lasting(at+".lasting", a.Lasting)
	case a.For == AwaitTime:
		v.lasting(at+".after", a.After)
	case a.For == AwaitCommits:
		v.commits(at+".commits", a)
	case a.For == AwaitFault:
		v.stage(at, a)
	case a.For == AwaitObject && a.Object != nil:
		v.match(at+".object", *a.Object)
	}
	if !a.whole() {
		v.ordinal(at+".ordinal", a.Ordinal)
	} else if a.Ordinal != 0 {
		of := "none of the pods"
		if a.For == AwaitSettled || a.For == AwaitStill {
			of = "the whole StatefulSet"
		}
		v.errs.add(at+".ordinal", "leave it at 0", "%q concerns %s", a.For, of)
	}
	v.happens(at, a, deep)
}

// happens holds that something goes on beside a step that waits for it to happen.
func (v *validator) happens(at string, a Await, deep int) {
	switch {
	case a.For == AwaitSettled:
		v.settles(at + ".for")
	case a.Moment() && deep == 0 && !v.set.changed:
		v.errs.add(at, "put the step into the during of another, or after one that changes the StatefulSet",
			"nothing happens that could be awaited")
	case a.For == AwaitFault && deep == 0,
		(a.call() || a.For == AwaitMoved || a.For == AwaitNotReady) && deep == 0:
		v.errs.add(at, "put the step into the during of another", "nothing happens that could be awaited")
	}
}

// awaitFields holds that exactly the fields are set that belong to what is awaited.
func (v *validator) awaitFields(at string, a Await) {
	for _, f := range []struct {
		name   string
		set    bool
		may    bool
		detail string
	}{
		{"rpc", a.RPC != "", a.call(), "is no CSI call"},
		{"lasting", a.Lasting != 0, a.For == AwaitStill, "is not of a length"},
		{"object", a.Object != nil, a.For == AwaitObject, "does not look at the fields of objects"},
		{"place", a.Place != "", a.mount(), "is no mount"},
		{"commits", a.Commits != 0, a.For == AwaitCommits, "counts no inserts"},
		{"after", a.After != 0, a.For == AwaitTime, "is no time"},
		{"step", a.Step != 0, a.For == AwaitFault, "is no stage of a fault"},
		{"stage", a.Stage != "", a.For == AwaitFault, "is no stage of a fault"},
		{"since", a.Since != "", a.since(), "does not depend on what was before"},
		{"count", a.Count != 0, a.counts(), "comes once"},
	} {
		if f.set && !f.may {
			v.errs.add(at+"."+f.name, "leave it out", "%q %s", a.For, f.detail)
		}
	}
	if a.For == AwaitObject && a.Object == nil {
		v.errs.add(at+".object", "set it", "is missing for %q", a.For)
	}
	places := []string{PlaceGlobal, PlacePod}
	if a.mount() && a.Place != "" && !slices.Contains(places, a.Place) {
		v.errs.add(at+".place", oneOf(a.Place, places), "no place %q", a.Place)
	}
	if a.mount() && a.Place == PlaceGlobal && !v.disk {
		v.errs.add(at+".place", fmt.Sprintf("use %q, or workload.storage: %q", PlacePod, StorageSharedDisk),
			"a volume of the node's own has no %q place", a.Place)
	}
	if a.since() && a.Since != "" && !slices.Contains(Sinces(), a.Since) {
		v.errs.add(at+".since", oneOf(a.Since, Sinces()), "nothing called %q can be counted from", a.Since)
	}
	v.within(at+".count", a.Count, 0, MaxCount)
	if a.Delay < 0 || a.Delay.D() > MaxBound {
		v.errs.add(at+".delay", fmt.Sprintf("use 0s to %s", MaxBound), "%s is out of range", a.Delay)
	}
}

func (v *validator) commits(at string, a Await) {
	if v.set.light {
		v.errs.add(at, "wait for something else", "a light workload has no clients")
		return
	}
	v.within(at, a.Commits, 1, math.MaxInt32)
}

// stage holds that the fault is there for which a step waits. Whether it comes so far is for the order of the plan.
func (v *validator) stage(at string, a Await) {
	if a.Stage != "" && !slices.Contains(Stages(), a.Stage) {
		v.errs.add(at+".stage", oneOf(a.Stage, Stages()), "no stage %q", a.Stage)
	}
	if !slices.Contains(v.faults, a.Step) {
		v.errs.add(at+".step", "use the number of a fault's step", "step %d is no fault", a.Step)
	}
}

// match holds the rules of what an API object must be.
func (v *validator) match(at string, m Match) {
	if _, ok := Resource(m.Kind); !ok {
		v.errs.add(at+".kind", oneOf(m.Kind, Kinds()), "no kind %q is watched", m.Kind)
	}
	if m.Name != "" && len(validation.IsDNS1123Subdomain(m.Name)) > 0 {
		v.errs.add(at+".name", "use the object's name: lower-case letters, digits, hyphens and dots, at most 253",
			"%q is no name of an object", m.Name)
	}
	if !slices.Contains(Operators(), m.Op) {
		v.errs.add(at+".op", oneOf(m.Op, Operators()), "no operator %q", m.Op)
		return
	}
	if m.Op == OpDeleted {
		if m.Path != "" {
			v.errs.add(at+".path", "leave it out", "%q is of the whole object", m.Op)
		}
	} else if _, err := ParsePath(m.Path); err != nil {
		v.errs.add(at+".path", "write it as .status.readyReplicas or .status.conditions[type=Ready].status",
			"%q: %v", short(m.Path), err)
	}
	if !m.compares() && m.Value != "" {
		v.errs.add(at+".value", "leave it out", "%q compares with nothing", m.Op)
	}
	if len(m.Value) > maxValue {
		v.errs.add(at+".value", fmt.Sprintf("use at most %d bytes", maxValue), "it has %d bytes", len(m.Value))
	}
	if _, ok := number64(m.Value); m.orders() && !ok {
		v.errs.add(at+".value", "use a number", "%q cannot be put in order by %q", short(m.Value), m.Op)
	}
}
