package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// ExternalName is the name of the workload that Workload.External goes with.
const ExternalName = "external"

// AllowLabel is the label of a namespace whose StatefulSets may be tried, with the value "true".
const AllowLabel = "seatrial.dev/allow-trials"

// External is a StatefulSet that is not Seatrial's, and how its data client connects.
type External struct {
	// Namespace is that of a StatefulSet that is there. With Manifests it is empty: they go into the trial's own.
	Namespace string `json:"namespace,omitempty"`
	// Manifests are objects in YAML, one StatefulSet among them: as they were when the plan was made.
	Manifests string `json:"manifests,omitempty"`
	Port      int    `json:"port"` // Of a pod, where the data client connects.
	// Container is where steps exec run, and what faults of a container hurt; it may be empty if a pod has only one.
	Container string     `json:"container,omitempty"`
	Secret    *SecretRef `json:"secret,omitempty"`
	// Command is the data client: a program and its arguments, found as a shell finds it.
	Command []string `json:"command"`
}

// SecretRef names a Secret in the StatefulSet's namespace and two of its keys.
type SecretRef struct {
	Name        string `json:"name"`
	UserKey     string `json:"userKey,omitempty"`     // "user" when empty.
	PasswordKey string `json:"passwordKey,omitempty"` // "password" when empty.
}

// Keys returns the keys of user and password.
func (s SecretRef) Keys() (user, password string) {
	return cmp.Or(s.UserKey, "user"), cmp.Or(s.PasswordKey, "password")
}

// WorkloadFile is what a user says of a StatefulSet in a file.
type WorkloadFile struct {
	Namespace   string `json:"namespace,omitempty"`
	StatefulSet string `json:"statefulSet"`
	Replicas    int    `json:"replicas"`
	Start       int    `json:"start,omitempty"`    // The first ordinal.
	Parallel    bool   `json:"parallel,omitempty"` // Its podManagementPolicy is Parallel.
	// Topology is how its pods belong together: single (also when left out), or async, semisync, group-single or
	// group-multi, if they are one database.
	Topology  string `json:"topology,omitempty"`
	Manifests string `json:"manifests,omitempty"` // A file or a folder, relative to the workload file.
	// Container is where steps exec run, and what faults of a container hurt; may be left out if a pod has only one.
	Container string     `json:"container,omitempty"`
	Port      int        `json:"port"`
	Secret    *SecretRef `json:"secret,omitempty"`
	Data      DataClient `json:"data"`
}

// DataClient is how rows are written and read back.
type DataClient struct {
	Command []string `json:"command"`
	// Clients is for each instance, 1 when left out; or for the group, 2, or as many as replicas where each takes
	// writes.
	Clients   *int      `json:"clients,omitempty"`
	Interval  *Duration `json:"interval,omitempty"`  // Between two writes of a client; 100ms when left out.
	QuietRows *int      `json:"quietRows,omitempty"` // Written first and never again; 100 when left out.
}

// DecodeWorkload reads a workload file in YAML or JSON, strictly. Its error is FieldErrors.
func DecodeWorkload(data []byte) (WorkloadFile, error) {
	var f WorkloadFile
	if errs := decode(data, &f, "workload"); len(errs) > 0 {
		return f, errs
	}
	v := &validator{work: f.workload("")}
	v.external("", "data.")
	v.where("namespace", f.Namespace, f.Manifests)
	return f, v.Err()
}

// workload is the workload of a plan, with the manifests as text.
func (f WorkloadFile) workload(manifests string) Workload {
	w := Workload{
		Name: ExternalName, StatefulSet: f.StatefulSet, Replicas: f.Replicas, Start: f.Start, Parallel: f.Parallel,
		Topology: f.Topology, Storage: StorageCluster,
		Interval: or(f.Data.Interval, Duration(100*time.Millisecond)), QuietRows: or(f.Data.QuietRows, 100),
		External: &External{
			Namespace: f.Namespace, Manifests: manifests, Container: f.Container, Port: f.Port, Secret: f.Secret,
			Command: f.Data.Command,
		},
	}
	clients := 1
	switch {
	case w.Multi(): // Each begins at another instance.
		clients = f.Replicas
	case w.Grouped(): // With one alone, two instances would never be seen to acknowledge at once.
		clients = 2
	}
	w.Clients = or(f.Data.Clients, clients)
	return w
}

// Put replaces the workload of a plan by that of f; manifests are the text of f.Manifests. The steps stay, so the
// plan's workload must have as many replicas, the same topology and no special options but those of a group. Its error
// is FieldErrors.
func (f WorkloadFile) Put(p Plan, manifests string) (Plan, error) {
	var errs FieldErrors
	if have, want := p.Workload.TopologyName(), f.workload("").TopologyName(); have != want {
		fix := "use " + strconv.Quote(have) + ", or a scenario that is not topology-*"
		if want != TopologySingle {
			fix = "use a scenario topology-" + want + "-*, or a plan of your own with that workload.topology"
		}
		errs.Add("topology", fix, "scenario %q is for topology %q, not for %q", p.Scenario, have, want)
	}
	if p.Workload.Grouped() { // What else it has is for databases of ours.
		p.Workload.Topology, p.Workload.Transactions, p.Workload.Transfers = "", 0, 0
	}
	special := SetFields(p.Workload)
	maps.DeleteFunc(special, func(name string, _ any) bool {
		return slices.Contains([]string{"name", "statefulSet", "replicas", "fileSystem", "volumeMiB", "clients",
			"interval", "quietRows"}, name)
	})
	if len(special) > 0 {
		errs.Add("scenario", "choose another, or write a plan of your own", "%q is about a workload with %s",
			p.Scenario, strings.Join(slices.Sorted(maps.Keys(special)), ", "))
	}
	if f.Replicas != p.Workload.Replicas {
		errs.Add("replicas", fmt.Sprintf("use %d, or another scenario", p.Workload.Replicas),
			"the steps of scenario %q are for %d, not for %d", p.Scenario, p.Workload.Replicas, f.Replicas)
	}
	p.Workload = f.workload(manifests)
	return p, errs.Err()
}

// external checks an external workload. At and data are the paths of its fields, which differ in plan and file.
func (v *validator) external(at, data string) {
	w := v.work
	x := w.External
	v.name(at+"statefulSet", w.StatefulSet)
	v.Range(at+"replicas", w.Replicas, 1, MaxReplicas)
	v.Range(at+"start", w.Start, 0, MaxOrdinal)
	v.topology(at, w)
	v.Range(data+"clients", w.Clients, 1, MaxClients)
	v.Range(data+"quietRows", w.QuietRows, 1, MaxRows/100) // Each is a call of the program.
	if w.Interval <= 0 || w.Interval.D() > time.Minute {
		v.Add(data+"interval", "use more than 0s, at most 1m0s", "%s is out of range", w.Interval)
	}
	if at != "" {
		at += "external."
		data = at
	}
	v.Range(at+"port", x.Port, 1, 65535)
	if x.Container != "" {
		v.label(at+"container", x.Container)
	}
	if x.Namespace != "" {
		v.label(at+"namespace", x.Namespace)
	}
	if x.Secret != nil {
		if len(validation.IsDNS1123Subdomain(x.Secret.Name)) > 0 {
			v.Add(at+"secret.name", "use the name of a Secret", "%q is not a name", x.Secret.Name)
		}
		user, password := x.Secret.Keys()
		for field, key := range map[string]string{"userKey": user, "passwordKey": password} {
			if len(validation.IsConfigMapKey(key)) > 0 {
				v.Add(at+"secret."+field, "use letters, digits, hyphens, dots and underscores", "%q is not a key", key)
			}
		}
	}
	v.command(data+"command", x.Command)
}

func (v *validator) command(at string, argv []string) {
	if len(argv) == 0 || argv[0] == "" {
		v.Add(at, "give a program and its arguments", "is missing")
	}
	for i, arg := range argv {
		if strings.ContainsRune(arg, 0) || len(arg) > maxDetail {
			v.Add(fmt.Sprintf("%s[%d]", at, i), "give text that a program can be given",
				"%d bytes, at most %d and no zero byte", len(arg), maxDetail)
		}
	}
}

// where checks that a StatefulSet either exists or comes from manifests.
func (v *validator) where(at, namespace, manifests string) {
	if (namespace == "") == (manifests == "") {
		v.Add(at, "name the namespace of a StatefulSet that is there, or give manifests",
			"is needed, or manifests, and not both")
	}
}

func (v *validator) label(at, name string) {
	if len(validation.IsDNS1123Label(name)) > 0 {
		v.Add(at, "use lower-case letters, digits and hyphens, at most 63", "%q is not a name", name)
	}
}

func (v *validator) externalPlan() {
	w := v.work
	if w.Name != ExternalName || w.External == nil {
		v.Add("workload.external", fmt.Sprintf("set it for workload.name %q, and for no other", ExternalName),
			"does not go with workload %q", w.Name)
		return
	}
	v.external("workload.", "workload.")
	v.where("workload.external.namespace", w.External.Namespace, w.External.Manifests)
	v.OneOf("workload.storage", "storage", w.Storage, StorageCluster)
	v.only("workload", w, []string{"name", "statefulSet", "replicas", "start", "parallel", "topology", "clients",
		"interval", "quietRows", "storage", "external"}, "is for workloads of Seatrial's own")
}

// spares refuses a step that would damage a workload that is not Seatrial's.
func (v *validator) spares(at string, s Step, k kind) {
	if v.work.External == nil {
		return
	}
	if !k.external {
		v.Add(at+".do", "leave the step out", "%q is done to workloads of Seatrial's own alone", s.Do)
	}
	if s.Fault == nil {
		return
	}
	if f := v.caps.fault(s.Fault.Name); f != nil && (slices.Contains(f.Takes, PartVolume) ||
		slices.Contains(f.Takes, PartClaim)) {
		v.Add(at+".fault.name", "choose another", "fault %q is one of volumes that Seatrial made", f.Name)
	}
}
