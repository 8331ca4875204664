package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	kjson "sigs.k8s.io/json"
)

// Fault is one planned fault. The victim is the node that runs the pod of Ordinal when the fault starts; within another
// fault, when that one started.
type Fault struct {
	Name    string   `json:"name"` // In the list of faults, for example "kubelet-kill".
	Ordinal int      `json:"ordinal"`
	Hold    Duration `json:"hold"` // How long the shown effect is left in place.
	// Params are the fields that only this fault has. In JSON they stand beside the others; the fault's definition
	// decodes and validates them.
	Params Params `json:"-"`
	// When delays the act, on the victim's node, until the CSI driver's node service gets a call for the victim's
	// volume. Provoke are the steps that cause the call; they begin once the node waits.
	When    *Await `json:"when,omitempty"`
	Provoke []Step `json:"provoke,omitempty"`
	// During are the steps after the effect is confirmed. Hold begins after them.
	During []Step `json:"during,omitempty"`
	// Outlast heals the fault after the one around it. It is for what cannot be healed before: a deleted Node is
	// registered again by its kubelet, which a partition cuts off.
	Outlast bool `json:"outlast,omitempty"`
	// Life, if set, replaces the time after which the armed undo heals the fault. It is not part of a plan: an
	// upgrade's drain, and tests, set it.
	Life Duration `json:"-"`
}

// Params are the parameters of a fault by name, as they are in JSON.
type Params map[string]any

// MarshalJSON writes the parameters, in alphabetical order, after the other fields.
func (f Fault) MarshalJSON() ([]byte, error) {
	type common Fault
	data, err := json.Marshal(common(f))
	if err != nil || len(f.Params) == 0 {
		return data, err
	}
	params, err := json.Marshal(f.Params)
	if err != nil {
		return nil, fmt.Errorf("encode fault %q: %w", f.Name, err)
	}
	return slices.Concat(data[:len(data)-1], []byte(","), params[1:]), nil
}

// UnmarshalJSON keeps each field that is not common to all faults as a parameter.
func (f *Fault) UnmarshalJSON(data []byte) error {
	type common Fault
	var params Params
	err := errors.Join(kjson.UnmarshalCaseSensitivePreserveInts(data, (*common)(f)),
		kjson.UnmarshalCaseSensitivePreserveInts(data, &params))
	if err != nil {
		return fmt.Errorf("decode fault: %w", err)
	}
	known := jsonFields(reflect.TypeFor[Fault]())
	maps.DeleteFunc(params, func(name string, _ any) bool { _, ok := known[name]; return ok })
	if f.Params = params; len(params) == 0 {
		f.Params = nil
	}
	return nil
}

// note lists the parameters for a person.
func (p Params) note() string {
	var note strings.Builder
	var tell func(name string, v any)
	tell = func(name string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				if k != "manifest" { // It is long, and the step's note says where it is from.
					tell(k, v[k])
				}
			}
		case nil:
		case bool:
			if v {
				note.WriteString(", " + Printable(name, maxShort))
			}
		default:
			note.WriteString(", " + Printable(name+" "+strings.Trim(fmt.Sprint(v), "[]"), maxShort))
		}
	}
	data, err := json.Marshal(p)
	var plain any
	if err == nil && kjson.UnmarshalCaseSensitivePreserveInts(data, &plain) == nil {
		tell("", plain)
	}
	return note.String()
}

// Setting is what the parameters of a fault are checked with.
type Setting struct {
	Fault    Fault
	Workload Workload
	// Low and Pods say which ordinals there can be at the step: as many as Pods, from Low on.
	Low, Pods int
}

// Ordinal adds an error if there is no pod of an ordinal.
func (s Setting) Ordinal(errs *FieldErrors, field string, ordinal int) {
	switch {
	case s.Pods < 1:
		errs.Add(field, "scale up before it", "there is no pod at this step")
	case ordinal < s.Low || ordinal >= s.Low+s.Pods:
		errs.Add(field, fmt.Sprintf("use %d to %d, with %s at this step", s.Low, s.Low+s.Pods-1,
			Count(s.Pods, "replica")), "%d is out of range", ordinal)
	}
}

// DecodeParams reads the parameters of a fault strictly. The fields of its errors are relative to the fault.
func DecodeParams[P any](f Fault) (P, FieldErrors) {
	var p P
	errs := Names(ParamNames[P]()...)(Setting{Fault: f})
	if len(errs) > 0 || len(f.Params) == 0 {
		return p, errs
	}
	data, err := json.Marshal(f.Params)
	if err != nil {
		errs.Add("params", "write JSON", "cannot be encoded: %v", err)
		return p, errs
	}
	return p, Unmarshal(data, &p)
}

// Names returns a check that knows the names of a fault's parameters and nothing else of them.
func Names(names ...string) func(Setting) FieldErrors {
	return func(s Setting) (errs FieldErrors) {
		for _, name := range slices.Sorted(maps.Keys(s.Fault.Params)) {
			if !slices.Contains(names, name) {
				errs.unknown("", name, fmt.Sprintf("fault %q does not take it", s.Fault.Name), names)
			}
		}
		return errs
	}
}

// ParamNames returns the names of the parameters of a fault, in the order of its struct.
func ParamNames[P any]() []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[P]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

func (v *validator) fault(step string, s Step, in depth) {
	at, f := step+".fault", *s.Fault
	v.victim(step)
	known := v.caps.fault(f.Name)
	if known == nil {
		names := make([]string, len(v.caps.Faults))
		for i, c := range v.caps.Faults {
			names[i] = c.Name
		}
		v.OneOf(at+".name", "fault", f.Name, names...)
		known = &FaultCaps{Name: f.Name, Triggers: true, Outlasts: true}
	} else {
		for _, need := range known.Needs {
			if why, ok := v.caps.Cannot[need]; ok {
				v.Add(at+".name", "choose another fault or another machine",
					"fault %q needs %q, which is not to be had here: %s", f.Name, need, why)
			}
		}
		if known.Storage != "" && known.Storage != v.work.StorageName() {
			v.Add(at+".name", fmt.Sprintf("use workload.storage: %q", known.Storage),
				"fault %q is not one of volumes %q", f.Name, v.work.StorageName())
		}
		check := known.Check
		if check == nil {
			check = Names()
		}
		errs := check(Setting{Fault: f, Workload: v.work, Low: v.work.Start, Pods: v.set.reach})
		v.FieldErrors = append(v.FieldErrors, errs.Under(at)...)
	}
	v.ordinal(at+".ordinal", f.Ordinal)
	switch {
	case f.Hold <= 0:
		v.Add(at+".hold", "use more than 0s", "%s is out of range", f.Hold)
	case f.Hold >= s.Bound:
		v.Add(at+".hold", "hold it for less, or raise the bound", "%s does not fit into the step's bound of %s",
			f.Hold, s.Bound)
	case known.Longest > 0 && f.Hold > known.Longest:
		v.Add(at+".hold", fmt.Sprintf("hold it for at most %s", known.Longest),
			"the effect of fault %q ends by itself before %s are over", f.Name, f.Hold)
	}
	v.when(at, f, *known)
	switch {
	case !f.Outlast:
	case in.faults == 0:
		v.Add(at+".outlast", "leave it out", "the step is within no fault that it could outlast")
	case !known.Outlasts:
		v.Add(at+".outlast", "leave it out", "fault %q can be healed before the one within which it is", f.Name)
	}
	if v.tooDeep(at+".provoke", in, f.Provoke) || v.tooDeep(at+".during", in, f.During) {
		return
	}
	v.steps(at+".provoke", f.Provoke, in.fault())
	v.steps(at+".during", f.During, in.fault())
}

// maxDelay is the longest delay, on a node, between a call and the act: the effect must be confirmed within a minute.
const maxDelay = 20 * time.Second

// when checks a fault's trigger: the victim's node sees the calls of the driver's node service, from when it begins to
// wait.
func (v *validator) when(at string, f Fault, known FaultCaps) {
	switch {
	case f.When == nil && len(f.Provoke) > 0:
		v.Add(at+".provoke", "leave it out, or set when", "nothing waits for what it brings about")
		return
	case f.When == nil:
		return
	case !known.Triggers:
		v.Add(at+".when", "leave it out", "fault %q cannot wait on the node for a call", f.Name)
	case len(f.Provoke) == 0:
		v.Add(at+".provoke", "add the steps that bring the call about", "is missing beside when")
	}
	v.await(at+".when", *f.When, 1)
	if f.When.Delay.D() > maxDelay {
		v.Add(at+".when.delay", fmt.Sprintf("use 0s to %s", maxDelay), "%s is out of range on a node", f.When.Delay)
	}
	if f.When.Since != "" {
		v.Add(at+".when.since", "leave it out", "what came before the node began to wait does not count")
	}
	switch {
	case f.When.For != AwaitCSIBegin && f.When.For != AwaitCSIEnd:
		v.Add(at+".when.for", fmt.Sprintf("use %q or %q", AwaitCSIBegin, AwaitCSIEnd), "%q is not seen on the node",
			f.When.For)
	case !strings.HasPrefix(f.When.RPC, "Node"):
		v.Add(at+".when.rpc", "use a method of the node service", "%q is not called on the victim's node", f.When.RPC)
	case f.When.Ordinal != f.Ordinal:
		v.Add(at+".when.ordinal", fmt.Sprintf("use %d", f.Ordinal), "%d is not the victim's", f.When.Ordinal)
	}
}

func (p Plan) describeFault(s Step) string {
	f := s.Fault
	text := fmt.Sprintf("%s on the node of %s%s", f.Name, p.Workload.pod(f.Ordinal), f.Params.note())
	if f.When != nil {
		text += ", as soon as " + p.describeAwait(*f.When)
	}
	if f.Outlast {
		text += ", healed after the one around it"
	}
	text += fmt.Sprintf(", held %s", f.Hold)
	if len(f.During) > 0 {
		text += " after:"
	}
	return text
}
