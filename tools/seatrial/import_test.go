package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/chaos/plan"
)

const manifests = "../../chaos/fault/chaosmesh/testdata/manifests/"

func TestManifestsAreImportedAndCanBeRun(t *testing.T) {
	var out, errs strings.Builder
	code := run(t.Context(), []string{
		"seatrial", "plan", "import", manifests + "container-kill.yaml", "--seed", "3", "-o", "json",
	}, &out, &errs)
	if code != exitPass {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	p, err := plan.Decode([]byte(out.String()))
	if err != nil || p.Seed != 3 || p.Steps[1].Fault.Name != "container-kill" {
		t.Errorf("got %+v, %v", p, err)
	}
	file := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(file, []byte(out.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	same, err := readPlan(file, 0)
	if err != nil || same.Steps[1].Fault.Params["container"] != "mysql" {
		t.Errorf("got %+v, %v", same, err)
	}
	direct, err := readPlan(manifests+"container-kill.yaml", 3)
	if err != nil || direct.Steps[1].Fault.Name != "container-kill" || direct.Seed != 3 {
		t.Errorf("got %+v, %v", direct, err)
	}
	if _, err := readPlan(file, 4); err == nil {
		t.Error("a plan is given another seed")
	}
}

// TestManifestsThatCannotBeCarriedOut exit with 254, name the field, and print no plan.
func TestManifestsThatCannotBeCarriedOut(t *testing.T) {
	for _, tc := range []struct{ change, to, want string }{
		{"mode: one", "mode: some", "manifests[0].spec.mode"},
		{"spec:", "spec:\n  surplus: 1", "manifests[0].spec.surplus"},
		{"app.kubernetes.io/name: mysql", "app: web", "manifests[0].spec.selector"},
		{"chaos-mesh.org/v1alpha1", "v1", "manifests[0].apiVersion"},
	} {
		data, err := os.ReadFile(manifests + "pod-kill.yaml")
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "bad.yaml")
		bad := strings.Replace(string(data), tc.change, tc.to, 1)
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, argv := range [][]string{{"plan", "import", file}, {"run", "--plan", file}} {
			var out, errs strings.Builder
			code := run(t.Context(), append([]string{"seatrial"}, argv...), &out, &errs)
			if code != exitArguments || !strings.Contains(errs.String(), tc.want) || out.Len() > 0 {
				t.Errorf("%v: exit code %d, want %s: %s%s", argv, code, tc.want, errs.String(), out.String())
			}
		}
	}
	if got := ask(t, "plan", "import", "/nowhere"); got.code != exitArguments {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
}
