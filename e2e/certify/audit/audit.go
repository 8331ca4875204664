// Package audit judges a cluster before an upgrade: today's trouble with volumes, budgets and nodes, and what the next
// minor version changes. It judges a Cluster that others have read, and never calls good what was not read. It is pure:
// no I/O, no clock.
package audit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
)

// Part is one thing that is read of a cluster. Each can be missing on its own.
type Part string

// The parts of a Cluster, named as RBAC names them where it does.
const (
	Attachments  Part = "volumeattachments"
	Budgets      Part = "poddisruptionbudgets"
	Certificate  Part = "certificate"
	Claims       Part = "persistentvolumeclaims"
	Classes      Part = "storageclasses"
	Drivers      Part = "csidrivers"
	Metrics      Part = "metrics"
	NodeData     Part = "node data"
	Nodes        Part = "nodes"
	Pods         Part = "pods"
	StatefulSets Part = "statefulsets"
	Volumes      Part = "persistentvolumes"
)

// Cluster is what was read of a cluster. Objects of different kinds are read one after the other, not at one moment.
type Cluster struct {
	Version string    // Of the API server: "v1.36.3".
	At      time.Time // When it was read, by the clock of the reader.

	Attachments  []storagev1.VolumeAttachment
	Budgets      []policyv1.PodDisruptionBudget
	Claims       []corev1.PersistentVolumeClaim
	Classes      []storagev1.StorageClass
	Drivers      []storagev1.CSIDriver
	Nodes        []corev1.Node
	Pods         []corev1.Pod
	StatefulSets []appsv1.StatefulSet
	Volumes      []corev1.PersistentVolume

	CertificateEnds time.Time       // Of the certificate that the address of the API server presents.
	Deprecated      []DeprecatedAPI // Asked for since the API server that answered started.
	Gates           map[string]bool // The feature gates of the API server that answered.
	OnNodes         []OnNode        // What only the nodes themselves show; empty if none was looked at.

	Missing map[Part]string // Why a part could not be read.
}

// DeprecatedAPI is a resource that somebody asks the API server for although it is deprecated.
type DeprecatedAPI struct {
	Group, Version, Resource, Subresource string
	Removed                               string // The minor version without it, "1.38"; empty when none is set.
}

// OnNode is what only a node itself shows.
type OnNode struct {
	Node            string
	Mounts          []Mount
	Gates           map[string]bool // The feature gates of the kubelet.
	CertificateEnds time.Time       // Of the kubelet's client; zero if it is not known.
	CgroupV1        bool            // The node has cgroup v1, or the hybrid of v1 and v2.
	CgroupV1Taken   bool            // KubeletConfig says that this does not keep the kubelet from starting.
}

// KubeletConfig is where kubeadm puts the configuration of a kubelet.
const KubeletConfig = "/var/lib/kubelet/config.yaml"

// Mount is one line of a node's mount table.
type Mount struct {
	Path   string
	Device string // "8:16". Mounts of one file system have one.
}

// Severity says how bad a finding is.
type Severity string

// The severities. Only Danger makes a verdict FAIL.
const (
	Danger  Severity = "danger"  // Data is at risk, or the upgrade cannot be carried out.
	Warning Severity = "warning" // Data is at risk once something else goes wrong.
	Note    Severity = "note"    // Worth reading.
)

// Object names an object of the cluster.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// Finding is one thing that a rule found.
type Finding struct {
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	What     string   `json:"what"`  // One sentence.
	Where    []Object `json:"where"` // The objects it is about, the one to look at first.
	Why      string   `json:"why"`   // Why it matters for data.
	Source   string   `json:"source"`
	Fix      string   `json:"fix"`
}

// Unseen is something that was not looked at.
type Unseen struct {
	Rule string `json:"rule"`
	Why  string `json:"why"`
}

// Report is what an audit says.
type Report struct {
	From     string        `json:"from"` // The version of the API server.
	To       string        `json:"to"`   // The minor version that the upgrade is to, "v1.37".
	Verdict  check.Verdict `json:"verdict"`
	Rules    []string      `json:"rules"` // All that were asked.
	Findings []Finding     `json:"findings"`
	Unseen   []Unseen      `json:"notLookedAt"`
}

// Rule is one thing to look for.
type Rule struct {
	Name   string
	Looks  string // What it finds, in one sentence.
	Why    string // Why it matters for data.
	Source string
	Fix    string
	Needs  []Part // Without any of them the rule is not asked.
	// Moving marks a rule that compares objects which do not change at one moment: on a busy cluster it can find what
	// is gone some seconds later.
	Moving bool
	find   func(*ruling)
}

// Rules returns all rules, in the order of the report.
func Rules() []Rule {
	return slices.Concat(attachmentRules(), budgetRules(), setRules(), nodeRules(), versionRules(), onNodeRules())
}

// ruling is one rule being asked.
type ruling struct {
	*state
	rule   Rule
	report *Report
}

func (r *ruling) found(s Severity, where []Object, format string, args ...any) {
	r.report.Findings = append(r.report.Findings, Finding{Rule: r.rule.Name, Severity: s, Where: where,
		What: fmt.Sprintf(format, args...), Why: r.rule.Why, Source: r.rule.Source, Fix: r.rule.Fix})
}

func (r *ruling) unseen(format string, args ...any) {
	r.report.Unseen = append(r.report.Unseen, Unseen{r.rule.Name, fmt.Sprintf(format, args...)})
}

// Audit asks all rules about a cluster and its upgrade.
func Audit(c Cluster, u Upgrade) Report {
	report := Report{From: c.Version, To: u.To(), Findings: []Finding{}, Unseen: []Unseen{}}
	s := newState(c, u)
	for _, rule := range Rules() {
		report.Rules = append(report.Rules, rule.Name)
		r := &ruling{s, rule, &report}
		missing := false
		for _, part := range rule.Needs {
			if why, ok := c.lacks(part); ok {
				missing = true
				r.unseen("%s: %s", part, why)
			}
		}
		if !missing {
			rule.find(r)
		}
	}
	slices.SortStableFunc(report.Findings, func(a, b Finding) int { return a.Severity.rank() - b.Severity.rank() })
	report.Verdict = report.Judge()
	return report
}

// lacks says why a part was not read.
func (c Cluster) lacks(p Part) (why string, lacks bool) {
	if why, lacks = c.Missing[p]; !lacks && p == NodeData && len(c.OnNodes) == 0 {
		return "the API does not show it, and no node was looked at", true
	}
	return why, lacks
}

func (s Severity) rank() int { return slices.Index([]Severity{Danger, Warning, Note}, s) }

// Judge derives the verdict from findings and what was not looked at: FAIL over UNKNOWN over PASS.
func (r *Report) Judge() check.Verdict {
	switch {
	case r.Count(Danger) > 0:
		return check.Fail
	case len(r.Unseen) > 0:
		return check.Unknown
	}
	return check.Pass
}

// Count returns how many findings have a severity.
func (r *Report) Count(s Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// Because says in one sentence how the verdict came about.
func (r *Report) Because() string {
	counts := fmt.Sprintf("%s, %s, %s, %d not looked at", plan.Count(r.Count(Danger), "danger"),
		plan.Count(r.Count(Warning), "warning"), plan.Count(r.Count(Note), "note"), len(r.Unseen))
	switch r.Verdict {
	case check.Fail:
		return "Data is at risk, or the upgrade cannot be carried out: " + counts + "."
	case check.Unknown:
		return "Nothing dangerous was found, but not everything could be looked at: " + counts + "."
	case check.Pass:
	}
	return "Nothing dangerous was found: " + counts + "."
}

// Moving reports whether there is a finding that a second audit, some seconds later, may not confirm.
func (r *Report) Moving() bool { return slices.ContainsFunc(r.Findings, Finding.moving) }

// Confirm returns the later of two reports without the findings of Moving rules that only the later one has.
func Confirm(earlier, later Report) Report {
	later.Findings = slices.DeleteFunc(slices.Clone(later.Findings), func(f Finding) bool {
		same := func(e Finding) bool { return e.Rule == f.Rule && slices.Equal(e.Where, f.Where) }
		return f.moving() && !slices.ContainsFunc(earlier.Findings, same)
	})
	later.Verdict = later.Judge()
	return later
}

func (f Finding) moving() bool {
	return slices.ContainsFunc(Rules(), func(r Rule) bool { return r.Name == f.Rule && r.Moving })
}

// names joins names, the first few of many.
func names(all []string) string {
	const most = 6
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
}

// sortedNames returns the names of some objects.
func sortedNames(objects []Object) []string {
	var all []string
	for _, o := range objects {
		all = append(all, o.String())
	}
	slices.Sort(all)
	return all
}
