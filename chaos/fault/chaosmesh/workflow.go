package chaosmesh

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seatrial/seatrial/chaos/plan"
)

// The limits of a Workflow: what is unfolded is a plan that a person reads.
const (
	maxLeaves = 100
	maxDepth  = 8
)

// workflow holds a Workflow against what the rules of Chaos Mesh leave out: templates within themselves, and those that
// are no experiment.
func (r *rules) workflow(obj *v1alpha1.Workflow) {
	for i, template := range obj.Spec.Templates {
		path := fmt.Sprintf("spec.templates[%d]", i)
		switch template.Type {
		case v1alpha1.TypeSerial, v1alpha1.TypeParallel:
			if len(template.Children) == 0 {
				r.add(path+".children", "name templates, or leave it out", "is empty")
			}
			if template.Deadline != nil {
				r.lengthAt(path+".deadline", template.Deadline, false)
			}
			if template.StatusCheck != nil {
				r.add(path+".statusCheck", "leave it out", "does nothing in a template of type %q", template.Type)
			}
		case v1alpha1.TypeSuspend:
			r.lengthAt(path+".deadline", template.Deadline, false)
		case v1alpha1.TypeTask, v1alpha1.TypeStatusCheck, v1alpha1.TypeSchedule:
			r.add(path+".templateType", "use Serial, Parallel, Suspend or an experiment",
				"%q runs pods, or calls others, or has no end: a plan is complete before it begins", template.Type)
		}
	}
}

// unfolding is a Workflow on its way to steps.
type unfolding struct {
	t      *translator
	r      *rules
	m      Manifest
	obj    *v1alpha1.Workflow
	leaves int
}

// workflow returns the steps of a Workflow, from its entry on.
func (t *translator) workflow(r *rules, m Manifest, obj *v1alpha1.Workflow) []plan.Step {
	u := &unfolding{t: t, r: r, m: m, obj: obj}
	steps := u.template("spec.entry", obj.Spec.Entry, nil)
	for i, template := range obj.Spec.Templates {
		if !u.reached(obj.Spec.Entry, template.Name, map[string]bool{}) {
			r.add(fmt.Sprintf("spec.templates[%d].name", i), "make it a child of one that is, or leave it out",
				"%q is never reached from the entry", printable(template.Name))
		}
	}
	return steps
}

// find returns the index of a template.
func (u *unfolding) find(name string) int {
	return slices.IndexFunc(u.obj.Spec.Templates, func(t v1alpha1.Template) bool { return t.Name == name })
}

// reached reports whether a template is carried out when another is.
func (u *unfolding) reached(from, name string, seen map[string]bool) bool {
	i := u.find(from)
	if from == name || i < 0 || seen[from] {
		return from == name
	}
	seen[from] = true
	return slices.ContainsFunc(u.obj.Spec.Templates[i].Children, func(child string) bool {
		return u.reached(child, name, seen)
	})
}

// template returns the steps of a template. At is where its name stands, within the templates around it.
func (u *unfolding) template(at, name string, within []string) []plan.Step {
	i := u.find(name)
	switch {
	case slices.Contains(within, name):
		u.r.add(at, "leave it out", "template %q is within itself", printable(name))
		return nil
	case i < 0 || len(within) > maxDepth:
		u.r.add(at, fmt.Sprintf("use at most %d templates within each other", maxDepth), "%q is too deep",
			printable(name))
		return nil
	case u.leaves > maxLeaves:
		return nil // That has been told.
	}
	template, path := u.obj.Spec.Templates[i], fmt.Sprintf("spec.templates[%d]", i)
	within = append(slices.Clone(within), name)
	switch template.Type {
	case v1alpha1.TypeSerial, v1alpha1.TypeParallel:
		return u.children(path, template, within)
	}
	if u.leaves++; u.leaves > maxLeaves {
		u.r.add(at, "use fewer children", "the workflow unfolds to more than %d steps", maxLeaves)
		return nil
	}
	if template.Type == v1alpha1.TypeSuspend {
		d, _ := time.ParseDuration(*template.Deadline) // The rules have looked at it.
		return []plan.Step{pause(d, u.m.Name()+", template "+name)}
	}
	return u.experiment(path, template)
}

// pause returns the step that lets time pass.
func pause(d time.Duration, from string) plan.Step {
	return plan.Step{
		Do: plan.ActionPause, Lasting: plan.Duration(d), Bound: plan.Duration(d + time.Minute),
		Note: printable("from " + from),
	}
}

// children returns the steps of a Serial or Parallel template.
func (u *unfolding) children(path string, template v1alpha1.Template, within []string) []plan.Step {
	var branches [][]plan.Step
	for i, child := range template.Children {
		steps := u.template(fmt.Sprintf("%s.children[%d]", path, i), child, within)
		if len(steps) > 0 {
			branches = append(branches, steps)
		}
	}
	serial := slices.Concat(branches...)
	if template.Type == v1alpha1.TypeParallel && len(branches) > 1 {
		serial = together(u.r, u.m.Name()+", template "+template.Name, branches)
	}
	if template.Deadline != nil {
		d, _ := time.ParseDuration(*template.Deadline)
		if least := least(serial); least > d {
			u.r.add(path+".deadline", "raise it",
				"what is within takes %s at least, and %s would cut it short", least, d)
		}
	}
	return serial
}

// least returns how long steps take at least.
func least(steps []plan.Step) time.Duration {
	all := time.Duration(0)
	for _, s := range steps {
		one := s.Lasting.D()
		if s.Fault != nil {
			one = s.Fault.Hold.D()
		}
		for _, branch := range s.Branches {
			one = max(one, least(branch))
		}
		all += one
	}
	return all
}

// experiment returns the steps of a template that holds an experiment. It lasts until the template's deadline.
func (u *unfolding) experiment(path string, template v1alpha1.Template) []plan.Step {
	kind := string(template.Type)
	if !slices.Contains(kinds(), kind) {
		u.r.add(path+".templateType", nearest(kind, kinds()), "no kind %q of Chaos Mesh can be used", printable(kind))
		return nil
	}
	obj, err := spawn(template.EmbedChaos, kind)
	if err != nil {
		u.r.add(path, "add the spec of the experiment", "%s", printable(err.Error()))
		return nil
	}
	deadline := template.Deadline
	if deadline != nil {
		u.r.lengthAt(path+".deadline", deadline, false)
	}
	specOf(obj).FieldByName("Duration").Set(reflect.ValueOf(deadline))
	return u.t.embedded(u.r, u.m, embed{
		path: path, spec: fieldOf(template.EmbedChaos, kind), name: u.m.Object.GetName() + "." + template.Name,
		obj: obj, duration: path + ".deadline",
	})
}

// embed is an experiment within another object.
type embed struct {
	path     string // Of what it is in.
	spec     string // The name of its spec there.
	name     string
	obj      client.Object
	duration string // The path of what says how long it lasts; empty when it says so itself.
}

// embedded holds an experiment within another object against the rules, as if it stood alone, and returns its steps.
func (t *translator) embedded(r *rules, m Manifest, e embed) []plan.Step {
	e.obj.SetName(e.name)
	e.obj.SetNamespace(m.Object.GetNamespace())
	e.obj.GetObjectKind().SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(
		reflect.TypeOf(e.obj).Elem().Name()))
	at := r.at + "." + e.path
	own := &rules{at: strings.Trim(at, "."), spec: e.spec}
	one := Manifest{At: at, given: e.obj, Object: e.obj.DeepCopyObject().(client.Object)}
	own.check(one)
	var steps []plan.Step
	if len(own.errs) == 0 {
		steps = t.experiment(own, one)
	}
	for _, err := range own.errs {
		if e.duration != "" && err.Field == own.at+"."+e.spec+".duration" {
			err.Field = r.at + "." + e.duration
		}
		r.errs = append(r.errs, err)
	}
	return steps
}

// spawn makes an object of an embedded spec.
func spawn(e *v1alpha1.EmbedChaos, kind string) (obj client.Object, err error) {
	if e == nil || !reflect.ValueOf(e).Elem().FieldByName(kind).IsValid() ||
		reflect.ValueOf(e).Elem().FieldByName(kind).IsNil() {
		return nil, fmt.Errorf("the spec of %s is missing", kind)
	}
	made, err := e.SpawnNewObject(v1alpha1.TemplateType(kind))
	if err != nil {
		return nil, err
	}
	obj, ok := made.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%s is no object", kind)
	}
	return obj.DeepCopyObject().(client.Object), nil
}

// fieldOf returns what the spec of a kind is called in a manifest.
func fieldOf(e *v1alpha1.EmbedChaos, kind string) string {
	f, _ := reflect.TypeOf(e).Elem().FieldByName(kind)
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
