package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/trial"
)

// TestEveryCaseCanBeWrittenAsAFile holds that the built-in cases are what a user can write: as a file, in YAML and in
// JSON, each gives the same plan, finding and number of attempts.
func TestEveryCaseCanBeWrittenAsAFile(t *testing.T) {
	parts := trial.AllParts()
	if len(parts.Cases) == 0 {
		t.Fatal("there are no cases")
	}
	for _, c := range parts.Cases {
		data, err := json.Marshal(plan.CaseFile{Case: c, Times: 3, Plan: plan.Make(c, 7)})
		if err != nil {
			t.Fatal(err)
		}
		text, err := yaml.JSONToYAML(data)
		if err != nil {
			t.Fatal(err)
		}
		for _, written := range [][]byte{data, text} {
			f, err := trial.ReadCase(parts, written)
			if err != nil {
				t.Errorf("case %s: %v", c.Name, err)
				continue
			}
			got, want := f.Case, c
			got.Build, want.Build, want.Affected, want.Fixed, want.Expect = nil, nil, "", "", got.Expect
			if diff := cmp.Diff(want, got); diff != "" || f.Times != 3 {
				t.Errorf("case %s, %d times: %s", c.Name, f.Times, diff)
			}
			if diff := cmp.Diff(encoded(t, plan.Make(c, 7)), encoded(t, plan.Make(f.Case, 7))); diff != "" {
				t.Errorf("plan of case %s: %s", c.Name, diff)
			}
		}
	}
}

func encoded(t *testing.T, p plan.Plan) string {
	t.Helper()
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestExampleCase(t *testing.T) {
	c, err := readCase(filepath.Join("..", "..", "examples", "case", "lost-row.yaml"), "")
	if err != nil {
		t.Fatal(err)
	}
	if c.Times != 2 || c.Expect != "FAIL" || c.Finding != (plan.Sign{Check: "rows", Says: "lost a row"}) {
		t.Errorf("read %+v", c.Case)
	}
	first, second := plan.Make(c.Case, 7), plan.Make(c.Case, 8)
	if last := first.AllSteps(); last[len(last)-1].N != 4 || first.Seed != 7 || second.Seed != 8 {
		t.Errorf("steps and seeds: %+v", first)
	}
	second.Steps[0].Commits = 1
	if first.Steps[0].Commits != 100 {
		t.Error("two plans of a case share their steps")
	}
}

// TestCaseWithWorkload reads the examples whose workload is in a file of its own.
func TestCaseWithWorkload(t *testing.T) {
	of := filepath.Join("..", "..", "examples", "vitess")
	cases, err := filepath.Glob(filepath.Join(of, "2*.yaml"))
	if err != nil || len(cases) == 0 {
		t.Fatal(cases, err)
	}
	for _, file := range cases {
		c, err := readCase(file, filepath.Join(of, "workload.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if want := "vitess-" + strings.TrimSuffix(filepath.Base(file), ".yaml"); c.Name != want {
			t.Errorf("%s has the name %q, want %q", file, c.Name, want)
		}
		p := plan.Make(c.Case, 7)
		if w := p.Workload; w.External == nil || w.StatefulSet != "vt" || w.Topology != plan.TopologySemiSync {
			t.Errorf("%s: the workload is %+v", file, w)
		}
		if err := trial.Validate(trial.AllParts(), p); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	if _, err := readCase(filepath.Join("..", "..", "examples", "case", "lost-row.yaml"),
		filepath.Join(of, "workload.yaml")); err == nil || !strings.Contains(err.Error(), "replicas: the steps of") {
		t.Errorf("a case for 2 replicas takes a workload of 3: %v", err)
	}
}

// TestCaseRefusals runs the program itself: every refusal names the field, ends with 254 and touches nothing.
func TestCaseRefusals(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "case", "lost-row.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	u := newUntouched(t)
	file := filepath.Join(u.root, "plan.json") // That alone may be there.
	for want, change := range map[string][2]string{
		"finding.check: no check":                   {"check: rows", "check: row"},
		"finding.says: is missing":                  {"  says: lost a row", ""},
		"name: \"Lost\"":                            {"name: lost-row", "name: Lost"},
		"times: -1":                                 {"times: 2", "times: -1"},
		"times: 101":                                {"times: 2", "times: 101"},
		"times: is \"2\"":                           {"times: 2", "times: '2'"},
		"volumes: 3 is more than":                   {"times: 2", "volumes: 3"},
		"holds: is of controls":                     {"times: 2", "holds: [rows]"},
		"holds[0]: no check":                        {"times: 2", "control: true\nholds: [row]"},
		"expect: there is no such":                  {"times: 2", "expect: FAIL"},
		"plan.schema: 9":                            {"  workers: 2", "  workers: 2\n  schema: 9"},
		"plan.seed: is -1":                          {"  workers: 2", "  workers: 2\n  seed: -1"},
		"plan.workload.replicas":                    {"replicas: 2", "replicas: 200"},
		"plan.steps[1].fault.name":                  {"kubelet-kill", "kubelet-kil"},
		"plan.steps[1].fault.hodl":                  {"hold: 2s", "hold: 2s\n        hodl: 2s"},
		"plan.steps[1].fault.during[0].tamper.kind": {"delete-row", "delete-rows"},
		"plam: there is no such":                    {"plan:", "plam:"},
	} {
		changed := strings.Replace(string(text), change[0], change[1], 1)
		if changed == string(text) {
			t.Fatalf("nothing to change for %q", want)
		}
		if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		got := u.program(t, "reproduce", "--case", file, "--runs", u.runs, "--cluster", "seatrial-never")
		if got.code != exitArguments || !strings.Contains(got.stderr, want) || got.stdout != "" {
			t.Errorf("exit code %d, want %d and %q in:\n%s", got.code, exitArguments, want, got.stderr)
		}
	}
	for _, args := range [][]string{
		{"reproduce", "k8s-121937", "--case", file}, {"plan", "smoke", "--case", file},
		{"reproduce", "--case", "/no/such/case.yaml"},
	} {
		if got := u.program(t, args...); got.code != exitArguments || !strings.Contains(got.stderr, "--case") {
			t.Errorf("%q: exit code %d: %s", args, got.code, got.stderr)
		}
	}
	if made := u.traces(t); len(made) > 0 {
		t.Errorf("it touched %q", made)
	}
}

// TestAFileOfAnotherKindIsNamed gives each flag the files of the others.
func TestAFileOfAnotherKindIsNamed(t *testing.T) {
	examples, err := filepath.Abs(filepath.Join("..", "..", "examples"))
	if err != nil {
		t.Fatal(err)
	}
	u := newUntouched(t)
	files := map[string]string{
		"case": filepath.Join(examples, "case", "lost-row.yaml"), "plan": filepath.Join(u.root, "plan.json"),
		"workload": filepath.Join(examples, "etcd", "workload.yaml"),
	}
	made := u.program(t, "plan", "smoke", "-o", "json")
	if err := os.WriteFile(files["plan"], []byte(made.stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, file := range files {
		for flag, args := range map[string][]string{
			"plan": {"run", "--plan"}, "case": {"reproduce", "--case"}, "workload": {"plan", "smoke", "--workload"},
		} {
			if flag == what {
				continue
			}
			want := flag + ": this is a " + what + " file; give it to `seatrial "
			got := u.program(t, append(args, file)...)
			if got.code != exitArguments || !strings.Contains(got.stderr, want) ||
				strings.Contains(got.stderr, "no such") {
				t.Errorf("%s as --%s: exit code %d, want %q in:\n%s", what, flag, got.code, want, got.stderr)
			}
		}
	}
}
