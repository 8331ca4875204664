package chaosmesh

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/scenarios"
)

// Around describes the plan to import manifests into: a workload under load before, between and after them.
type Around struct {
	Replicas int // Of the database; 0 is 3.
	Workers  int // Of the cluster; 0 is 2.
	Seed     uint64
	Labels   map[string]string // See plan.Mesh.
	Machines map[string]int    // See plan.Mesh.
	Times    int               // See plan.Mesh.
	// Together runs the manifests at the same time, as `kubectl apply` of one file does; otherwise one after the other.
	Together bool
	Faults   []plan.FaultCaps
}

// imported is the scenario name of a plan made from manifests.
const imported = "chaos-mesh"

// between is the number of inserts to acknowledge before, between and after the manifests, which shows that the
// database works.
const between = 100

// Import makes a plan from manifests in YAML or JSON. It returns all errors as plan.FieldErrors.
func Import(data []byte, a Around) (plan.Plan, error) {
	if a.Replicas == 0 {
		a.Replicas = 3
	}
	if a.Workers == 0 {
		a.Workers = 2
	}
	objects, err := Parse(data)
	if err != nil {
		return plan.Plan{}, err
	}
	p := scenarios.Trial(scenarios.MySQL(min(max(a.Replicas, 1), plan.MaxReplicas)))
	p.Schema, p.Scenario, p.Seed, p.Workers = plan.SchemaVersion, imported, a.Seed, a.Workers
	i := newImporter(p.Workload, a.Seed, a.Faults)
	i.mesh = plan.Mesh{Labels: a.Labels, Machines: a.Machines, Times: a.Times}
	var parts [][]plan.Step
	for n, obj := range objects {
		parts = append(parts, i.steps(fmt.Sprintf("manifests[%d]", n), obj))
	}
	if a.Together {
		parts = [][]plan.Step{manifest{importer: i, at: "manifests", spec: "spec"}.together("the file", parts)}
	}
	if err := i.errs.Err(); err != nil {
		return plan.Plan{}, err
	}
	p.Steps = []plan.Step{scenarios.Load(between)}
	for _, steps := range parts {
		p.Steps = slices.Concat(p.Steps, steps, []plan.Step{scenarios.Load(between), scenarios.Checksum("after")})
	}
	plan.Number(p.Steps)
	return p, nil
}

// Expand replaces a plan's manifests, at any depth, with their steps, and numbers all steps anew. It returns a plan
// without manifests as it is and does not change p.
func Expand(p plan.Plan, faults []plan.FaultCaps) (plan.Plan, error) {
	isManifest := func(s plan.Step) bool { return s.Do == plan.ActionMesh && s.Mesh != nil }
	if !slices.ContainsFunc(p.AllSteps(), isManifest) {
		return p, nil
	}
	i := newImporter(p.Workload, p.Seed, faults)
	p.Steps = plan.Rewrite("steps", p.Steps, func(at string, s plan.Step) []plan.Step {
		if !isManifest(s) {
			return []plan.Step{s}
		}
		at += ".mesh.manifest"
		obj, errs := decode(s.Mesh.Manifest)
		if len(errs) > 0 {
			i.errs = append(i.errs, errs.Under(at)...)
			return nil
		}
		i.mesh = *s.Mesh
		steps := i.steps(at, obj)
		if s.Bound > 0 && bounds(steps) > s.Bound.D() {
			shorten(steps, s.Bound.D())
		}
		return steps
	})
	if err := i.errs.Err(); err != nil {
		return plan.Plan{}, err
	}
	plan.Number(p.Steps)
	return p, nil
}

// shorten gives each step its share of the time that a manifest may take.
func shorten(steps []plan.Step, most time.Duration) {
	all := bounds(steps)
	for i := range steps {
		share := float64(steps[i].Bound) / float64(all)
		steps[i].Bound = plan.Duration(time.Duration(float64(most) * share).Truncate(time.Second))
	}
}

// The limits of the input, so that a hostile file cannot fill the memory.
const (
	maxBytes     = 1 << 20
	maxDocuments = 64
)

// Is reports whether data looks like a Chaos Mesh manifest rather than a plan.
func Is(data []byte) bool {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Schema     int    `json:"schema"`
	}
	if json.Unmarshal(data, &head) == nil {
		return head.APIVersion != "" && head.Schema == 0
	}
	return slices.ContainsFunc(plan.Documents(data, maxDocuments+1), func(doc []byte) bool {
		var head struct {
			APIVersion string `json:"apiVersion"`
		}
		return yaml.Unmarshal(doc, &head) == nil && head.APIVersion != ""
	})
}

// Parse decodes manifests in YAML or JSON, one for each document. It returns all errors as plan.FieldErrors.
func Parse(data []byte) ([]client.Object, error) {
	var errs plan.FieldErrors
	docs := plan.Documents(data, maxDocuments+1)
	switch {
	case len(data) > maxBytes:
		errs.Add("manifests", "split the file", "they are longer than %d bytes", maxBytes)
	case len(docs) == 0:
		errs.Add("manifests", "add objects of chaos-mesh.org/v1alpha1", "there is none")
	case len(docs) > maxDocuments:
		errs.Add("manifests", "split the file", "there are more than %d", maxDocuments)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	objects := make([]client.Object, len(docs))
	for i, doc := range docs {
		obj, wrong := decode(doc)
		objects[i] = obj
		errs = append(errs, wrong.Under(fmt.Sprintf("manifests[%d]", i))...)
	}
	return objects, errs.Err()
}

// decode decodes one document strictly and validates its metadata as the API server would.
func decode(doc []byte) (obj client.Object, errs plan.FieldErrors) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := yaml.Unmarshal(doc, &head); err != nil {
		errs.Add("", "correct the YAML", "it cannot be decoded: %v", err)
		return nil, errs
	}
	if group := v1alpha1.SchemeGroupVersion.String(); head.APIVersion != group {
		errs.Add("apiVersion", "use "+group, "%q is not of Chaos Mesh", head.APIVersion)
		return nil, errs
	}
	if !errs.OneOf("kind", "usable kind of Chaos Mesh", head.Kind, kinds()...) {
		return nil, errs
	}
	obj = v1alpha1.AllKindsIncludeScheduleAndWorkflow()[head.Kind].SpawnObject()
	if errs = plan.Unmarshal(doc, obj); len(errs) > 0 {
		return nil, errs
	}
	if name := obj.GetName(); len(validation.IsDNS1123Subdomain(name)) > 0 {
		errs.Add("metadata.name", "use lower-case letters, digits, hyphens and dots", "%q is not a name", name)
	}
	if ns := obj.GetNamespace(); ns != "" && len(validation.IsDNS1123Label(ns)) > 0 {
		errs.Add("metadata.namespace", "use lower-case letters, digits and hyphens", "%q is not a name", ns)
	}
	if obj.GetAnnotations()[v1alpha1.PauseAnnotationKey] == "true" {
		errs.Add("metadata.annotations["+v1alpha1.PauseAnnotationKey+"]", "leave it out",
			"a paused experiment does nothing")
	}
	if obj.GetDeletionTimestamp() != nil {
		errs.Add("metadata.deletionTimestamp", "leave it out", "an object that is being deleted cannot be created")
	}
	return obj, errs
}
