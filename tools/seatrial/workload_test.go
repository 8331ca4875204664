package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/trial"
)

// workloadFields is a legal workload file: its fields in JSON, which is YAML, by their paths.
func workloadFields() [][2]string {
	return [][2]string{
		{"namespace", `"shop"`}, {"statefulSet", `"db"`}, {"replicas", `3`}, {"start", `0`}, {"parallel", `false`},
		{"topology", `"single"`},
		{"container", `"db"`}, {"port", `5432`}, {"secret.name", `"login"`}, {"secret.userKey", `"u"`},
		{"secret.passwordKey", `"p"`}, {"data.command", `["true", "--fast"]`}, {"data.clients", `2`},
		{"data.interval", `"20ms"`}, {"data.quietRows", `5`},
	}
}

// workloadText writes fields as a file.
func workloadText(fields [][2]string) string {
	inner := map[string][]string{}
	var top []string
	for _, f := range fields {
		field := fmt.Sprintf("%q: %s", f[0][strings.LastIndex(f[0], ".")+1:], f[1])
		if within, _, ok := strings.Cut(f[0], "."); ok {
			inner[within] = append(inner[within], field)
			continue
		}
		top = append(top, field)
	}
	for _, name := range []string{"data", "secret"} {
		if len(inner[name]) > 0 {
			top = append(top, fmt.Sprintf("%q: {%s}", name, strings.Join(inner[name], ", ")))
		}
	}
	return "{" + strings.Join(top, ", ") + "}"
}

// put puts a workload file into the plan of the smoke trial.
func put(t interface {
	Helper()
	Fatal(args ...any)
}, dir, text string) (plan.Plan, error) {
	t.Helper()
	file := filepath.Join(dir, "workload.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := makePlan("smoke", 7)
	if err != nil {
		t.Fatal(err)
	}
	return putWorkload(p, file)
}

// TestWorkloadFilesAreTakenOrRefusedByField holds that a file with one value changed is refused with 254 and the name
// of the field, or gives a plan that is legal and reads back as it is.
func TestWorkloadFilesAreTakenOrRefusedByField(t *testing.T) {
	dir, refused := t.TempDir(), 0
	values := append(hostile(), "null", "true", "[]", "{}", `""`, "0", "-1", "1e99", "3.5", "99999999999999999999",
		"2147483648", `["a", 1]`, `[""]`, `{"name": {}}`, `"1h"`, `"-1s"`, "[[[[]]]]", `"65536"`)
	rapid.Check(t, func(t *rapid.T) {
		fields := workloadFields()
		i := rapid.IntRange(0, len(fields)-1).Draw(t, "field")
		name := fields[i][0]
		switch rapid.SampledFrom([]string{"change", "twice", "unknown"}).Draw(t, "how") {
		case "change":
			fields[i][1] = rapid.SampledFrom(values).Draw(t, "value")
		case "twice":
			fields = append(fields, fields[i])
		case "unknown":
			fields[i][0] += "x"
			name = fields[i][0]
		}
		p, err := put(t, dir, workloadText(fields))
		if err != nil {
			refused++
			var exit *exitError
			if !errors.As(err, &exit) || exit.code != exitArguments {
				t.Fatalf("%v is no bad argument", err)
			}
			if whole := name[strings.LastIndex(name, ".")+1:]; !strings.Contains(err.Error(), whole) {
				t.Fatalf("%v: it does not name %q", err, name)
			}
			return
		}
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		again, err := plan.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := trial.Validate(trial.AllParts(), again); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%d refused", refused)
}

// TestGroupScenarios: the trials of a topology take a workload file of that topology and no other, and no group is left
// without a majority.
func TestGroupScenarios(t *testing.T) {
	for scenario, legal := range map[string][]string{
		"smoke":                           {"", "single"}, // It scales to one.
		"network":                         {"", "single"}, // It does not scale.
		"topology-semisync-primary-cut":   {"semisync"},
		"topology-async-calm":             {"async"},
		"topology-group-multi-member-cut": {"group-multi"},
	} {
		for _, topology := range []string{"", "single", "async", "semisync", "group-single", "group-multi"} {
			p, err := makePlan(scenario, 7)
			if err != nil {
				t.Fatal(err)
			}
			f := plan.WorkloadFile{Namespace: "shop", StatefulSet: "db", Replicas: 3, Port: 1, Topology: topology,
				Data: plan.DataClient{Command: []string{"true"}}}
			p, err = f.Put(p, "")
			if err == nil {
				err = trial.Validate(trial.AllParts(), p)
			}
			var list plan.FieldErrors
			if want := slices.Contains(legal, topology); (err == nil) != want || // Nothing of steps that nobody wrote.
				errors.As(err, &list) && (len(list) != 1 || list[0].Field != "topology") {
				t.Errorf("%s with topology %q: %v, want it taken: %v", scenario, topology, err, want)
			}
		}
	}
}

func TestWorkloadRefusals(t *testing.T) {
	set := func(spec string) string {
		return "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db}\nspec: {replicas: 3, " + spec +
			"volumeClaimTemplates: [{metadata: {name: d}}]}\n"
	}
	for name, tc := range map[string]struct{ change, manifests, want string }{
		"legal":               {},
		"legal manifests":     {"namespace=", set(""), ""},
		"empty documents":     {"namespace=", "---\n# a comment\n---\n" + set("") + "---\n", ""},
		"namespace and none":  {"namespace=", "", "namespace"},
		"both":                {"manifests=m.yaml", set(""), "namespace"},
		"replicas":            {"replicas=2", "", "replicas: the steps of scenario"},
		"no set":              {"namespace=", "apiVersion: v1\nkind: Service\nmetadata: {name: db}\n", "statefulSet"},
		"replicas of another": {"namespace=", strings.ReplaceAll(set(""), "replicas: 3", "replicas: 5"), "use 5"},
		"cluster-wide": {"namespace=", "apiVersion: v1\nkind: Namespace\nmetadata: {name: db}\n",
			"manifests[0]"},
		"no kind":  {"namespace=", "metadata: {name: db}\n", "manifests[0]"},
		"no YAML":  {"namespace=", "a: b: c", "manifests[0]"},
		"parallel": {"namespace=", set("podManagementPolicy: Parallel, "), "workload.parallel"},
		"claims that are deleted": {"namespace=", set("persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}, "),
			"claims"},
		"no volume": {"namespace=", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db}\nspec: {replicas: 3}",
			"volumeClaimTemplates"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, fields := t.TempDir(), workloadFields()
			if field, value, ok := strings.Cut(tc.change, "="); ok {
				fields = without(fields, field)
				if value != "" {
					quoted := value
					if field == "manifests" {
						quoted = fmt.Sprintf("%q", value)
					}
					fields = append(fields, [2]string{field, quoted})
				}
			}
			fields = without(fields, "container")
			if tc.manifests != "" {
				fields = append(without(fields, "manifests"), [2]string{"manifests", `"m.yaml"`})
				if err := os.WriteFile(filepath.Join(dir, "m.yaml"), []byte(tc.manifests), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err := put(t, dir, workloadText(fields))
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

func without(fields [][2]string, name string) [][2]string {
	var rest [][2]string
	for _, f := range fields {
		if f[0] != name {
			rest = append(rest, f)
		}
	}
	return rest
}

// TestRunRefusesAWorkloadAndTouchesNothing runs the program itself.
func TestRunRefusesAWorkloadAndTouchesNothing(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"no port": {"statefulSet: db\nnamespace: shop\nreplicas: 3\ndata: {command: ['true']}\n", "port: 0"},
		"a new cluster": {"statefulSet: db\nnamespace: shop\nreplicas: 3\nport: 1\ndata: {command: ['true']}\n",
			"workload.external.namespace"},
		"a scenario off": {"statefulSet: db\nnamespace: shop\nreplicas: 4\nport: 1\ndata: {command: ['true']}\n",
			"replicas"},
	} {
		u := newUntouched(t)
		file := filepath.Join(u.root, "plan.json") // That alone may be there.
		if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := u.program(t, "run", "smoke", "--workload", file, "--runs", u.runs, "--cluster", "seatrial-never")
		if got.code != exitArguments || !strings.Contains(got.stderr, tc.want) {
			t.Errorf("%s: exit code %d, want %d and %q in:\n%s", name, got.code, exitArguments, tc.want, got.stderr)
		}
		if made := u.traces(t); len(made) > 0 {
			t.Errorf("%s: it touched %q", name, made)
		}
	}
}
