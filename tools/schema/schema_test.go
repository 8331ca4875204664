package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"sigs.k8s.io/yaml"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/trial"
)

const source = "../.."

// published reads the schemas of docs/, which must be those that the types give.
func published(t *testing.T) map[string]*jsonschema.Resolved {
	t.Helper()
	all, err := schemas(source)
	if err != nil {
		t.Fatal(err)
	}
	resolved := map[string]*jsonschema.Resolved{}
	for name, s := range all {
		want, err := json.MarshalIndent(s, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		has, err := os.ReadFile(filepath.Join(source, "docs", "schema", name+".json"))
		if err != nil || string(has) != string(want)+"\n" {
			t.Fatalf("docs/schema/%s.json is not what the types give: run make docs (%v)", name, err)
		}
		var read jsonschema.Schema
		if err := json.Unmarshal(has, &read); err != nil {
			t.Fatal(err)
		}
		if resolved[name], err = read.Resolve(nil); err != nil {
			t.Fatal(err)
		}
	}
	return resolved
}

// tree decodes YAML or JSON as an editor does.
func tree(t *testing.T, data []byte) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestLegalFilesFitTheSchema validates the golden plans, those of recorded runs, every built-in case as a file, and the
// examples.
func TestLegalFilesFitTheSchema(t *testing.T) {
	all := published(t)
	counts := map[string]int{}
	check := func(kind, what string, data []byte) {
		counts[kind]++
		if err := all[kind].Validate(tree(t, data)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for kind, pattern := range map[string]string{
		"plan": "chaos/scenarios/testdata/*.json", "case": "examples/case/*.yaml",
		"workload": "examples/*/workload*.yaml",
	} {
		files, err := filepath.Glob(filepath.Join(source, pattern))
		if err != nil {
			t.Fatal(err)
		}
		if kind == "plan" {
			recorded, _ := filepath.Glob(filepath.Join(source, "fixtures/recorded/*/plan.json")) // The pattern is good.
			files = append(files, recorded...)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			check(kind, file, data)
		}
	}
	for _, c := range trial.AllParts().Cases {
		data, err := json.Marshal(plan.CaseFile{Case: c, Plan: plan.Make(c, 3)})
		if err != nil {
			t.Fatal(err)
		}
		check("case", c.Name, data)
	}
	if counts["plan"] < 50 || counts["case"] < 10 || counts["workload"] < 2 {
		t.Errorf("files: %v", counts)
	}
}

// TestSchemaRefusesWhatTheProgramRefuses changes one thing of the example files.
func TestSchemaRefusesWhatTheProgramRefuses(t *testing.T) {
	all := published(t)
	for _, tc := range []struct{ kind, file, old, new string }{
		{"case", "examples/case/lost-row.yaml", "hold: 2s", "hodl: 2s"},
		{"case", "examples/case/lost-row.yaml", "hold: 2s", "hold: 2"},
		{"case", "examples/case/lost-row.yaml", "hold: 2s", "hold: two seconds"},
		{"case", "examples/case/lost-row.yaml", "hold: 2s", "hold: 2s\n        percent: 3"}, // Of another fault.
		{"case", "examples/case/lost-row.yaml", "kubelet-kill", "kubelet-kil"},
		{"case", "examples/case/lost-row.yaml", "commits: 100, ", ""},
		{"case", "examples/case/lost-row.yaml", "do: load", "do: laod"},
		{"case", "examples/case/lost-row.yaml", "check: rows", "check: row"},
		{"case", "examples/case/lost-row.yaml", "times: 2", "times: many"},
		{"case", "examples/case/lost-row.yaml", "ordinal: 1", "ordinal: null"},
		{"case", "examples/case/lost-row.yaml", "plan:", "plam:"},
		{"workload", "examples/etcd/workload.yaml", "port: 2379", "port: '2379'"},
		{"workload", "examples/etcd/workload.yaml", "port: 2379", ""},
		{"workload", "examples/etcd/workload.yaml", "replicas: 3", "replica: 3"},
		{"workload", "examples/etcd/workload.yaml", "interval: 100ms", "interval: 100"},
	} {
		data, err := os.ReadFile(filepath.Join(source, tc.file))
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(string(data), tc.old, tc.new, 1)
		if changed == string(data) {
			t.Fatalf("%s has no %q", tc.file, tc.old)
		}
		if all[tc.kind].Validate(tree(t, []byte(changed))) == nil {
			t.Errorf("%s: %q in place of %q fits the schema", tc.file, tc.new, tc.old)
		}
		if tc.kind == "case" {
			_, err = trial.ReadCase(trial.AllParts(), []byte(changed))
		} else {
			_, err = plan.DecodeWorkload([]byte(changed))
		}
		if err == nil {
			t.Errorf("%s: the program takes %q in place of %q", tc.file, tc.new, tc.old)
		}
	}
}

// TestEveryFieldIsExplained holds that the fields of the files have a description, but for a few that explain
// themselves.
func TestEveryFieldIsExplained(t *testing.T) {
	published(t)
	all, err := schemas(source)
	if err != nil {
		t.Fatal(err)
	}
	explained, fields := 0, 0
	for _, s := range all {
		for _, def := range s.Defs {
			for _, f := range def.Properties {
				fields++
				if f.Description != "" {
					explained++
				}
			}
		}
	}
	if fields < 100 || explained*10 < fields*8 {
		t.Errorf("%d of %d fields have a description", explained, fields)
	}
}
