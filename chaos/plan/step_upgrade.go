package plan

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// Upgrade brings one node to another version of Kubernetes, in place, by kubeadm: of the control plane its components
// and then its kubelet, of a worker its kubelet. The node is drained before its kubelet is replaced.
type Upgrade struct {
	To string `json:"to"` // "v1.37.0".
	// Node is UpgradeControlPlane, or "worker-1" and so on, in the order of the nodes' names.
	Node string `json:"node"`
	// Undrained leaves the pods on the node, which nobody should do.
	Undrained bool `json:"undrained,omitempty"`
}

// UpgradeControlPlane is the node of the control plane, the first one where there are more.
const UpgradeControlPlane = "control-plane"

// NeedUpgrade is what a cluster must be able to do for an upgrade (clusters.CanUpgrade).
const NeedUpgrade = "upgrade"

// Worker returns which worker it is about, from 1 on; 0 is the control plane, and ok is false for another name.
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
	seen := map[string]bool{}
	for _, s := range p.AllSteps() {
		if s.Upgrade != nil && !seen[s.Upgrade.To] {
			seen[s.Upgrade.To] = true
			all = append(all, s.Upgrade.To)
		}
	}
	return all
}

// upgradeKinds is the step that upgrades a node.
func upgradeKinds() []kind {
	return []kind{{do: ActionUpgrade, field: "upgrade",
		check: func(v *validator, at string, s Step, _ depth) { v.upgrade(at+".upgrade", s) },
		says: func(_ Plan, s Step) string {
			how := "drained"
			if s.Upgrade.Undrained {
				how = "not drained"
			}
			return fmt.Sprintf("%s to %s, %s, by kubeadm", s.Upgrade.Node, s.Upgrade.To, how)
		}}}
}

// upgrade checks a step that upgrades a node: the version must be a later patch, or one minor version later.
func (v *validator) upgrade(at string, s Step) {
	if why, ok := v.caps.Cannot[NeedUpgrade]; ok {
		v.Add(at, "use a kind cluster that the run makes", "an upgrade needs %q, which is not to be had here: %s",
			NeedUpgrade, why)
	}
	if n, ok := s.Upgrade.Worker(); !ok || n > v.plan.Workers {
		v.Add(at+".node", fmt.Sprintf("use %q, or %q to %q", UpgradeControlPlane, "worker-1",
			fmt.Sprintf("worker-%d", v.plan.Workers)), "there is no node %q", s.Upgrade.Node)
	}
	if v.plan.Kubernetes == "" {
		v.Add("kubernetes", "set it, for example to \"v1.36.3\"", "is missing, and steps[] upgrade from it")
		return
	}
	before := v.plan.Kubernetes
	for _, earlier := range v.plan.AllSteps() {
		if earlier.N < s.N && earlier.Upgrade != nil && earlier.Upgrade.Node == s.Upgrade.Node {
			before = earlier.Upgrade.To
		}
	}
	from, to := v.version("kubernetes", before), v.version(at+".to", s.Upgrade.To)
	switch {
	case from == nil || to == nil:
	case !from.LessThan(to):
		v.Add(at+".to", "use a later version", "%s is not later than %s, which %s has then", s.Upgrade.To, before,
			s.Upgrade.Node)
	case to.Major() != from.Major() || to.Minor() > from.Minor()+1:
		v.Add(at+".to", "upgrade to each minor version in between first", "%s skips a minor version after %s",
			s.Upgrade.To, before)
	}
}

// version reads a version of Kubernetes, and adds an error where it is none.
func (v *validator) version(at, text string) *version.Version {
	parsed, err := version.ParseSemantic(text)
	if err != nil || "v"+parsed.String() != text {
		v.Add(at, "write it like v1.37.0", "%q is no version of Kubernetes", text)
		return nil
	}
	return parsed
}
