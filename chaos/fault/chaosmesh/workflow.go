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

// The limits of a Workflow: a person must be able to read the plan that it unfolds to.
const (
	maxLeaves = 100
	maxDepth  = 8
)

// unfolding is the state of turning a Workflow into steps.
type unfolding struct {
	manifest
	templates []v1alpha1.Template
	reached   map[string]bool
	leaves    int
}

// workflow returns the steps of a Workflow, beginning with its entry.
func (m manifest) workflow(obj *v1alpha1.Workflow) []plan.Step {
	u := &unfolding{manifest: m, templates: obj.Spec.Templates, reached: map[string]bool{}}
	before := len(m.errs)
	steps := u.template("spec.entry", obj.Spec.Entry, nil)
	for i, template := range u.templates {
		if !u.reached[template.Name] && len(m.errs) == before {
			m.add(fmt.Sprintf("spec.templates[%d].name", i), "make it a child of one that is, or leave it out",
				"%q is never reached from the entry", template.Name)
		}
	}
	return steps
}

// template returns the steps of a template. At is the path of its name; within are the templates around it.
func (u *unfolding) template(at, name string, within []string) []plan.Step {
	i := slices.IndexFunc(u.templates, func(t v1alpha1.Template) bool { return t.Name == name })
	switch {
	case i < 0:
		u.add(at, "use the name of a template", "there is no template %q", name)
		return nil
	case slices.Contains(within, name):
		u.add(at, "leave it out", "template %q is within itself", name)
		return nil
	case len(within) > maxDepth:
		u.add(at, fmt.Sprintf("use at most %d templates within each other", maxDepth), "%q is too deep", name)
		return nil
	case u.leaves > maxLeaves:
		return nil // The error was added already.
	}
	u.reached[name] = true
	template, path := u.templates[i], fmt.Sprintf("spec.templates[%d]", i)
	switch template.Type {
	case v1alpha1.TypeSerial, v1alpha1.TypeParallel:
		return u.children(path, template, append(slices.Clone(within), name))
	}
	if u.leaves++; u.leaves > maxLeaves {
		u.add(at, "use fewer children", "the workflow unfolds to more than %d steps", maxLeaves)
		return nil
	}
	switch template.Type {
	case v1alpha1.TypeSuspend:
		return []plan.Step{pause(u.length(path+".deadline", template.Deadline, false),
			u.Name()+", template "+template.Name, "")}
	case v1alpha1.TypeTask, v1alpha1.TypeStatusCheck, v1alpha1.TypeSchedule:
		u.add(path+".templateType", "use Serial, Parallel, Suspend or an experiment",
			"%q runs pods, or calls others, or has no end: a plan is complete before it begins", template.Type)
		return nil
	}
	u.length(path+".deadline", template.Deadline, true)
	name = u.GetName() + "." + name
	return u.embedded(path, name, template.EmbedChaos, string(template.Type), template.Deadline)
}

// children returns the steps of a Serial or Parallel template.
func (u *unfolding) children(path string, template v1alpha1.Template, within []string) []plan.Step {
	if len(template.Children) == 0 {
		u.add(path+".children", "name templates, or leave it out", "is empty")
	}
	if template.StatusCheck != nil {
		u.add(path+".statusCheck", "leave it out", "does nothing in a template of type %q", template.Type)
	}
	deadline := u.length(path+".deadline", template.Deadline, true)
	var branches [][]plan.Step
	for i, child := range template.Children {
		steps := u.template(fmt.Sprintf("%s.children[%d]", path, i), child, within)
		if len(steps) > 0 {
			branches = append(branches, steps)
		}
	}
	steps := slices.Concat(branches...)
	if template.Type == v1alpha1.TypeParallel {
		steps = u.together(u.Name()+", template "+template.Name, branches)
	}
	if least := shortest(steps); deadline > 0 && least > deadline {
		u.add(path+".deadline", "raise it", "what is within takes %s at least, and %s would cut it short", least,
			deadline)
	}
	return steps
}

// shortest returns the shortest time that steps can take one after the other.
func shortest(steps []plan.Step) time.Duration {
	all := time.Duration(0)
	for _, s := range steps {
		all += s.Least()
	}
	return all
}

// embedded returns the steps of an experiment within another object, by the rules for a standalone one. Deadline is the
// template's, which replaces the experiment's duration.
func (m manifest) embedded(path, name string, specs *v1alpha1.EmbedChaos, kind string, deadline *string) []plan.Step {
	own := manifest{importer: m.importer, at: m.path(path), duration: "spec.duration"}
	inWorkflow := m.kind() == v1alpha1.KindWorkflow
	spec, ok := reflect.TypeFor[v1alpha1.EmbedChaos]().FieldByName(kind)
	if !ok || !slices.Contains(kinds(), kind) {
		field := map[bool]string{true: ".templateType", false: ".type"}[inWorkflow]
		m.add(path+field, "use an experiment", "%q within a %s cannot be carried out", kind, m.kind())
		return nil
	}
	own.spec = specName(spec)
	if specs == nil || reflect.ValueOf(specs).Elem().FieldByIndex(spec.Index).IsNil() {
		m.add(path, "add the spec of the experiment", "the spec of %s is missing", kind)
		return nil
	}
	made, err := specs.SpawnNewObject(v1alpha1.TemplateType(kind))
	if err != nil {
		m.add(path, "correct it", "%v", err)
		return nil
	}
	own.Object = made.(client.Object).DeepCopyObject().(client.Object)
	own.SetName(name)
	own.SetNamespace(m.GetNamespace())
	own.GetObjectKind().SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(kind))
	if inWorkflow {
		own.duration = "deadline"
		if duration := specOf(own.Object).FieldByName("Duration"); duration.IsNil() {
			duration.Set(reflect.ValueOf(deadline))
		}
	}
	return own.valid(own.experiment)
}

// specName returns the JSON name of a kind's spec within another object.
func specName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// The limits of a Schedule. It has no end, so the plan repeats it a fixed number of times.
const (
	defaultTimes = 3
	maxTimes     = 20
	maxInterval  = time.Hour
)

// schedule returns the steps of a Schedule: the experiment and pauses, a fixed number of times.
func (m manifest) schedule(obj *v1alpha1.Schedule) []plan.Step {
	if obj.Spec.ConcurrencyPolicy.IsAllow() {
		m.add("spec.concurrencyPolicy", `use "Forbid"`, "each time must be over before the next: %q allows otherwise",
			obj.Spec.ConcurrencyPolicy)
	}
	kind := string(obj.Spec.Type)
	intervals, before := m.intervals(obj.Spec.Schedule), len(m.errs)
	var steps []plan.Step
	for i := range len(intervals) + 1 { // Each time has its own random draw.
		body := m.embedded("spec", m.GetName(), &obj.Spec.EmbedChaos, kind, nil)
		if len(m.errs) > before {
			return nil
		}
		for j := range body {
			body[j].Note = plan.Printable(fmt.Sprintf("%s; time %d of %d", body[j].Note, i+1, len(intervals)+1), 350)
		}
		steps = append(steps, body...)
		if i == len(intervals) {
			break
		}
		rest := intervals[i] - shortest(body)
		if rest <= 0 {
			spec, _ := reflect.TypeFor[v1alpha1.EmbedChaos]().FieldByName(kind)
			m.add("spec."+specName(spec)+".duration", "shorten it, or the interval",
				"%s does not end before the next time, after %s", shortest(body), intervals[i])
			return nil
		}
		steps = append(steps, pause(rest, m.Name(), intervals[i].String()+" between two times"))
	}
	return steps
}

// intervals returns the times between runs of the schedule, counted from a fixed day.
func (m manifest) intervals(schedule string) []time.Duration {
	times := m.mesh.Times
	if times == 0 {
		times = defaultTimes
	}
	if times < 1 || times > maxTimes {
		m.errs.Range("times", times, 1, maxTimes)
		return nil
	}
	cron, err := v1alpha1.StandardCronParser.Parse(schedule)
	if err != nil {
		m.add("spec.schedule", `use cron's words, for example "@every 2m"`, "%v", err)
		return nil
	}
	var out []time.Duration
	next := cron.Next(time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC))
	for range times - 1 {
		after := cron.Next(next)
		if next.IsZero() || after.IsZero() || after.Sub(next) > maxInterval {
			m.add("spec.schedule", fmt.Sprintf("use one that comes every %s or more often", maxInterval),
				"%q leaves more than that between two times: no trial takes so long", schedule)
			return nil
		}
		out = append(out, after.Sub(next))
		next = after
	}
	return out
}
