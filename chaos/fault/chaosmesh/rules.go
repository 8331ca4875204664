package chaosmesh

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chaos-mesh/chaos-mesh/api/genericwebhook"
	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/seatrial/seatrial/chaos/plan"
)

// MaxLength is how long an experiment may last: a trial of hours is a mistyped one.
const MaxLength = 12 * time.Hour

// rules collects what is wrong with one object.
type rules struct {
	at   string // The path of the object.
	spec string // What its spec is called there; "spec" when empty.
	errs plan.FieldErrors
}

// add adds one error. The path is that within the object.
func (r *rules) add(path, fix, detail string, args ...any) {
	if rest, ok := strings.CutPrefix(path, "spec"); ok && r.spec != "" {
		path = r.spec + rest
	}
	r.errs.Add(strings.Trim(r.at+"."+path, "."), fix, detail, args...)
}

// theirs fills in the defaults of Chaos Mesh and holds the object against its own rules, as its webhook does.
func (r *rules) theirs(m Manifest) {
	ctrllog.SetLogger(logr.Discard()) // Their webhooks log every call, and complain when nobody listens.
	obj, ok := m.Object.(v1alpha1.WebhookObject)
	if !ok {
		r.add("kind", "use another", "kind %q cannot be held against the rules of Chaos Mesh", m.kind())
		return
	}
	defer func() {
		if p := recover(); p != nil { // For example a Schedule whose type has no spec.
			r.add("spec", "add the spec that belongs to its type",
				"what its type asks for is missing: the rules of Chaos Mesh cannot read it")
		}
	}()
	err := obj.Default(context.Background(), obj)
	if err == nil {
		_, err = obj.ValidateCreate(context.Background(), obj)
	}
	if err == nil {
		return
	}
	before := len(r.errs)
	if _, embeds := specOf(m.Object).Type().FieldByName("EmbedChaos"); !embeds && m.kind() != "Workflow" {
		for _, e := range genericwebhook.Validate(obj) {
			detail := e.Detail
			if v := reflect.ValueOf(e.BadValue); v.IsValid() && reflect.Indirect(v).Kind() == reflect.String {
				detail = fmt.Sprintf("%q: %s", reflect.Indirect(v).String(), e.Detail)
			}
			before := slices.Clone(r.errs)
			r.add(jsonPath(reflect.TypeOf(obj), e.Field), "correct it as Chaos Mesh asks", "%s", printable(detail))
			last := r.errs[len(r.errs)-1] // Their walk comes by some fields twice.
			if slices.ContainsFunc(before, func(e *field.Error) bool { return e.Error() == last.Error() }) {
				r.errs = before
			}
		}
	}
	if len(r.errs) > before {
		return
	}
	path, detail, found := strings.Cut(strings.Trim(err.Error(), "[]"), ": ")
	if !found || !strings.HasPrefix(path, "spec") || strings.Contains(path, " ") {
		path, detail = "spec", err.Error()
	}
	r.add(printable(path), "correct it as Chaos Mesh asks", "%s", printable(detail))
}

// jsonPath turns the path of Go's fields, in which Chaos Mesh writes, into that of the manifest's fields. What it
// writes in the manifest's words already is kept.
func jsonPath(t reflect.Type, path string) string {
	var out []string
	for i, part := range strings.Split(path, ".") {
		name, index, indexed := strings.Cut(part, "[")
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		tag := name
		if t.Kind() == reflect.Struct {
			if f, ok := t.FieldByName(name); ok {
				tag, _, _ = strings.Cut(f.Tag.Get("json"), ",")
				t = f.Type
			}
		}
		if tag == "" || tag == "spec" && i > 0 { // What is within without a name of its own, and the spec once more.
			continue
		}
		if indexed {
			tag += "[" + index
		}
		out = append(out, tag)
	}
	return strings.Join(out, ".")
}

// kind holds what every kind has in common.
func (r *rules) kind(m Manifest) {
	if spec := specOf(m.Object); spec.IsValid() {
		if remote := spec.FieldByName("RemoteCluster"); remote.IsValid() && remote.String() != "" {
			r.add("spec.remoteCluster", "leave it out", "a trial is carried out on one cluster, not on %q too",
				remote.String())
		}
	}
}

// ours holds an object against what the rules of Chaos Mesh leave out.
func (r *rules) ours(m Manifest) {
	switch obj := m.Object.(type) {
	case *v1alpha1.PodChaos:
		r.pod(obj, m.given.(*v1alpha1.PodChaos))
	case *v1alpha1.NetworkChaos:
		r.network(obj, m.given.(*v1alpha1.NetworkChaos))
	case *v1alpha1.IOChaos:
		r.io(obj, m.given.(*v1alpha1.IOChaos))
	case *v1alpha1.TimeChaos:
		r.time(obj, m.given.(*v1alpha1.TimeChaos))
	case *v1alpha1.StressChaos:
		r.stress(obj, m.given.(*v1alpha1.StressChaos))
	case *v1alpha1.PhysicalMachineChaos:
		r.machine(obj)
	case *v1alpha1.Workflow:
		r.workflow(obj)
	case *v1alpha1.Schedule:
		r.schedule(obj)
	}
}

// length holds that an experiment that must end says when. Those that are done at once need not say it.
func (r *rules) length(duration *string, atOnce bool) {
	if duration == nil || *duration == "" {
		if !atOnce {
			r.add("spec.duration", `set it, for example "30s"`, "is missing: without it the fault would never end")
		}
		return
	}
	d, err := time.ParseDuration(*duration)
	switch {
	case err != nil:
		r.add("spec.duration", `use a length of time, for example "30s"`, "%q is none", printable(*duration))
	case d <= 0 || d > MaxLength:
		r.add("spec.duration", fmt.Sprintf("use more than 0s and at most %s", MaxLength), "%s is out of range", d)
	}
}

// oneOf holds that a value is one of those that the schema of the CRD allows.
func (r *rules) oneOf(path, value string, allowed ...string) bool {
	if slices.Contains(allowed, value) {
		return true
	}
	if value == "" {
		r.add(path, "use one of "+strings.Join(allowed, ", "), "is missing")
	} else {
		r.add(path, nearest(value, allowed), "no value %q", printable(value))
	}
	return false
}

func modes() []string { return []string{"all", "fixed", "fixed-percent", "one", "random-max-percent"} }

// selector holds that a selector says whom it means. Given is the selector as it was written.
func (r *rules) selector(path string, s, given v1alpha1.PodSelector) {
	if r.oneOf(path+".mode", string(s.Mode), modes()...) {
		r.value(path, s.Mode, s.Value)
	}
	g := given.Selector
	if reflect.DeepEqual(g, v1alpha1.PodSelectorSpec{}) || empty(g) {
		r.add(path+".selector", "name pods, labels or a namespace", "is empty: it would select every pod there is")
		return
	}
	if len(g.Pods) > 0 && (len(g.LabelSelectors) > 0 || len(g.ExpressionSelectors) > 0 || len(g.FieldSelectors) > 0 ||
		len(g.AnnotationSelectors) > 0 || len(g.Nodes) > 0 || len(g.NodeSelectors) > 0) {
		r.add(path+".selector.pods", "leave it out, or the other selectors",
			"Chaos Mesh does not look at the other selectors beside it")
	}
}

// empty reports that nothing in a selector selects: lists and maps that are there and have nothing in them.
func empty(s v1alpha1.PodSelectorSpec) bool {
	named := 0
	for _, names := range s.Pods {
		named += len(names)
	}
	return named+len(s.Namespaces)+len(s.FieldSelectors)+len(s.LabelSelectors)+len(s.ExpressionSelectors)+
		len(s.AnnotationSelectors)+len(s.Nodes)+len(s.NodeSelectors)+len(s.PodPhaseSelectors) == 0
}

// value holds that a value belongs to the mode.
func (r *rules) value(path string, mode v1alpha1.SelectorMode, value string) {
	if mode == v1alpha1.AllMode || mode == v1alpha1.OneMode {
		if value != "" {
			r.add(path+".value", "leave it out", "mode %q has none", mode)
		}
		return
	}
	n, err := strconv.Atoi(value)
	top := 100
	if mode == v1alpha1.FixedMode {
		top = plan.MaxReplicas
	}
	if err != nil || n < 1 || n > top {
		r.add(path+".value", fmt.Sprintf("use 1 to %d", top), "%q is out of range for mode %q", printable(value), mode)
	}
}

// percent holds that text is a share of a hundred, and returns it.
func (r *rules) percent(path, text string, low float64) float64 {
	p, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(p) || p < low || p > 100 {
		r.add(path, fmt.Sprintf(`use "%g" to "100"`, low), "%q is no percentage", printable(text))
		return 0
	}
	return p
}

// unset holds that fields which do nothing with an action are left out.
func (r *rules) unset(action string, fields ...struct {
	path string
	set  bool
}) {
	for _, f := range fields {
		if f.set {
			r.add(f.path, "leave it out", "does nothing with action %q", action)
		}
	}
}
