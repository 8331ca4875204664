// Package twin says how a kind cluster is made like another cluster: what is copied, and what is not, with the reason.
// It is pure.
package twin

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/seatrial/seatrial/e2e/certify/audit"
	"github.com/seatrial/seatrial/e2e/world"
)

// Original is what was read of a cluster.
type Original struct {
	audit.Cluster
	Kubelets map[string]map[string]any // The configuration of kubelets, by node.
}

// Choice is what the user wants.
type Choice struct {
	Version    string   // One of Pinned; the patch nearest to the original's when empty.
	Pinned     []string // The versions that a kind cluster can have.
	Workers    int
	Namespaces []string // Those to copy StatefulSets and budgets of; all but Kubernetes' own when empty.
}

// Left is something that the twin does not have as the original has it.
type Left struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Twin is what the twin is made of.
type Twin struct {
	Version string                       `json:"version"`
	Workers int                          `json:"workers"`
	Scaled  []string                     `json:"scaled"`            // How version and shape differ.
	Flags   map[string]map[string]string `json:"flags,omitempty"`   // Of control plane components, by component.
	Kubelet map[string]any               `json:"kubelet,omitempty"` // Fields of the configuration of all kubelets.

	Driver       *storagev1.CSIDriverSpec       `json:"driver,omitempty"` // Flags of the CSI driver; nil without one.
	Classes      []storagev1.StorageClass       `json:"storageClasses"`
	StatefulSets []appsv1.StatefulSet           `json:"statefulSets"` // Their image is Light or Database.
	Budgets      []policyv1.PodDisruptionBudget `json:"podDisruptionBudgets"`

	Left []Left `json:"notCopied"`
}

// What stands in for an image of the original, until the images of the twin are known.
const (
	Light    = "light"    // A container that does nothing.
	Database = "database" // MySQL.
)

// The reasons for what is left out.
const (
	ownPlace   = "it is about hosts, files, addresses or load, or means something else in a kind cluster"
	ownMachine = "all nodes of the twin share one machine"
	ownProgram = "another program runs in its place"
	notRead    = "it may name Secrets or ConfigMaps, which are not read"
	notHere    = "the twin has no such nodes and objects"
	ownDisks   = "volumes of the twin are disks of Seatrial's CSI driver"
)

// flags are the flags that mean the same in a kind cluster. Those of paths, addresses, sizes of the cluster and load
// are not among them.
func flags() map[string][]string {
	return map[string][]string{
		"kube-apiserver": {"default-not-ready-toleration-seconds", "default-unreachable-toleration-seconds",
			audit.GatesFlag, "request-timeout", "runtime-config"},
		"kube-controller-manager": {"attach-detach-reconcile-sync-period", "concurrent-statefulset-syncs",
			"disable-attach-detach-reconcile-sync", "disable-force-detach-on-timeout", audit.GatesFlag,
			"node-eviction-rate", "node-monitor-grace-period", "node-monitor-period", "node-startup-grace-period",
			"pvclaimbinder-sync-period", "terminated-pod-gc-threshold", "unhealthy-zone-threshold"},
		"kube-scheduler": {audit.GatesFlag},
	}
}

// kubeletFields are the fields of KubeletConfiguration that mean the same in a kind cluster.
func kubeletFields() []string {
	return []string{"featureGates", "maxParallelImagePulls", "maxPods", "nodeLeaseDurationSeconds",
		"nodeStatusReportFrequency", "nodeStatusUpdateFrequency", "serializeImagePulls", "shutdownGracePeriod",
		"shutdownGracePeriodCriticalPods", "syncFrequency", "volumeStatsAggPeriod"}
}

// maker is a twin in the making.
type maker struct {
	Original
	Twin
}

func (m *maker) left(why, format string, args ...any) {
	m.Left = append(m.Left, Left{fmt.Sprintf(format, args...), why})
}

// Make says what the twin of a cluster is made of. An error is one of the choice.
func Make(o Original, c Choice) (Twin, error) {
	m := &maker{o, Twin{Version: c.Version, Workers: c.Workers, Scaled: []string{}}}
	if err := m.shape(c.Pinned); err != nil {
		return m.Twin, err
	}
	for _, part := range []audit.Part{audit.Budgets, audit.Classes, audit.Drivers, audit.Nodes, audit.Pods,
		audit.StatefulSets} {
		if why := o.Missing[part]; why != "" {
			m.left("it could not be read: "+why, "%s", part)
		}
	}
	m.settings()
	if err := m.objects(c.Namespaces); err != nil {
		return m.Twin, err
	}
	m.left("only StatefulSets, PodDisruptionBudgets and StorageClasses are copied, and Secrets are never read",
		"Secrets, ConfigMaps, Services, Deployments, DaemonSets, Jobs, webhooks, quotas, custom resources, data")
	return m.Twin, nil
}

// shape chooses version and nodes.
func (m *maker) shape(pinned []string) error {
	is, err := version.ParseGeneric(m.Original.Version)
	if err != nil {
		return fmt.Errorf("the API server says that it is version %q, which is none", m.Original.Version)
	}
	nearest := func(a, b string) int { return patchesFrom(is, a) - patchesFrom(is, b) }
	same := slices.DeleteFunc(slices.Clone(pinned), func(v string) bool { return patchesFrom(is, v) < 0 })
	if m.Twin.Version == "" {
		if len(same) == 0 {
			return fmt.Errorf("no version of v%d.%d is pinned, pinned are %s; in the source tree, `seatrial versions "+
				"add` pins one", is.Major(), is.Minor(), strings.Join(pinned, ", "))
		}
		m.Twin.Version = slices.MinFunc(same, nearest)
	}
	const workers = 20
	if m.Workers < 1 || m.Workers > workers {
		return fmt.Errorf("%d workers: give 1 to %d", m.Workers, workers)
	}
	if m.Twin.Version != m.Original.Version {
		m.Scaled = append(m.Scaled, fmt.Sprintf("version: %s (there: %s)", m.Twin.Version, m.Original.Version))
	}
	planes := 0
	for _, n := range m.Nodes {
		if world.IsControlPlane(n.Labels) {
			planes++
		}
	}
	if planes != 1 || len(m.Nodes)-planes != m.Workers {
		m.Scaled = append(m.Scaled, fmt.Sprintf("nodes: 1 of the control plane and %d workers (there: %d and %d)",
			m.Workers, planes, len(m.Nodes)-planes))
	}
	return nil
}

// patchesFrom returns how many patches lie between two versions of one minor, and -1 for another minor.
func patchesFrom(is *version.Version, v string) int {
	other, err := version.ParseGeneric(v)
	if err != nil || other.Major() != is.Major() || other.Minor() != is.Minor() {
		return -1
	}
	return max(int(other.Patch())-int(is.Patch()), int(is.Patch())-int(other.Patch()))
}

// settings copies flags and fields of kubelets.
func (m *maker) settings() {
	copied := flags()
	for _, component := range slices.Sorted(maps.Keys(copied)) {
		pods := m.Component(component)
		if len(pods) == 0 {
			m.left("it has no pod in kube-system", "flags of %s", component)
			continue
		}
		for name, value := range audit.Flags(pods[0]) {
			if !slices.Contains(copied[component], name) || value == "" {
				continue
			}
			if m.Flags == nil {
				m.Flags = map[string]map[string]string{}
			}
			if m.Flags[component] == nil {
				m.Flags[component] = map[string]string{}
			}
			m.Flags[component][name] = value
		}
		for _, p := range pods[1:] {
			if d := differing(audit.Flags(pods[0]), audit.Flags(p), copied[component]); len(d) > 0 {
				m.left("the flags of "+pods[0].Name+" are copied", "other flags of %s: %s", p.Name,
					strings.Join(d, ", "))
			}
		}
	}
	model := m.model()
	if model == "" {
		m.left("the configuration of no kubelet could be read", "settings of kubelets")
		return
	}
	m.Kubelet = map[string]any{}
	for _, field := range kubeletFields() {
		if value, ok := m.Kubelets[model][field]; ok {
			m.Kubelet[field] = value
		}
	}
	for _, node := range slices.Sorted(maps.Keys(m.Kubelets)) {
		if d := differing(m.Kubelets[model], m.Kubelets[node], kubeletFields()); len(d) > 0 {
			m.left("the kubelet of node "+model+" is copied", "other settings of the kubelet of node %s: %s", node,
				strings.Join(d, ", "))
		}
	}
	if unread := len(m.Nodes) - len(m.Kubelets); unread > 0 {
		m.left("not all are asked", "settings of %d kubelets", unread)
	}
}

// model returns the node whose kubelet is copied: the first worker that was asked.
func (o Original) model() string {
	first := ""
	for _, n := range o.Nodes {
		if o.Kubelets[n.Name] == nil {
			continue
		}
		if !world.IsControlPlane(n.Labels) {
			return n.Name
		}
		if first == "" {
			first = n.Name
		}
	}
	return first
}

// Differences returns how a twin that was made differs in flags, feature gates and settings of kubelets.
func Differences(o, t Original) []Left {
	m := &maker{Original: o}
	for _, component := range slices.Concat(slices.Sorted(maps.Keys(flags())), []string{"etcd"}) {
		there, here := o.Component(component), t.Component(component)
		if len(there) == 0 || len(here) == 0 {
			continue
		}
		a, b := audit.Flags(there[0]), audit.Flags(here[0])
		var only, other []string
		for _, name := range slices.Sorted(maps.Keys(a)) {
			switch value, has := b[name]; {
			case !has && a[name] != "":
				only = append(only, fmt.Sprintf("--%s=%s", name, a[name]))
			case has && value != a[name]:
				other = append(other, "--"+name)
			}
		}
		if len(only) > 0 {
			m.left(ownPlace, "%s: %s", component, strings.Join(only, " "))
		}
		if len(other) > 0 {
			m.left("the twin has other values: "+ownPlace, "%s: %s", component, strings.Join(other, ", "))
		}
	}
	for _, gate := range slices.Sorted(maps.Keys(o.Gates)) {
		if on, known := t.Gates[gate]; known && on != o.Gates[gate] {
			m.left("no visible flag sets it there, or the versions differ", "feature gate %s of the API server: %t "+
				"there, %t in the twin", gate, o.Gates[gate], on)
		}
	}
	a, b := o.Kubelets[o.model()], t.Kubelets[t.model()]
	if a == nil || b == nil {
		return m.Left
	}
	for _, field := range differing(a, b, nil) {
		if field == "providerID" { // It names the node.
			continue
		}
		m.left(ownPlace, "kubelet: %s: %s there, %s in the twin", field, text(a[field]), text(b[field]))
	}
	return m.Left
}

// differing returns the keys with different values, of the given ones or of all.
func differing[V any](a, b map[string]V, among []string) []string {
	both := maps.Clone(a)
	maps.Copy(both, b)
	var all []string
	for _, key := range slices.Sorted(maps.Keys(both)) {
		if (among == nil || slices.Contains(among, key)) && text(a[key]) != text(b[key]) {
			all = append(all, key)
		}
	}
	return all
}

// text renders a value; nothing, false, zero and empty are one, as the API's defaults leave them out.
func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	switch s := string(data); s {
	case "null", "false", "0", `""`, `"0s"`, "{}", "[]":
		return "none"
	default:
		return s
	}
}
