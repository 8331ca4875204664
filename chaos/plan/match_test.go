package plan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/chaos/plan"
)

// pod is an object as the API server writes it.
const pod = `{
  "metadata": {"name": "mysql-0", "generation": 7, "labels": {"app.kubernetes.io/name": "mysql", "": "nobody"},
    "finalizers": ["a", "b"]},
  "spec": {"containers": [{"name": "mysql", "image": "m:1"}, {"name": "side", "image": "s:2", "stdin": true}]},
  "status": {"phase": "Running", "readyReplicas": 3, "ratio": 0.5,
    "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "False"}]}
}`

func TestPathsSelect(t *testing.T) {
	var object any
	if err := json.Unmarshal([]byte(pod), &object); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		".status.phase":                                   `["Running"]`,
		".status.readyReplicas":                           `[3]`,
		".spec.containers[1].image":                       `["s:2"]`,
		".spec.containers[*].name":                        `["mysql","side"]`,
		".spec.containers[2].name":                        `null`,
		".spec.containers[name=side].image":               `["s:2"]`,
		`.spec.containers[image="m:1"].name`:              `["mysql"]`,
		".spec.containers[stdin=true].name":               `["side"]`,
		".spec.containers[image=s:2].name":                `["side"]`,
		".status.conditions[type=Ready].status":           `["True"]`,
		".status.conditions[type=Unknown].status":         `null`,
		`.metadata.labels["app.kubernetes.io/name"]`:      `["mysql"]`,
		`.metadata.labels[""]`:                            `["nobody"]`,
		`.metadata.labels["\u0061pp.kubernetes.io/name"]`: `["mysql"]`,
		".metadata.finalizers[0]":                         `["a"]`,
		".metadata.name.more":                             `null`,
		".metadata.finalizers.a":                          `null`,
		".spec[0]":                                        `null`,
		".nothing[*].of[9].it":                            `null`,
	} {
		p, err := plan.ParsePath(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		got, err := json.Marshal(p.Select(object))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, string(got)); d != "" {
			t.Errorf("%s (-want +got):\n%s", path, d)
		}
	}
}

func TestPathsThatAreNone(t *testing.T) {
	for path, want := range map[string]string{
		"":                             "it is empty",
		"status":                       "at byte 0: a dot or a bracket must come here",
		".":                            "at byte 0: a name must follow the dot",
		".a..b":                        "at byte 2: a name must follow the dot",
		".a b":                         "at byte 2: a dot or a bracket",
		".a[":                          "at byte 2: an index, *, a string or name=value",
		".a[]":                         "an index, *, a string",
		".a[1":                         "a bracket is not closed",
		".a[-1]":                       `"-1" is no index`,
		".a[99999999999]":              "is no index",
		".a[x]":                        `"x" is no index`,
		".a[x=]":                       "a value must follow x=",
		".a[x=y z]":                    "a bracket is not closed",
		`.a["b`:                        "a string does not end",
		`.a["\x"]`:                     "read the string",
		".a[*]b":                       "a dot or a bracket",
		"$.a":                          "a dot or a bracket",
		".a[?(@.b)]":                   "an index",
		"." + strings.Repeat("a", 600): "at most 512",
		strings.Repeat(".a", 33):       "more than 32 parts",
		".a\x1b":                       "a dot or a bracket",
	} {
		if _, err := plan.ParsePath(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", path, err, want)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, tc := range []struct {
		path, op, value string
		want            bool
	}{
		{".status.phase", "=", "Running", true},
		{".status.phase", "=", "Pending", false},
		{".status.phase", "!=", "Pending", true},
		{".status.phase", "!=", "Running", false},
		{".status.reason", "!=", "Running", false}, // Nothing is there.
		{".status.readyReplicas", "=", "3", true},
		{".status.readyReplicas", "=", "3.0", true},
		{".status.readyReplicas", ">=", "3", true},
		{".status.readyReplicas", ">", "3", false},
		{".status.readyReplicas", "<", "4", true},
		{".status.readyReplicas", "<=", "2", false},
		{".status.ratio", "<", "1", true},
		{".status.phase", "<", "9", false}, // It is no number.
		{".status.reason", "absent", "", true},
		{".status.phase", "absent", "", false},
		{".status.phase", "exists", "", true},
		{".spec.containers[*].image", "=", "s:2", true},
		{".spec.containers[*].image", "!=", "s:2", false},
		{".spec.containers[*].stdin", "=", "true", true},
		{".spec.containers", "=", "[]", false},
		{"", "deleted", "", false},
	} {
		m := plan.Match{Kind: "Pod", Name: "mysql-0", Path: tc.path, Op: tc.op, Value: tc.value}
		c, err := m.Compile()
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Holds([]byte(pod), false); got != tc.want {
			t.Errorf("%s: %v, want %v", m, got, tc.want)
		}
		if c.Holds([]byte(pod), true) != (tc.op == plan.OpDeleted) || c.Holds([]byte("{"), false) {
			t.Errorf("%s: of one that is deleted, or cannot be read", m)
		}
		if !c.Of("pods", "mysql-0") || c.Of("pods", "mysql-1") || c.Of("nodes", "mysql-0") {
			t.Errorf("%s: is of another object", m)
		}
	}
	for _, m := range []plan.Match{{Kind: "Secret", Op: "deleted"}, {Kind: "Pod", Path: "x", Op: "exists"}} {
		if _, err := m.Compile(); err == nil {
			t.Errorf("%s compiles", m)
		}
	}
}

// FuzzParsePath holds that any path that is taken selects from any object without harm, and that it is legal in a plan.
func FuzzParsePath(f *testing.F) {
	for _, path := range []string{
		".status.readyReplicas", `.metadata.labels["a/b"]`, ".spec.containers[0].image", ".a[*][*].b",
		".status.conditions[type=Ready].status", `.a[x="y\u0000"]`, ".a[", "..", "[0]", `["\`, ".a[x=]",
	} {
		f.Add(path, pod, "3")
	}
	f.Fuzz(func(t *testing.T, path, object, value string) {
		p, err := plan.ParsePath(path)
		if err != nil {
			return
		}
		var v any
		if json.Unmarshal([]byte(object), &v) == nil {
			_ = p.Select(v)
		}
		for _, op := range plan.Operators() {
			m := plan.Match{Kind: "Pod", Path: path, Op: op, Value: value}
			c, err := m.Compile()
			if err != nil {
				t.Fatalf("%q is taken and does not compile: %v", path, err)
			}
			if strings.ContainsAny(m.String(), "\n\x1b") {
				t.Fatalf("%q is shown as %q", path, m)
			}
			is := c.Holds([]byte(object), false)
			if op == plan.OpDeleted && is {
				t.Fatal("an object that is there is deleted")
			}
		}
	})
}
