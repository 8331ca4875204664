package chaosmesh

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"
	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/seatrial/seatrial/chaos/plan"
)

// importer turns manifests into steps, and collects what is wrong with them.
type importer struct {
	work      plan.Workload
	seed      uint64
	rand      *rand.Rand
	faults    []plan.FaultCaps // Those that this Seatrial has.
	mesh      plan.Mesh        // What the manifests call the pods and nodes of the trial.
	namespace string           // That which stands for the trial's own; empty until a manifest names one.
	errs      plan.FieldErrors
}

func newImporter(work plan.Workload, seed uint64, faults []plan.FaultCaps) *importer {
	// The second number keeps what is drawn here apart from any other use of the same seed.
	return &importer{work: work, seed: seed, rand: rand.New(rand.NewPCG(seed, 0xc4a0_5e5b)), faults: faults}
}

// manifest is one object of Chaos Mesh, as it was written.
type manifest struct {
	*importer
	client.Object
	at    string // Its path in the source, for example "manifests[1]".
	spec  string // What its spec is called there.
	lasts string // The path of what says how long it lasts.
}

// Name is the kind and the name, for a sentence.
func (m manifest) Name() string { return m.kind() + "/" + m.GetName() }

func (m manifest) kind() string { return reflect.TypeOf(m.Object).Elem().Name() }

// path returns the path of a field of the object in the source.
func (m manifest) path(path string) string {
	if path == "spec" || strings.HasPrefix(path, "spec.") {
		path = m.spec + strings.TrimPrefix(path, "spec")
	}
	return plan.Join(m.at, path)
}

// add adds one error. The path is that within the object.
func (m manifest) add(path, fix, detail string, args ...any) {
	m.errs.Add(m.path(path), fix, detail, args...)
}

// specOf returns the spec of an object, which every kind of Chaos Mesh has.
func specOf(obj client.Object) reflect.Value { return reflect.ValueOf(obj).Elem().FieldByName("Spec") }

// podsOf returns the selector of an experiment on pods, as it stands in it; nil for other objects.
func podsOf(obj client.Object) *v1alpha1.PodSelector {
	if f := specOf(obj).FieldByName("PodSelector"); f.IsValid() {
		return f.Addr().Interface().(*v1alpha1.PodSelector)
	}
	return nil
}

// steps returns the steps of one object.
func (i *importer) steps(at string, obj client.Object) (steps []plan.Step) {
	m := manifest{importer: i, Object: obj, at: at, spec: "spec", lasts: "spec.duration"}
	return m.valid(func() []plan.Step {
		switch o := obj.(type) {
		case *v1alpha1.Workflow:
			return m.workflow(o)
		case *v1alpha1.Schedule:
			return m.schedule(o)
		}
		return m.experiment()
	})
}

// valid returns the steps of an object that is legal by our rules and by those of Chaos Mesh, which its webhook has.
func (m manifest) valid(read func() []plan.Step) []plan.Step {
	before := len(m.errs)
	steps := read()
	if len(m.errs) > before {
		return nil
	}
	ctrllog.SetLogger(logr.Discard()) // The webhooks log every call, and complain without a logger.
	obj := m.DeepCopyObject().(v1alpha1.WebhookObject)
	err := obj.Default(context.Background(), obj)
	if err == nil {
		_, err = obj.ValidateCreate(context.Background(), obj)
	}
	if err == nil {
		return steps
	}
	path, detail, found := strings.Cut(strings.Trim(err.Error(), "[]"), ": ")
	if !found || !strings.HasPrefix(path, "spec") || strings.Contains(path, " ") {
		path, detail = "spec", err.Error()
	}
	m.add(path, "correct it as Chaos Mesh asks", "%s", detail)
	return nil
}

// The limits of an experiment and of its steps.
const (
	// moment is how long the effect of a fault is left in place that is over as soon as it was shown.
	moment = time.Second
	// overhead is what a step may take beside the time that its effect is held: to inject, to confirm, to heal and to
	// show that it is gone.
	overhead = 5 * time.Minute
	// MaxLength is how long an experiment may last: a trial of hours is a mistyped one.
	MaxLength = 12 * time.Hour
)

// experiment returns the steps of one experiment: its faults on each of its victims, all at once.
func (m manifest) experiment() []plan.Step {
	before := len(m.errs)
	row, ok := m.row()
	if !ok {
		return nil
	}
	what, fields := strings.TrimSpace(row.kind+" "+row.action), append(strings.Fields(row.fields), common()...)
	if !m.honoured(what, "spec", specOf(m.Object).Interface(), fields) {
		return nil
	}
	atOnce := m.atOnce()
	length := specOf(m.Object).FieldByName("Duration").Interface().(*string)
	hold := m.length(m.lasts, length, atOnce)
	victims, note := m.victims()
	if atOnce && length != nil {
		note = addNote(note, "duration does nothing: it is over at once")
	}
	if atOnce {
		hold = moment
	}
	if names := specOf(m.Object).FieldByName("ContainerNames"); names.IsValid() {
		m.containers(names.Interface().([]string))
	}
	faults := []plan.Fault{{}}
	if row.read != nil {
		faults = row.read(m, victims)
	}
	var steps []plan.Step
	for _, n := range victims {
		for _, f := range faults {
			f.Name, f.Ordinal, f.Hold = cmp.Or(f.Name, row.fault), n, plan.Duration(hold)
			if f.Params = maps.Clone(f.Params); f.Name == Name {
				f.Params = plan.Params{"manifest": m.leave(n)}
			}
			if n == controlPlane {
				f.Ordinal = m.work.Start // The victim is the control plane, whichever pod it was chosen by.
			}
			if !slices.ContainsFunc(m.faults, func(c plan.FaultCaps) bool { return c.Name == f.Name }) {
				m.add("spec", "leave it out", "it would be the fault %q, which this Seatrial does not have", f.Name)
				return nil
			}
			steps = append(steps, plan.Step{Do: plan.ActionFault, Fault: &f, Bound: plan.Duration(hold + overhead),
				Note: from(m.Name(), addNote(note, row.note))})
		}
	}
	if len(m.errs) > before {
		return nil
	}
	branches := make([][]plan.Step, len(steps))
	for i, s := range steps {
		branches[i] = []plan.Step{s}
	}
	return m.together(m.Name(), branches)
}

// atOnce reports that an experiment is over at once, and needs no duration.
func (m manifest) atOnce() bool {
	if o, ok := m.Object.(*v1alpha1.PhysicalMachineChaos); ok {
		return o.Spec.Process != nil && o.Spec.Process.Signal != sigstop
	}
	return m.Object.(v1alpha1.InnerObject).IsOneShot()
}

// containers checks that no container is named twice, and none without a name.
func (m manifest) containers(names []string) {
	for i, name := range names {
		if name == "" || slices.Contains(names[:i], name) {
			m.add("spec.containerNames", "name each container once", "%q is there twice, or is empty", name)
		}
	}
}

// length reads how long something lasts. What must be ended has to say when; what is over at once need not.
func (m manifest) length(path string, duration *string, atOnce bool) time.Duration {
	if duration == nil || *duration == "" {
		if !atOnce {
			m.add(path, `set it, for example "30s"`, "is missing: without it, it would never end")
		}
		return 0
	}
	d, err := time.ParseDuration(*duration)
	switch {
	case err != nil:
		m.add(path, `use a length of time, for example "30s"`, "%q is none", *duration)
	case d <= 0 || d > MaxLength:
		m.add(path, fmt.Sprintf("use more than 0s and at most %s", MaxLength), "%s is out of range", d)
	}
	return d
}

// placeholder is the namespace of the pods in a manifest that is part of a plan. It becomes the trial's own, which has
// no name before the trial begins.
const placeholder = "trial"

// leave returns the manifest as it was written, for one victim, by name: what Chaos Mesh in the cluster is given.
func (m manifest) leave(ordinal int) json.RawMessage {
	obj := m.DeepCopyObject().(client.Object)
	meta := metav1.ObjectMeta{Name: m.GetName(), Namespace: placeholder}
	reflect.ValueOf(obj).Elem().FieldByName("ObjectMeta").Set(reflect.ValueOf(meta))
	*podsOf(obj) = v1alpha1.PodSelector{Mode: v1alpha1.AllMode, Selector: v1alpha1.PodSelectorSpec{
		Pods: map[string][]string{placeholder: {m.pod(ordinal)}},
	}}
	body, err := encode(obj)
	if err != nil {
		m.add("spec", "correct it", "%v", err)
	}
	return body
}

// encode writes an object as JSON without what only the cluster fills in.
func encode(obj client.Object) (json.RawMessage, error) {
	data, err := json.Marshal(obj)
	var fields map[string]any
	if err == nil {
		err = json.Unmarshal(data, &fields)
	}
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	delete(fields, "status")
	if meta, ok := fields["metadata"].(map[string]any); ok {
		delete(meta, "creationTimestamp")
	}
	return json.Marshal(fields)
}

// together returns the one step that carries out several sequences at the same time; a single sequence stays as it is.
func (m manifest) together(name string, branches [][]plan.Step) []plan.Step {
	if len(branches) < 2 {
		return slices.Concat(branches...)
	}
	if len(branches) > plan.MaxBranches {
		m.add("spec", fmt.Sprintf("split it up: at most %d at a time", plan.MaxBranches),
			"%s would be %d faults at once", name, len(branches))
		return nil
	}
	longest := time.Duration(0)
	for _, steps := range branches {
		longest = max(longest, bounds(steps))
	}
	return []plan.Step{{
		Do: plan.ActionTogether, Branches: branches, Bound: plan.Duration(longest + time.Minute), Note: from(name, ""),
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

// from is the note of a step that comes from a manifest.
func from(name, note string) string { return plan.Printable(addNote("from "+name, note), 300) }

func addNote(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
