package plan_test

import (
	"strings"
	"testing"

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

func TestPathsThatAreNone(t *testing.T) {
	for path, want := range map[string]string{
		"":                                      "it is empty",
		"status":                                "it is no path of fields",
		"$.a":                                   "it is no path of fields",
		".a..b":                                 "it is no path of fields",
		".a}{.b":                                "it is no path of fields",
		".a[":                                   "unterminated array",
		".a[x]":                                 "invalid array index",
		".status.conditions[type=Ready].status": "invalid array index",
		".a['b','c']":                           "it is no path of fields",
		".a[99999999999999999999]":              "is not a number",
		"." + strings.Repeat("a", 600):          "at most 512",
	} {
		m := plan.Match{Kind: "Pod", Path: path, Op: "exists"}
		if _, err := m.Compile(); err == nil || !strings.Contains(err.Error(), want) {
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
		{".spec.containers[1].image", "=", "s:2", true},
		{".spec.containers[0].image", "=", "s:2", false},
		{".spec.containers[2].name", "exists", "", false},
		{`.spec.containers[?(@.name=="side")].image`, "=", "s:2", true},
		{".spec.containers[?(@.stdin==true)].name", "=", "side", true},
		{`.status.conditions[?(@.type=="Ready")].status`, "=", "True", true},
		{`.status.conditions[?(@.type=="Unknown")].status`, "exists", "", false},
		{`.metadata.labels.app\.kubernetes\.io/name`, "=", "mysql", true},
		{".metadata.name.more", "exists", "", false},
		{".metadata.finalizers.a", "exists", "", false},
		{".spec[0]", "absent", "", true},
		{".nothing[*].of[9].it", "exists", "", false},
	} {
		m := plan.Match{Kind: "Pod", Name: "mysql-0", Path: tc.path, Op: tc.op, Value: tc.value}
		c, err := m.Compile()
		if err != nil {
			t.Fatal(err)
		}
		if got := c([]byte(pod), false); got != tc.want {
			t.Errorf("%s: %v, want %v", m, got, tc.want)
		}
		if c([]byte(pod), true) != (tc.op == plan.OpDeleted) || c([]byte("{"), false) {
			t.Errorf("%s: of one that is deleted, or cannot be read", m)
		}
		if !m.Of("pods", "mysql-0") || m.Of("pods", "mysql-1") || m.Of("nodes", "mysql-0") {
			t.Errorf("%s: is of another object", m)
		}
	}
	for _, m := range []plan.Match{{Kind: "Secret", Op: "deleted"}, {Kind: "Pod", Path: "x", Op: "exists"}} {
		if _, err := m.Compile(); err == nil {
			t.Errorf("%s compiles", m)
		}
	}
}

// FuzzMatch holds that any path that is taken selects from any object without harm.
func FuzzMatch(f *testing.F) {
	for _, path := range []string{
		".status.readyReplicas", `.metadata.labels['a/b']`, ".spec.containers[0].image", ".a[*][*].b", ".a[-1]",
		`.status.conditions[?(@.type=="Ready")].status`, ".a[1:2:0]", ".a[", "..", "[0]", "['", ".a[?(@)]", ".a[?(",
	} {
		f.Add(path, pod, "3")
	}
	f.Fuzz(func(t *testing.T, path, object, value string) {
		for _, op := range plan.Operators() {
			m := plan.Match{Kind: "Pod", Path: path, Op: op, Value: value}
			c, err := m.Compile()
			if err != nil {
				continue
			}
			if strings.ContainsAny(m.String(), "\n\x1b") {
				t.Fatalf("%q is shown as %q", path, m)
			}
			is := c([]byte(object), false)
			if op == plan.OpDeleted && is {
				t.Fatal("an object that is there is deleted")
			}
		}
	})
}
