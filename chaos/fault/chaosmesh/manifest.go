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

// importer turns manifests into steps and collects errors.
type importer struct {
	work      plan.Workload
	seed      uint64
	rand      *rand.Rand
	faults    []plan.FaultCaps // The faults of this Seatrial.
	mesh      plan.Mesh        // The names that manifests use for the trial's pods and nodes.
	namespace string           // Stands for the trial's namespace; empty until a manifest names one.
	errs      plan.FieldErrors
}

func newImporter(work plan.Workload, seed uint64, faults []plan.FaultCaps) *importer {
	// The second number separates these draws from other uses of the seed.
	return &importer{work: work, seed: seed, rand: rand.New(rand.NewPCG(seed, 0xc4a0_5e5b)), faults: faults}
}

// manifest is one object of Chaos Mesh as written.
type manifest struct {
	*importer
	client.Object
	at       string // Its path in the source, for example "manifests[1]".
	spec     string // The path of its spec.
	duration string // The path of the field with its duration.
}

// Name returns the kind and the name, for a sentence.
func (m manifest) Name() string { return m.kind() + "/" + m.GetName() }

func (m manifest) kind() string { return reflect.TypeOf(m.Object).Elem().Name() }

// path returns the path of an object's field in the source.
func (m manifest) path(path string) string {
	if path == "spec" || strings.HasPrefix(path, "spec.") {
		path = m.spec + strings.TrimPrefix(path, "spec")
	}
	return plan.Join(m.at, path)
}

// add adds an error at a path within the object.
func (m manifest) add(path, fix, detail string, args ...any) {
	m.errs.Add(m.path(path), fix, detail, args...)
}

// specOf returns the spec of an object; every kind of Chaos Mesh has one.
func specOf(obj client.Object) reflect.Value { return reflect.ValueOf(obj).Elem().FieldByName("Spec") }

// podsOf returns a pointer to the selector in an experiment on pods, nil for other objects.
func podsOf(obj client.Object) *v1alpha1.PodSelector {
	if f := specOf(obj).FieldByName("PodSelector"); f.IsValid() {
		return f.Addr().Interface().(*v1alpha1.PodSelector)
	}
	return nil
}

func (i *importer) steps(at string, obj client.Object) (steps []plan.Step) {
	m := manifest{importer: i, Object: obj, at: at, spec: "spec", duration: "spec.duration"}
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

// valid returns the steps of an object that passes Seatrial's rules and those of Chaos Mesh's webhook.
func (m manifest) valid(read func() []plan.Step) []plan.Step {
	before := len(m.errs)
	steps := read()
	if len(m.errs) > before {
		return nil
	}
	ctrllog.SetLogger(logr.Discard()) // The webhooks log every call and complain without a logger.
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
	// oneShotHold is the hold of a fault whose experiment has no duration.
	oneShotHold = time.Second
	// overhead bounds the time of a step outside of its hold: inject, confirm, heal and confirm healed.
	overhead = 5 * time.Minute
	// MaxLength bounds the duration of an experiment: a trial of hours is likely a typing error.
	MaxLength = 12 * time.Hour
)

// experiment returns the steps of one experiment: its faults on all its victims at the same time.
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
	hold := m.length(m.duration, length, atOnce)
	victims, note := m.victims()
	if atOnce && length != nil {
		note = addNote(note, "duration does nothing: it is over at once")
	}
	if atOnce {
		hold = oneShotHold
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
				f.Params = plan.Params{"manifest": m.forVictim(n)}
			}
			if n == controlPlane {
				f.Ordinal = m.work.Start // The control plane is the victim, so the pod does not matter.
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

// atOnce reports whether an experiment acts once, so that it needs no duration.
func (m manifest) atOnce() bool {
	if o, ok := m.Object.(*v1alpha1.PhysicalMachineChaos); ok {
		return o.Spec.Process != nil && o.Spec.Process.Signal != sigstop
	}
	return m.Object.(v1alpha1.InnerObject).IsOneShot()
}

// containers checks that container names are not empty and not repeated.
func (m manifest) containers(names []string) {
	for i, name := range names {
		if name == "" || slices.Contains(names[:i], name) {
			m.add("spec.containerNames", "name each container once", "%q is there twice, or is empty", name)
		}
	}
}

// length reads a duration. It is required unless the experiment acts once.
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

// placeholder is the pods' namespace in a plan's manifest. It is replaced by the trial's namespace, whose name is
// unknown until the trial begins.
const placeholder = "trial"

// forVictim returns the manifest for Chaos Mesh in the cluster, with one victim, by name.
func (m manifest) forVictim(ordinal int) json.RawMessage {
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

// encode returns an object as JSON without the fields that the cluster sets.
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

// together returns a step that runs sequences in parallel; it returns a single sequence as it is.
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

func bounds(steps []plan.Step) time.Duration {
	all := time.Duration(0)
	for _, s := range steps {
		all += s.Bound.D()
	}
	return all
}

// from returns the note of a step that comes from a manifest.
func from(name, note string) string { return plan.Printable(addNote("from "+name, note), 300) }

func addNote(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
