package plan

import (
	"fmt"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The limits of a legal plan. They keep a mistyped number from becoming a trial that never ends or floods the machine.
const (
	MaxSteps    = 1000
	MaxReplicas = 64
	MaxClients  = 256 // For each instance.
	MaxBound    = 24 * time.Hour
	MaxRows     = 10_000_000
	MaxVolume   = 1 << 20 // MiB, which is 1 TiB.
)

// Caps is what a plan may name and what the cluster can do.
type Caps struct {
	Faults    []FaultCaps
	Workloads []string
	// Can is what the cluster is able to do: "power", "nftables", "systemd". Nil means that the cluster is not known
	// yet: then needs are not held against it.
	Can []string
	// Cannot has what no cluster on this machine is able to do, each with the reason.
	Cannot map[string]string
	// ControlPlanes is how many the cluster has; 0 stands for one, as the clusters have that are made for a trial.
	ControlPlanes int
}

// FaultCaps is what a plan has to know of a fault.
type FaultCaps struct {
	Name     string
	Needs    []string // What the cluster must be able to do.
	Outlasts bool     // The fault can outlast the one within which it is.
	Triggers bool     // The fault's act can wait on the node for a CSI call (Fault.When).
	Longest  Duration // The longest that the fault can be held; 0 is no limit.
	Storage  string   // The one kind of volume that it is a fault of; empty for every kind.
	Takes    []Part   // What it takes while it is in force.
	Params   []string // The names of its parameters.
	// Check validates its parameters; nil when it has none. The fields of its errors are relative to the fault.
	Check func(Setting) FieldErrors
}

// Validate holds p against the rules on paper and returns FieldErrors with every breach, or nil. Nothing is touched,
// and nothing outside caps is asked.
func (p Plan) Validate(caps Caps) error {
	v := validator{caps: caps, set: newSetPlan(p.Workload), work: p.Workload}
	if p.Schema != SchemaVersion {
		v.errs.add("schema", fmt.Sprintf("use %d", SchemaVersion), "%d is not known", p.Schema)
	}
	if !legalName(p.Scenario) {
		v.errs.add("scenario", nameRule, "%q is not a name", p.Scenario)
	}
	v.within("workers", p.Workers, 1, MaxReplicas)
	v.workload(p.Workload)
	v.bounds(p.Bounds, p.Workload.Light)
	if n := len(p.AllSteps()); n == 0 || n > MaxSteps {
		v.errs.add("steps", fmt.Sprintf("use 1 to %d steps", MaxSteps), "%d steps", n)
	}
	v.disk = p.Workload.StorageName() == StorageSharedDisk
	for _, s := range inside([][]Step{p.Steps}, ActionFault) {
		v.faults = append(v.faults, s.N)
	}
	v.steps("steps", p.Steps, within{})
	v.finally(p.Steps)
	v.overlaps(p)
	return v.errs.Err()
}

// within is what a step is within: how many other steps, and how many of them are faults.
type within struct{ steps, faults int }

func (in within) step() within  { return within{in.steps + 1, in.faults} }
func (in within) fault() within { return within{in.steps + 1, in.faults + 1} }

// steps walks steps in the order of their numbers.
func (v *validator) steps(at string, steps []Step, in within) {
	for i, s := range steps {
		v.n++
		v.step(fmt.Sprintf("%s[%d]", at, i), v.n, s, in)
	}
}

const nameRule = "use lower-case letters, digits and hyphens, beginning with a letter, at most 63"

// legalName reports whether a name is safe as a file name and as a part of a Kubernetes name.
func legalName(s string) bool { return len(validation.IsDNS1035Label(s)) == 0 }

// validator walks a plan in order.
type validator struct {
	caps Caps
	errs FieldErrors
	set  setPlan // As it is at the step that was reached.
	n    int     // The number of that step.
	disk bool    // The volumes are shared disks.
	work Workload
	// faults are the numbers of the steps that are faults.
	faults []int
}

func (v *validator) within(field string, value, low, high int) {
	if value < low || value > high {
		v.errs.add(field, fmt.Sprintf("use %d to %d", low, high), "%d is out of range", value)
	}
}

func (v *validator) lasting(field string, value Duration) {
	if value <= 0 || value.D() > MaxBound {
		v.errs.add(field, fmt.Sprintf("use more than 0s and at most %s", MaxBound), "%s is out of range", value)
	}
}

func (v *validator) workload(w Workload) {
	if !slices.Contains(v.caps.Workloads, w.Name) {
		v.errs.add("workload.name", oneOf(w.Name, v.caps.Workloads), "no workload %q", w.Name)
	}
	if !legalName(w.StatefulSet) {
		v.errs.add("workload.statefulSet", nameRule, "%q is not a name", w.StatefulSet)
	}
	v.within("workload.replicas", w.Replicas, 1, MaxReplicas)
	if w.FileSystem != "ext4" && w.FileSystem != "xfs" {
		v.errs.add("workload.fileSystem", `use "ext4" or "xfs"`, "no file system %q", w.FileSystem)
	}
	v.within("workload.volumeMiB", w.VolumeMiB, 1, MaxVolume)
	if !w.Light {
		v.within("workload.clients", w.Clients, 1, MaxClients)
	}
	if w.Interval < 0 || w.Interval.D() > time.Minute {
		v.errs.add("workload.interval", "use 0s to 1m0s", "%s is out of range", w.Interval)
	}
	v.within("workload.quietRows", w.QuietRows, 0, MaxRows)
	v.light(w)
	v.storage(w)
	v.options(w)
	v.replicated(w)
	v.durability(w)
	if w.PreStop < 0 || w.PreStop.D() > 10*time.Minute || w.PreStop.D()%time.Second != 0 {
		v.errs.add("workload.preStop", "use whole seconds, 0s to 10m0s", "%s is out of range", w.PreStop)
	}
}

func (v *validator) storage(w Workload) {
	if !slices.Contains(Storages(), w.StorageName()) {
		v.errs.add("workload.storage", oneOf(w.Storage, Storages()), "no storage %q", w.Storage)
		return
	}
	fencings := []string{"none", "single", "evict"}
	switch disk := w.StorageName() == StorageSharedDisk; {
	case !disk && w.Fencing != "":
		v.errs.add("workload.fencing", "leave it out", "storage %q has no fencing", w.StorageName())
	case disk && !slices.Contains(fencings, w.Fencing):
		v.errs.add("workload.fencing", oneOf(w.Fencing, fencings), "no fencing %q", w.Fencing)
	}
}

func (v *validator) bounds(b Bounds, light bool) {
	v.lasting("bounds.ready", b.Ready)
	v.lasting("bounds.settle", b.Settle)
	v.lasting("bounds.blindGap", b.BlindGap)
	if light {
		v.none("bounds.minOps", b.MinOps)
		v.none("bounds.minAround", b.MinAround)
		return
	}
	v.within("bounds.minOps", b.MinOps, 1, math.MaxInt32)
	v.within("bounds.minAround", b.MinAround, 1, math.MaxInt32)
}

func (v *validator) step(at string, n int, s Step, in within) {
	if s.N != n {
		v.errs.add(at+".n", fmt.Sprintf("use %d: steps are numbered 1, 2, 3 and so on", n), "%d is out of order", s.N)
	}
	v.lasting(at+".bound", s.Bound)
	known := make([]string, 0, len(Actions()))
	for _, a := range Actions() {
		known = append(known, string(a))
	}
	if !slices.Contains(known, string(s.Do)) {
		v.errs.add(at+".do", oneOf(string(s.Do), known), "no action %q", s.Do)
		return
	}
	v.fields(at, s)
	v.note(at+".note", s.Note)
	switch {
	case s.Do == ActionMesh:
		v.errs.add(at+".do", "give the plan to `seatrial run --plan` or `seatrial plan import`, which do it",
			"the manifest has not been turned into steps")
	case s.Do == ActionPause:
		v.pause(at, s)
	case s.Do.ChangesSet():
		v.change(at, s, in)
	case s.Do == ActionTogether:
		v.together(at, s, in)
	case s.Do == ActionFault && s.Fault != nil:
		v.victim(at)
		v.fault(at+".fault", *s.Fault, s.Bound, in)
	case s.Do == ActionAwait && s.Await != nil:
		v.await(at+".await", *s.Await, in.steps)
	case s.Ordinal != nil && (s.Do == ActionDeleteClaim || s.Do == ActionDeletePod):
		v.ordinal(at+".ordinal", *s.Ordinal)
	case s.Ordinal != nil && s.Do == ActionRecover:
		v.recovery(at, *s.Ordinal)
	default:
		v.data(at, s)
	}
	v.fits(at, s)
}

// data holds the rules of the steps that concern the workload's data.
func (v *validator) data(at string, s Step) {
	if s.Do != ActionLoad && s.Do != ActionChecksum && s.Do != ActionRead && s.Do != ActionTamper {
		return
	}
	if v.set.light {
		v.errs.add(at+".do", "leave the step out", "a light workload has no data to %s", s.Do)
		return
	}
	v.victim(at)
	switch {
	case s.Do == ActionLoad:
		v.within(at+".commits", s.Commits, 1, math.MaxInt32)
	case s.Do == ActionChecksum && !legalName(s.Label):
		v.errs.add(at+".label", nameRule, "%q is not a name", s.Label)
	case s.Do == ActionTamper && s.Tamper != nil:
		v.tamper(at+".tamper", *s.Tamper)
	}
}

// fields holds that exactly the fields of the step's action are set.
func (v *validator) fields(at string, s Step) {
	ordinal := ActionDeleteClaim
	if s.Do == ActionDeletePod || s.Do == ActionRecover {
		ordinal = s.Do
	}
	for _, f := range []struct {
		name   string
		set    bool
		action Action
		needed bool // Its absence is an error of its own; the others have a rule that excludes the zero value.
	}{
		{"commits", s.Commits != 0, ActionLoad, false},
		{"fault", s.Fault != nil, ActionFault, true},
		{"replicas", s.Replicas != nil, ActionScale, true},
		{"label", s.Label != "", ActionChecksum, false},
		{"tamper", s.Tamper != nil, ActionTamper, true},
		{"await", s.Await != nil, ActionAwait, true},
		{"update", s.Update != nil, ActionUpdate, true},
		{"revision", s.Revision != "", ActionRollback, true},
		{"partition", s.Partition != nil, ActionPartition, true},
		{"cascade", s.Cascade != "", ActionDeleteSet, false},
		{"ordinal", s.Ordinal != nil, ordinal, true},
		{"mesh", s.Mesh != nil, ActionMesh, true},
		{"lasting", s.Lasting != 0, ActionPause, false},
		{"branches", s.Branches != nil, ActionTogether, true},
	} {
		switch {
		case f.set && f.action != s.Do:
			v.errs.add(at+"."+f.name, fmt.Sprintf("leave it out, or use do: %q", f.action), "is set in a %q step", s.Do)
		case f.needed && !f.set && f.action == s.Do:
			v.errs.add(at+"."+f.name, "set it", "is missing in a %q step", s.Do)
		}
	}
	if s.Do.ChangesSet() {
		return
	}
	if s.Wait != "" {
		v.errs.add(at+".wait", "leave it out", "a %q step does not change the StatefulSet", s.Do)
	}
	if len(s.During) > 0 {
		v.errs.add(at+".during", "leave it out, or use fault.during", "a %q step does not change the StatefulSet", s.Do)
	}
}

func (v *validator) ordinal(at string, ordinal int) {
	Setting{Low: v.set.start, Pods: v.set.reach}.Ordinal(&v.errs, at, ordinal)
}

func (v *validator) tamper(at string, t Tamper) {
	kinds := []string{"delete-row", "flip-byte"}
	if !slices.Contains(kinds, t.Kind) {
		v.errs.add(at+".kind", oneOf(t.Kind, kinds), "no tampering %q", t.Kind)
	}
	v.ordinal(at+".ordinal", t.Ordinal)
	if t.Kind != "flip-byte" {
		v.none(at+".page", t.Page)
		v.none(at+".byte", t.Byte)
		return
	}
	// The page's checksum does not cover all of the bytes before and after these.
	v.within(at+".page", t.Page, 1, math.MaxInt32)
	v.within(at+".byte", t.Byte, 38, 16384-9)
}
