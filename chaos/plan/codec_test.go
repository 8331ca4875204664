package plan_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/seatrial/seatrial/chaos/plan"
)

// encode writes a plan as `seatrial plan -o json` does.
func encode(t testing.TB, p plan.Plan) []byte {
	t.Helper()
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestDecodeReadsWhatWasWritten(t *testing.T) {
	got, err := plan.Decode(encode(t, legal()))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(legal(), got); d != "" {
		t.Errorf("plan (-want +got):\n%s", d)
	}
}

func TestDecodeReadsYAML(t *testing.T) {
	text, err := yaml.JSONToYAML(encode(t, legal()))
	if err != nil {
		t.Fatal(err)
	}
	got, err := plan.Decode(append([]byte("# A plan.\n"), text...))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(legal(), got); d != "" {
		t.Errorf("plan (-want +got):\n%s", d)
	}
	for text, want := range map[string]string{
		"schema: 1\nschema: 1\n":      `plan: cannot be read: yaml: line 2: key "schema" already set in map`,
		"# only a comment\n---\n":     "plan: is empty; write YAML or JSON",
		"schema: 1\n---\nschema: 1\n": "plan: there is more after ---; leave one document of YAML",
		"--- {durration: 1}":          "durration: there is no such field",
		"steps: [{n: 1}]":             "steps[0].n: without quotes is read as false; put it in quotes",
		"steps: [{durration: 1s}]":    "steps[0].durration: there is no such field",
		"workers: two":                `workers: is "two"; use a whole number`,
		"\ta: b":                      "plan: cannot be read: yaml:",
		"just text":                   `plan: is "just text"; use fields, in braces`,
	} {
		if _, err := plan.Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func TestDecodeIsStrict(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", "plan: is empty; write YAML or JSON"},
		{"unknown field", `{"schema":1,"sede":4}`, `sede: there is no such field; did you mean "seed"?`},
		{"unknown field below", `{"steps":[{"n":1,"durration":"1s"}]}`, `steps[0].durration: there is no such field`},
		{"a field in other letters", `{"Seed":4}`, `Seed: there is no such field; did you mean "seed"?`},
		{"a field twice", `{"steps":[{"n":1,"n":2}]}`, "steps[0].n: is there twice; leave one of them out"},
		{"two plans", `{"schema":1}{"schema":1}`, "plan: there is more after it; remove it"},
		{"newer", `{"schema":2,"new":true}`, "schema 2, want at most 1"},
		{"duration", `{"bounds":{"ready":5}}`, `bounds.ready: is 5; use text like "1m30s"`},
		{"no duration", `{"bounds":{"ready":"NaN"}}`, `bounds.ready: is "NaN"; use text like "1m30s"`},
		{"not a number", `{"workers":"two"}`, `workers: is "two"; use a whole number`},
		{"no JSON", `{"workers":NaN}`,
			`plan: cannot be read: invalid character 'N' looking for beginning of value (line 1, column 12)`},
		{"overflow", `{"seed":99999999999999999999}`, "seed: is 99999999999999999999; use a whole number"},
		{"a list", `{"workload":[[1]]}`, "workload: is [[1]]; use fields, in braces"},
		{"no object", `{"workload":null}`, "workload: is null; use fields, in braces"},
		{"no text", "{\"scenario\":\"a\xff\"}", "scenario: is not UTF-8; use UTF-8"},
		{"deep", strings.Repeat(`{"steps":[`, 50) + strings.Repeat("]}", 50), "steps[0].steps: there is no such field"},
		{"deep where nothing is", `{"x":` + strings.Repeat("[", 1_000_000), "exceeded max depth"},
		{"too long", strings.Repeat(" ", 5<<20), "longer than"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := plan.Decode([]byte(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	if _, err := plan.Decode([]byte(`{"schema":2}`)); !errors.Is(err, plan.ErrSchema) {
		t.Errorf("got %v", err)
	}
}

func FuzzDecodeThenValidate(f *testing.F) {
	for _, p := range []plan.Plan{legal(), setPlan(), nested()} {
		f.Add(encode(f, p))
	}
	f.Add([]byte(`{"steps":[{"do":"fault"},{"do":"scale","replicas":-1},{"do":"tamper"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := plan.Decode(data)
		if err != nil {
			return
		}
		var text bytes.Buffer
		if err := p.Render(&text); err != nil { // An illegal plan can be shown, too.
			t.Fatal(err)
		}
		if p.Validate(caps()) != nil && p.Validate(nestedCaps()) != nil {
			return
		}
		for _, s := range p.Steps {
			if s.Fault != nil && (s.Fault.Hold <= 0 || s.Fault.Hold >= s.Bound || s.Bound.D() > plan.MaxBound) {
				t.Fatalf("step %d passes with hold %s and bound %s", s.N, s.Fault.Hold, s.Bound)
			}
		}
	})
}
