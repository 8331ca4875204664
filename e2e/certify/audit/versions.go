package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// versionRules look at versions, and at what the next one changes.
func versionRules() []Rule {
	return []Rule{
		{
			Name:   "version-skew",
			Looks:  "a kubelet or component is newer than the API server, or too old for it or for the target",
			Why:    "a component outside the supported range may ignore an attachment, a finalizer or a budget",
			Source: "Version Skew Policy (releases/version-skew-policy/)",
			Fix:    "upgrade the component first, or to a version within the range",
			Needs:  []Part{Nodes, Pods},
			find:   versionSkew,
		},
		{
			Name:  "deprecated-apis",
			Looks: "a client uses a deprecated API, by apiserver_requested_deprecated_apis",
			Why: "an operator or backup tool whose API is gone stops working, often silently; failover and " +
				"backups stop too",
			Source: "KEP-1693; Deprecated API Migration Guide (docs/reference/using-api/deprecation-guide/)",
			Fix:    "find the client in the API server's audit log (annotation k8s.io/deprecated) and upgrade it first",
			Needs:  []Part{Metrics, Pods},
			find:   deprecatedAPIs,
		},
		{
			Name:  "feature-gates",
			Looks: "feature gates that change their default or are locked between the two versions",
			Why: "one manifest behaves differently after the upgrade: pods down at once, how a volume is mounted, " +
				"what is killed",
			Source: "Feature Gates (docs/reference/command-line-tools-reference/feature-gates/); " +
				"test/compatibility_lifecycle/reference/versioned_feature_list.yaml of v1.37.0",
			Fix: "read about each gate and try the upgrade on a copy of the cluster; remove locked gates from " +
				"command lines, or the component does not start",
			Needs: []Part{Claims, Drivers, Metrics, Pods, StatefulSets, Volumes},
			find:  featureGates,
		},
	}
}

// mostBehind is how many minor versions a kubelet or kube-proxy may be older than the API server.
const mostBehind = 3

func versionSkew(r *ruling) {
	for node := range each(r.Nodes) {
		kubelet := node.Status.NodeInfo.KubeletVersion
		judgeSkew(r, object("Node", node), "kubelet of node "+node.Name, kubelet, mostBehind)
	}
	for _, name := range []string{"kube-controller-manager", "kube-proxy", "kube-scheduler"} {
		behind := 1
		if name == "kube-proxy" {
			behind = mostBehind
		}
		pods := r.Component(name)
		if len(pods) == 0 {
			r.unseen("%s has no pod in kube-system: its version is not visible", name)
		}
		for _, p := range pods {
			judgeSkew(r, object("Pod", p), p.Name, imageVersion(p), behind)
		}
	}
}

// judgeSkew finds a component of a version that the API server, today's or the target's, cannot work with.
func judgeSkew(r *ruling, where Object, what, version string, behind int) {
	have, err := minor(version)
	if err != nil {
		r.unseen("%s: its version is not known: %v", what, err)
		return
	}
	switch api := r.upgrade.from; {
	case have > api:
		r.found(Danger, []Object{where}, "%s is %s, newer than the API server (%s)", what, version, r.Version)
	case api-have > behind:
		r.found(Danger, []Object{where}, "%s is %s, more than %d minor versions behind the API server (%s)",
			what, version, behind, r.Version)
	case r.upgrade.to-have > behind && behind > 1: // The control plane is upgraded as one.
		r.found(Danger, []Object{where}, "%s is %s, more than %d minor versions behind the target (%s)",
			what, version, behind, r.upgrade.To())
	}
}

func deprecatedAPIs(r *ruling) {
	if n := len(r.Component("kube-apiserver")); n != 1 {
		r.unseen("%d API servers have a pod in kube-system; the metrics are those of the one that answered", n)
	}
	for _, d := range r.Deprecated {
		name := strings.Trim(d.Group+"/"+d.Version, "/") + " " + d.Resource
		if d.Subresource != "" {
			name += "/" + d.Subresource
		}
		where := []Object{{Kind: "API", Name: name}}
		if d.Removed == "" {
			r.found(Note, where, "%s is asked for; it is deprecated, and no version without it is set", name)
			continue
		}
		gone, err := minor(d.Removed)
		switch {
		case err != nil:
			r.unseen("%s is asked for; it is deprecated, and gone in %q, which is no version", name, d.Removed)
		case gone <= r.upgrade.to:
			r.found(Danger, where, "%s is asked for, and is gone in v%s", name, d.Removed)
		default:
			r.found(Warning, where, "%s is asked for, and will be gone in v%s", name, d.Removed)
		}
	}
}

func featureGates(r *ruling) {
	changes, err := changesOf(r.upgrade)
	if err != nil {
		r.unseen("%v", err)
		return
	}
	concerns := concerned()
	set := r.setGates()
	var rest []string
	for _, c := range changes {
		concernsWhat, known := concerns[c.Gate]
		var where []Object
		if known {
			where = concernsWhat.objects(r.state)
		}
		for _, s := range set[c.Gate] {
			if c.Locked && s.enabled != c.Default {
				r.found(Danger, []Object{s.where}, "%s has feature gate %s set to %t; %s locks it to %t, and the "+
					"component "+
					"does not start with it", s.what, c.Gate, s.enabled, r.upgrade.To(), c.Default)
			}
		}
		apiServer, measured := r.Gates[c.Gate]
		switch {
		case measured && apiServer == c.Default || c.Change == changeLock:
			// It is already as it will be.
		case len(where) > 0:
			r.found(Warning, where, "feature gate %s becomes %t by default in %s: %s; this concerns %s",
				c.Gate, c.Default, r.upgrade.To(), concernsWhat.effect, names(sortedNames(where)))
		default:
			rest = append(rest, fmt.Sprintf("%s=%t", c.Gate, c.Default))
		}
	}
	if len(rest) > 0 {
		r.found(Note, []Object{}, "%d more feature gates change what they are by default in %s; none is known to "+
			"concern "+
			"StatefulSets, claims or volumes of this cluster: %s", len(rest), r.upgrade.To(), strings.Join(rest, ", "))
	}
}

// setGate is a gate that a component has been given.
type setGate struct {
	where   Object
	what    string
	enabled bool
}

// setGates returns the gates that the control plane's command lines set, and what the API server measured by itself
// where it has no visible pod.
func (s *state) setGates() map[string][]setGate {
	set := map[string][]setGate{}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		for _, p := range s.Component(name) {
			value := Flags(p)[GatesFlag]
			for pair := range strings.SplitSeq(value, ",") {
				if gate, on, ok := strings.Cut(strings.TrimSpace(pair), "="); ok {
					set[gate] = append(set[gate], setGate{object("Pod", p), p.Name, strings.EqualFold(on, "true")})
				}
			}
		}
	}
	if len(s.Component("kube-apiserver")) == 0 {
		for _, gate := range slices.Sorted(maps.Keys(s.Gates)) {
			where := Object{Kind: "API server", Name: s.Version}
			set[gate] = append(set[gate], setGate{where, "the API server", s.Gates[gate]})
		}
	}
	return set
}

// Upgrade is from one minor version of Kubernetes 1 to the next, or within one.
type Upgrade struct {
	from, to int // Minor versions.
}

// To returns the version that the upgrade is to, "v1.37".
func (u Upgrade) To() string { return fmt.Sprintf("v1.%d", u.to) }

// ParseUpgrade returns the upgrade of an API server of version from to version to, "v1.37". An empty to is the next
// minor version, known or not; what an unknown one changes is not audited.
func ParseUpgrade(from, to string) (Upgrade, error) {
	have, err := minor(from)
	if err != nil {
		return Upgrade{}, fmt.Errorf("the API server's version: %w", err)
	}
	if to == "" {
		return Upgrade{have, have + 1}, nil
	}
	want, err := ParseTarget(to)
	switch {
	case err != nil:
		return Upgrade{}, err
	case want < have:
		return Upgrade{}, fmt.Errorf("%q is a downgrade of %s; give v1.%d", to, from, have+1)
	case want > have+1:
		return Upgrade{}, fmt.Errorf("%q skips a minor version of %s, which no upgrade may; give "+
			"v1.%d", to, from, have+1)
	}
	return Upgrade{have, want}, nil
}

// ParseTarget returns the minor version of a version that an upgrade can be to.
func ParseTarget(to string) (int, error) {
	want, err := minor(to)
	if err != nil {
		return 0, fmt.Errorf("%w; give for example v1.%d", err, newestMinor)
	}
	if want <= oldestMinor || want > newestMinor {
		return 0, fmt.Errorf("version %q is not known; known are v1.%d to v1.%d", to, oldestMinor+1, newestMinor)
	}
	return want, nil
}

// minor returns the minor version of a version of Kubernetes 1.
func minor(text string) (int, error) {
	v, err := version.ParseGeneric(text)
	if err != nil {
		return 0, fmt.Errorf("%q is no version: %w", text, err)
	}
	if v.Major() != 1 {
		return 0, fmt.Errorf("%q is no version of Kubernetes 1", text)
	}
	return int(v.Minor()), nil
}
