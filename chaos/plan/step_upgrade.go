package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
)

// Upgrade brings one node to another version of Kubernetes, in place, by kubeadm: of the control plane its components
// and then its kubelet, of a worker its kubelet. The node is drained before its kubelet is replaced.
type Upgrade struct {
	To string `json:"to"` // "v1.37.0".
	// Node is UpgradeControlPlane, or "worker-1" and so on, in the order of the nodes' names.
	Node string `json:"node,omitempty"`
	// Ordinal is instead of Node: the node that runs the pod when the step begins, as of a fault's victim.
	Ordinal *int `json:"ordinal,omitempty"`
	// Undrained leaves the pods on the node, which nobody should do.
	Undrained bool `json:"undrained,omitempty"`
	// Replaced makes a worker a new node instead of upgrading it in place: its Node is deleted, kubeadm reset takes
	// everything of Kubernetes off it, and it joins with the new version. What is on its disks stays.
	Replaced bool `json:"replaced,omitempty"`
	// Back takes the control plane back to the version before once it is upgraded, and before its kubelet is: first the
	// new API server emulates that version, then scheduler, controller manager and API server are replaced. etcd stays.
	Back bool `json:"back,omitempty"`
	// At is the part of the upgrade that the steps During it begin with, one of Parts.
	At string `json:"at,omitempty"`
	// Timeouts are timeouts of kubeadm that are not its defaults, by their names in UpgradeTimeouts. kubeadm upgrade
	// apply gets them.
	Timeouts map[string]Duration `json:"timeouts,omitempty"`
}

// UpgradeTimeouts returns the timeouts of kubeadm that a plan can set: Timeouts of its UpgradeConfiguration
// (kubeadm.k8s.io/v1beta4).
func UpgradeTimeouts() []string { return []string{"etcdAPICall", "upgradeManifests"} }

// UpgradeControlPlane is the node of the control plane, the first one where there are more.
const UpgradeControlPlane = "control-plane"

// Parts returns the parts of the upgrade that other steps can begin with, in their order. They are parts of
// history.Upgrade.
func (u Upgrade) Parts() []string {
	switch {
	case u.Back:
		return []string{"plan", "apply", "emulate", "back"}
	case u.Node == UpgradeControlPlane:
		return []string{"plan", "apply", "drain", "kubelet", "ready"}
	case u.Replaced:
		return []string{"drain", "kubelet", "ready"}
	case u.Undrained:
		return []string{"node", "kubelet", "ready"}
	}
	return []string{"node", "drain", "kubelet", "ready"}
}

// Upgraded names the node that an upgrade is of, as "worker-1" or "the node of mysql-0".
func (p Plan) Upgraded(u Upgrade) string {
	if u.Ordinal != nil {
		return "the node of " + p.Workload.pod(*u.Ordinal)
	}
	return u.Node
}

// NeedUpgrade is what a cluster must be able to do for an upgrade (clusters.CanUpgrade).
const NeedUpgrade = "upgrade"

// Worker returns which worker Node is, from 1 on; 0 is the control plane, and ok is false for another name.
func (u Upgrade) Worker() (n int, ok bool) {
	if u.Node == UpgradeControlPlane {
		return 0, true
	}
	number, ok := strings.CutPrefix(u.Node, "worker-")
	n, err := strconv.Atoi(number)
	return n, ok && err == nil && n > 0 && strconv.Itoa(n) == number
}

// Upgrades returns the versions that the plan's steps upgrade to, each once, in their order.
func (p Plan) Upgrades() []string {
	var all []string
	for _, s := range p.AllSteps() {
		if s.Upgrade != nil && !slices.Contains(all, s.Upgrade.To) {
			all = append(all, s.Upgrade.To)
		}
	}
	return all
}

// describeUpgrade says which node is upgraded to what, and how.
func (p Plan) describeUpgrade(s Step) string {
	how := "drained"
	switch {
	case s.Upgrade.Undrained:
		how = "not drained"
	case s.Upgrade.Replaced:
		how += ", reset and joined again"
	case s.Upgrade.Back:
		how = "and back"
	}
	text := fmt.Sprintf("%s to %s, %s, by kubeadm", p.Upgraded(*s.Upgrade), s.Upgrade.To, how)
	for _, name := range slices.Sorted(maps.Keys(s.Upgrade.Timeouts)) {
		text += fmt.Sprintf(", %s %s", name, s.Upgrade.Timeouts[name].D())
	}
	if len(s.During) > 0 {
		text += fmt.Sprintf("; from part %q on:", s.Upgrade.At)
	}
	return text
}

// upgrade checks a step that upgrades a node, and what is done meanwhile.
func (v *validator) upgrade(step string, s Step, in depth) {
	at, u := step+".upgrade", *s.Upgrade
	if why, ok := v.caps.Cannot[NeedUpgrade]; ok {
		v.Add(at, "use a kind cluster that the run makes", "an upgrade needs %q, which is not to be had here: %s",
			NeedUpgrade, why)
	}
	v.upgraded(at, u)
	v.upgradeTo(at, s)
	switch control := u.Node == UpgradeControlPlane; {
	case u.Replaced && (control || u.Undrained):
		v.Add(at+".replaced", "leave it out", "only a worker that is drained can be replaced")
	case u.Back && (!control || u.Undrained):
		v.Add(at+".back", "leave it out", "only the control plane is taken back, which needs no drain")
	}
	switch {
	case len(s.During) > 0:
		v.OneOf(at+".at", "part of this upgrade", u.At, u.Parts()...)
	case u.At != "":
		v.Add(at+".at", "leave it out, or set during", "nothing begins with it")
	}
	for _, name := range slices.Sorted(maps.Keys(u.Timeouts)) {
		switch v.OneOf(at+".timeouts", "timeout of kubeadm", name, UpgradeTimeouts()...); {
		case u.Node != UpgradeControlPlane:
			v.Add(at+".timeouts", "leave it out", "only the upgrade of the control plane has timeouts")
		case u.Timeouts[name] < Duration(time.Second):
			v.Add(at+".timeouts."+name, "use at least 1s", "is %s", u.Timeouts[name].D())
		}
	}
	if v.tooDeep(step+".during", in, s.During) {
		return
	}
	for _, within := range flatten(nil, s.During) {
		f := within.Fault
		if f == nil || u.Node != UpgradeControlPlane {
			continue
		}
		if known := v.caps.fault(f.Name); known != nil && known.Manifest {
			v.Add(step+".during", "choose another fault", "fault %q of step %d puts a manifest back as it was, over "+
				"that of kubeadm", f.Name, within.N)
		}
	}
	v.steps(step+".during", s.During, in.step())
}

// upgraded checks which node it is that is upgraded.
func (v *validator) upgraded(at string, u Upgrade) {
	switch n, ok := u.Worker(); {
	case u.Ordinal != nil && u.Node != "":
		v.Add(at+".ordinal", "leave one of them out", "is set beside node")
	case u.Ordinal != nil:
		v.ordinal(at+".ordinal", *u.Ordinal)
	case !ok || n > v.plan.Workers:
		v.Add(at+".node", fmt.Sprintf("use %q, %q to %q, or ordinal", UpgradeControlPlane, "worker-1",
			fmt.Sprintf("worker-%d", v.plan.Workers)), "there is no node %q", u.Node)
	}
}

// upgradeTo checks the version: it must be later, and not too much.
func (v *validator) upgradeTo(at string, s Step) {
	if v.plan.Kubernetes == "" {
		v.Add("kubernetes", "set it, for example to \"v1.36.3\"", "is missing, and steps[] upgrade from it")
		return
	}
	before, where := v.plan.Kubernetes, v.plan.Upgraded(*s.Upgrade)
	for _, earlier := range v.plan.AllSteps() {
		u := earlier.Upgrade
		if earlier.N < s.N && u != nil && !u.Back && v.plan.Upgraded(*u) == where {
			before = u.To
		}
	}
	if !v.version("kubernetes", before) || !v.version(at+".to", s.Upgrade.To) {
		return
	}
	minors := MinorsInPlace
	if s.Upgrade.Replaced {
		minors = MinorsReplaced
	}
	if why, fix := UpgradeRefused(before, s.Upgrade.To, minors); why != "" {
		v.Add(at+".to", fix, "%s, which %s has then", why, where)
	}
}

// How many minor versions later the next version may be. kubeadm takes a node to the next one (Kubernetes
// documentation, Upgrading kubeadm clusters); a kubelet may be three behind the API server (Version Skew Policy), so a
// new node may take the place of one that is.
const (
	MinorsInPlace  uint = 1
	MinorsReplaced uint = 3
)

// UpgradeRefused says why one version is not upgraded to another, and what to do; why is empty when it can be: to a
// later patch, or to a version at most that many minor versions later.
func UpgradeRefused(from, to string, minors uint) (why, fix string) {
	for _, text := range []string{from, to} {
		if _, ok := semantic(text); !ok {
			return fmt.Sprintf(noVersion, text), likeVersion
		}
	}
	f, _ := semantic(from)
	t, _ := semantic(to)
	switch {
	case !f.LessThan(t):
		return fmt.Sprintf("%s is not later than %s", to, from), "use a later version"
	case t.Major() != f.Major() || t.Minor() > f.Minor()+minors:
		return fmt.Sprintf("%s is too many minor versions after %s, at most %d are allowed", to, from,
			minors), "upgrade to a version in between first"
	}
	return "", ""
}

const (
	likeVersion = "write it like v1.37.0"
	noVersion   = "%q is no version of Kubernetes"
)

// NoVersion says why a text is no version of Kubernetes, and what to do; it is empty for one that is.
func NoVersion(text string) string {
	if _, ok := semantic(text); ok {
		return ""
	}
	return fmt.Sprintf(noVersion, text) + "; " + likeVersion
}

func semantic(text string) (*version.Version, bool) {
	parsed, err := version.ParseSemantic(text)
	return parsed, err == nil && "v"+parsed.String() == text
}

// version adds an error where a text is no version of Kubernetes.
func (v *validator) version(at, text string) bool {
	_, ok := semantic(text)
	if !ok {
		v.Add(at, likeVersion, noVersion, text)
	}
	return ok
}
