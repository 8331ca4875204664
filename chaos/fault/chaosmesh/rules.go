package chaosmesh

import (
	"context"
	"fmt"
	"math"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"
	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/seatrial/seatrial/chaos/fault"
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

// check fills in the defaults of Chaos Mesh and holds the object against the rules, and then against those of Chaos
// Mesh itself, as its webhook does.
func (r *rules) check(m Manifest) {
	ctrllog.SetLogger(logr.Discard()) // Their webhooks log every call, and complain without a logger.
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
		switch o := m.Object.(type) {
		case *v1alpha1.Workflow:
			r.workflow(o)
		case *v1alpha1.Schedule:
			r.schedule(o)
		default:
			r.experiment(m)
		}
	}
	if err == nil && len(r.errs) == 0 {
		_, err = obj.ValidateCreate(context.Background(), obj)
	}
	if err == nil {
		return
	}
	path, detail, found := strings.Cut(strings.Trim(err.Error(), "[]"), ": ")
	if !found || !strings.HasPrefix(path, "spec") || strings.Contains(path, " ") {
		path, detail = "spec", err.Error()
	}
	r.add(printable(path), "correct it as Chaos Mesh asks", "%s", printable(detail))
}

// length checks a length of time. An experiment that must end has to say when; one that is done at once need not.
func (r *rules) length(duration *string, atOnce bool) { r.lengthAt("spec.duration", duration, atOnce) }

func (r *rules) lengthAt(path string, duration *string, atOnce bool) {
	if duration == nil || *duration == "" {
		if !atOnce {
			r.add(path, `set it, for example "30s"`, "is missing: without it, it would never end")
		}
		return
	}
	d, err := time.ParseDuration(*duration)
	switch {
	case err != nil:
		r.add(path, `use a length of time, for example "30s"`, "%q is none", printable(*duration))
	case d <= 0 || d > MaxLength:
		r.add(path, fmt.Sprintf("use more than 0s and at most %s", MaxLength), "%s is out of range", d)
	}
}

// oneOf checks that a value is one of those that the schema of the CRD allows.
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

// mode checks how many of those that a selector selects are meant.
func (r *rules) mode(path string, mode v1alpha1.SelectorMode, value string) {
	if !r.oneOf(path+".mode", string(mode), "all", "fixed", "fixed-percent", "one", "random-max-percent") {
		return
	}
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

// selector checks that a selector says whom it means. Given is the selector as it was written.
func (r *rules) selector(path string, s, given v1alpha1.PodSelector) {
	r.mode(path, s.Mode, s.Value)
	g := given.Selector
	named := 0
	for _, names := range g.Pods {
		named += len(names)
	}
	others := len(g.LabelSelectors) + len(g.ExpressionSelectors) + len(g.FieldSelectors) + len(g.AnnotationSelectors) +
		len(g.Nodes) + len(g.NodeSelectors)
	switch {
	case named+others+len(g.Namespaces)+len(g.PodPhaseSelectors) == 0:
		r.add(path+".selector", "name pods, labels or a namespace", "is empty: it would select every pod there is")
	case len(g.Pods) > 0 && others > 0:
		r.add(path+".selector.pods", "leave it out, or the other selectors",
			"Chaos Mesh does not look at the other selectors beside it")
	}
}

// percent checks that text is a share of a hundred, and returns it.
func (r *rules) percent(path, text string, low float64) float64 {
	p, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(p) || p < low || p > 100 {
		r.add(path, fmt.Sprintf(`use "%g" to "100"`, low), "%q is no percentage", printable(text))
		return 0
	}
	return p
}

// containers checks that no container is named twice, and none without a name.
func (r *rules) containers(names []string) {
	for i, name := range names {
		if name == "" || slices.Contains(names[:i], name) {
			r.add("spec.containerNames", "name each container once", "%q is there twice, or is empty", printable(name))
		}
	}
}

func (r *rules) pod(obj, _ client.Object) {
	s := obj.(*v1alpha1.PodChaos).Spec
	if s.GracePeriod < 0 || s.GracePeriod > int64(time.Hour/time.Second) {
		r.add("spec.gracePeriod", "use 0 to 3600 seconds", "%d is out of range", s.GracePeriod)
	}
	r.containers(s.ContainerNames)
}

func (r *rules) network(obj, given client.Object) {
	s, g := obj.(*v1alpha1.NetworkChaos).Spec, given.(*v1alpha1.NetworkChaos).Spec
	r.oneOf("spec.direction", string(s.Direction), "both", "from", "to")
	r.oneOf("spec.partitionBehavior", string(s.PartitionBehavior), "drop", "reject")
	if s.Target != nil {
		r.selector("spec.target", *s.Target, *g.Target)
	}
	if s.Loss == nil {
		return
	}
	r.percent("spec.loss.loss", s.Loss.Loss, 0.01)
	if c := s.Loss.Correlation; strings.Trim(c, "0.") != "" {
		r.add("spec.loss.correlation", `use "0"`, "packets are lost each by itself; %q cannot be had", printable(c))
	}
}

// ioMethods are the operations of a file system that Chaos Mesh knows (v1alpha1.IoMethod).
func ioMethods() []string {
	return []string{
		"lookup", "forget", "getattr", "setattr", "readlink", "mknod", "mkdir", "unlink", "rmdir", "symlink", "rename",
		"link", "open", "read", "write", "flush", "release", "fsync", "opendir", "readdir", "releasedir", "fsyncdir",
		"statfs", "setxattr", "getxattr", "listxattr", "removexattr", "access", "create", "getlk", "setlk", "bmap",
	}
}

func (r *rules) io(obj, _ client.Object) {
	o := obj.(*v1alpha1.IOChaos)
	s := o.Spec
	r.containers(s.ContainerNames)
	if !path.IsAbs(s.VolumePath) || path.Clean(s.VolumePath) != s.VolumePath || s.VolumePath == "/" {
		r.add("spec.volumePath", "use the path that a volume of the pod is mounted at", "%q is none",
			printable(s.VolumePath))
	} else if s.Path != "" && !strings.HasPrefix(s.Path, s.VolumePath+"/") {
		r.add("spec.path", "use a path below spec.volumePath", "%q is not within %q", printable(s.Path), s.VolumePath)
	}
	if s.Percent < 0 || s.Percent > 100 {
		r.add("spec.percent", "use 1 to 100", "%d is out of range", s.Percent)
	} else if newFiles(o, fault.Env{}).attempts() > maxCalls {
		r.add("spec.percent", "use 15 or more", "%d percent of calls are met by more calls than there is time for",
			s.Percent)
	}
	// The probe of files carries these out: they leave the volume as it is.
	seen := len(s.Methods) == 0 || slices.Contains(s.Methods, "getattr") || slices.Contains(s.Methods, "lookup")
	for _, method := range s.Methods {
		seen = r.oneOf("spec.methods", string(method), ioMethods()...) && seen
	}
	if !seen {
		r.add("spec.methods", "add getattr or lookup", "a probe does not write to the volume")
	}
	if d, err := time.ParseDuration(s.Delay); s.Delay != "" && (err != nil || d <= 0 || d > time.Minute) {
		r.add("spec.delay", "use more than 0s and at most 1m", "%q is out of range", printable(s.Delay))
	}
	if s.Errno > 133 {
		r.add("spec.errno", "use a number of errno(3), 1 to 133", "%d is none", s.Errno)
	}
}

func (r *rules) stress(obj, _ client.Object) {
	r.containers(obj.(*v1alpha1.StressChaos).Spec.ContainerNames)
}

func (r *rules) machine(obj, _ client.Object) {
	s := obj.(*v1alpha1.PhysicalMachineChaos).Spec
	r.mode("spec", s.Mode, s.Value)
	r.length(s.Duration, s.Process != nil && s.Process.Signal != sigstop)
	if s.Process != nil && s.Process.RecoverCmd != "" {
		r.add("spec.process.recoverCmd", "leave it out: faults heal themselves",
			"a command for a shell is not run on any node")
	}
	if p := s.NetworkPartition; p != nil && (p.IPProtocol != "" && p.IPProtocol != "all" || p.AcceptTCPFlags != "") {
		r.add("spec.network-partition", "leave ip-protocol and accept-tcp-flags out",
			"a partition of a node is of all protocols")
	}
}

// The signals that end a process at once, and stop it.
const (
	sigkill = 9
	sigstop = 19
)

// specOf returns the spec of an object, which every kind of Chaos Mesh has, as it is addressed.
func specOf(obj client.Object) reflect.Value { return reflect.ValueOf(obj).Elem().FieldByName("Spec") }
