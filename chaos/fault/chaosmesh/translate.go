package chaosmesh

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"

	"github.com/seatrial/seatrial/chaos/plan"
)

// Options are what a manifest does not say of the trial that it is to be part of.
type Options struct {
	Workload plan.Workload
	Seed     uint64
	Labels   map[string]string // See plan.Mesh.
	Machines map[string]int    // See plan.Mesh.
	Times    int               // See plan.Mesh.
	Faults   []plan.FaultCaps  // The faults that there are.
}

// translator turns manifests into steps. It remembers what one manifest has said that others must agree with.
type translator struct {
	known
	seed      uint64
	rand      *rand.Rand
	times     int
	namespace string // That which stands for the trial's own; empty until one was named.
	faults    []plan.FaultCaps
}

func newTranslator(o Options) *translator {
	return &translator{
		known: known{work: o.Workload, labels: o.Labels, machines: o.Machines},
		seed:  o.Seed, rand: newRand(o.Seed), times: o.Times, faults: o.Faults,
	}
}

// Translate turns manifests into the steps that mean the same, those of each manifest by themselves. It returns
// plan.FieldErrors with all that cannot be carried out.
func Translate(all []Manifest, o Options) ([][]plan.Step, error) {
	t := newTranslator(o)
	var out [][]plan.Step
	var errs plan.FieldErrors
	for _, m := range all {
		r := &rules{at: m.At}
		steps := t.manifest(r, m)
		errs = append(errs, r.errs...)
		out = append(out, steps)
	}
	return out, errs.Err()
}

// manifest returns the steps of one object.
func (t *translator) manifest(r *rules, m Manifest) []plan.Step {
	switch obj := m.Object.(type) {
	case *v1alpha1.Workflow:
		return t.workflow(r, m, obj)
	case *v1alpha1.Schedule:
		return t.schedule(r, m, obj)
	}
	return t.experiment(r, m)
}

// experiment returns the steps of one experiment: one for each victim, all at once.
func (t *translator) experiment(r *rules, m Manifest) []plan.Step {
	before := len(r.errs)
	row, ok, _ := m.row()
	if !ok {
		r.add("kind", "use another", "kind %q is no experiment that can be carried out", m.kind())
		return nil
	}
	steps := row.steps(t, r, m)
	if len(r.errs) > before || len(steps) == 0 {
		return nil
	}
	return beside(r, m.Name(), steps)
}

// moment is how long the effect of a fault is left in place that is over as soon as it was shown.
const moment = time.Second

// overhead is what a step may take beside the time that its effect is held: to inject, to confirm, to heal and to show
// that it is gone.
const overhead = 5 * time.Minute

// step returns the step of one fault, or nil when there is no such fault.
func (t *translator) step(r *rules, m Manifest, note string, f plan.Fault) []plan.Step {
	if !slices.ContainsFunc(t.faults, func(c plan.FaultCaps) bool { return c.Name == f.Name }) {
		r.add("spec", "leave it out",
			"it would be the fault %q, which this Seatrial does not have", f.Name)
		return nil
	}
	from := "from " + m.Name()
	if note != "" {
		from += "; " + note
	}
	return []plan.Step{{
		Do: plan.ActionFault, Fault: &f, Bound: plan.Duration(f.Hold.D() + overhead), Note: printable(from),
	}}
}

// hold returns how long an experiment lasts; what is over at once is left for a moment.
func hold(duration *string) plan.Duration {
	if duration == nil {
		return plan.Duration(moment)
	}
	d, err := time.ParseDuration(*duration)
	if err != nil || d <= 0 {
		return plan.Duration(moment)
	}
	return plan.Duration(d)
}

// podChaos returns the steps that end pods or containers.
func (t *translator) podChaos(r *rules, m Manifest) []plan.Step {
	s := m.Object.(*v1alpha1.PodChaos).Spec
	victims, note := t.victims(r, "spec", s.PodSelector)
	if s.Duration != nil {
		note = addNote(note, "duration does nothing: it is over at once")
	}
	var steps []plan.Step
	for _, n := range victims {
		f := plan.Fault{Ordinal: n, Hold: plan.Duration(moment)}
		if s.Action == v1alpha1.ContainerKillAction {
			for _, name := range s.ContainerNames {
				f.Name, f.Params = "container-kill", plan.Params{"container": name}
				steps = append(steps, t.step(r, m, note, f)...)
			}
			continue
		}
		if f.Name = "pod-force-delete"; s.GracePeriod > 0 {
			f.Name = "pod-delete"
			f.Params = plan.Params{"grace": plan.Duration(time.Duration(s.GracePeriod) * time.Second)}
		}
		steps = append(steps, t.step(r, m, note, f)...)
	}
	return steps
}

// sides returns the pairs of pods that a NetworkChaos with a target is between, and a note of what was drawn.
func (t *translator) sides(r *rules, s v1alpha1.NetworkChaosSpec) (pairs [][2]int, note string) {
	before := len(r.errs)
	from, note := t.victims(r, "spec", s.PodSelector)
	to, drawn := t.victims(r, "spec.target", *s.Target)
	if len(r.errs) > before {
		return nil, note
	}
	for _, a := range from {
		if slices.Contains(to, a) {
			r.add("spec.target.selector", "leave it out on one of them", "%s is on both sides", t.pod(a))
			return nil, note
		}
		for _, b := range to {
			pairs = append(pairs, [2]int{a, b})
		}
	}
	return pairs, addNote(note, drawn)
}

// partition returns the steps that cut pods off from others.
func (t *translator) partition(r *rules, m Manifest) []plan.Step {
	s := m.Object.(*v1alpha1.NetworkChaos).Spec
	f := plan.Fault{Name: "pod-partition", Hold: hold(s.Duration), Params: direction(string(s.Direction))}
	if s.PartitionBehavior == v1alpha1.RejectPartitionBehavior {
		f.Params["reject"] = true
	}
	pairs, note := t.sides(r, s)
	var steps []plan.Step
	for _, pair := range pairs {
		one := f
		one.Ordinal, one.Params = pair[0], maps.Clone(f.Params)
		one.Params["peer"] = pair[1]
		steps = append(steps, t.step(r, m, note, one)...)
	}
	return steps
}

// packetLoss returns the steps that lose a share of what the nodes of pods send.
func (t *translator) packetLoss(r *rules, m Manifest) []plan.Step {
	s := m.Object.(*v1alpha1.NetworkChaos).Spec
	f := plan.Fault{
		Name: "packet-loss", Hold: hold(s.Duration),
		Params: plan.Params{"direction": "out", "percent": r.share("spec.loss.loss", s.Loss.Loss)},
	}
	victims, note := t.victims(r, "spec", s.PodSelector)
	note = addNote(note, "of all that the pod's node sends to other nodes")
	var steps []plan.Step
	for _, n := range victims {
		one := f
		one.Ordinal = n
		steps = append(steps, t.step(r, m, note, one)...)
	}
	return steps
}

// direction turns the words of Chaos Mesh, seen from the first side, into ours, seen from the victim.
func direction(theirs string) plan.Params {
	ours := map[string]string{"to": "out", "from": "in"}[theirs]
	if ours == "" {
		return plan.Params{}
	}
	return plan.Params{"direction": ours}
}

// share returns a percentage as the whole number that the kernel's dice take.
func (r *rules) share(path, text string) int {
	p := r.percent(path, text, 0)
	n := int(p)
	switch {
	case n == 100:
		r.add(path, "use action partition", "the loss of every packet is a partition")
	case float64(n) != p || n < 1:
		r.add(path, "use 1 to 99, without a fraction", "%q cannot be had", printable(text))
	}
	return n
}

func addNote(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// beside returns one step that has several carried out at the same time.
func beside(r *rules, name string, steps []plan.Step) []plan.Step {
	if len(steps) < 2 {
		return steps
	}
	branches := make([][]plan.Step, len(steps))
	for i, s := range steps {
		branches[i] = []plan.Step{s}
	}
	return together(r, name, branches)
}

// together returns one step that has several sequences carried out at the same time.
func together(r *rules, name string, branches [][]plan.Step) []plan.Step {
	if len(branches) > plan.MaxBranches {
		r.add("spec", fmt.Sprintf("split it up: at most %d at a time", plan.MaxBranches),
			"%s would be %d faults at once", name, len(branches))
		return nil
	}
	longest := time.Duration(0)
	for _, steps := range branches {
		longest = max(longest, bounds(steps))
	}
	return []plan.Step{{
		Do: plan.ActionTogether, Branches: branches, Bound: plan.Duration(longest + time.Minute),
		Note: printable("from " + name),
	}}
}

// bounds returns how long steps may take, one after the other.
func bounds(steps []plan.Step) time.Duration {
	all := time.Duration(0)
	for _, s := range steps {
		all += s.Bound.D()
	}
	return all
}
