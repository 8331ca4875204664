package trial

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/seatrial/seatrial/chaos/plan"
)

// The role of a plan has what its faults need and no verb that only others need; nothing is a wildcard.
func TestRoleOfAPlan(t *testing.T) {
	for name, tc := range map[string]struct {
		faults      []string
		external    bool
		with, never []string
	}{
		"own workload": {nil, false, []string{
			"create pods/exec", "create statefulsets", "update leases", "delete leases", "deletecollection pods",
			"deletecollection persistentvolumeclaims",
		}, []string{
			"delete nodes", "update nodes", "create pods/eviction", "get secrets", "get nodes/proxy",
			"patch statefulsets", "patch statefulsets/scale", "delete persistentvolumeclaims",
			"create poddisruptionbudgets", "delete services", "update persistentvolumes",
		}},
		"claim-delete": {[]string{"claim-delete"}, false, []string{"delete persistentvolumeclaims"}, nil},
		"node-delete":  {[]string{"node-delete"}, false, []string{"delete nodes"}, []string{"update nodes"}},
		"drain": {
			[]string{"drain"}, false, []string{"update nodes", "patch nodes", "create pods/eviction"},
			[]string{"delete nodes"},
		},
		"pod-quota": {[]string{"pod-quota"}, false, []string{"delete resourcequotas"}, []string{"patch nodes"}},
		"a StatefulSet that is there": {[]string{"kubelet-kill"}, true, []string{"get secrets", "list statefulsets"},
			[]string{
				"create statefulsets", "create storageclasses", "create services", "delete statefulsets",
				"update statefulsets", "deletecollection pods",
			}},
	} {
		t.Run(name, func(t *testing.T) {
			p := plan.Plan{Scenario: "s"}
			if tc.external {
				p.Workload.External = &plan.External{Namespace: "shop", Secret: &plan.SecretRef{}}
			}
			for i, f := range tc.faults {
				p.Steps = append(p.Steps, plan.Step{N: i + 1, Do: plan.ActionFault, Fault: &plan.Fault{Name: f}})
			}
			var text bytes.Buffer
			if err := WriteRole(&text, AllParts(), p); err != nil {
				t.Fatal(err)
			}
			var role rbacv1.ClusterRole
			if err := yaml.UnmarshalStrict(text.Bytes(), &role); err != nil {
				t.Fatal(err)
			}
			var allowed []string
			for _, r := range role.Rules {
				for _, v := range r.Verbs {
					allowed = append(allowed, v+" "+r.Resources[0])
				}
			}
			if strings.Contains(strings.Join(allowed, " "), "*") {
				t.Errorf("a wildcard: %q", allowed)
			}
			for _, want := range tc.with {
				if !slices.Contains(allowed, want) {
					t.Errorf("%q is missing", want)
				}
			}
			for _, not := range tc.never {
				if slices.Contains(allowed, not) {
					t.Errorf("%q is allowed", not)
				}
			}
			if strings.Count(text.String(), "\n# ") < len(role.Rules) {
				t.Error("a rule has no reason")
			}
		})
	}
}
