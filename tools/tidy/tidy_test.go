package tidy

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

func TestHouseRules(t *testing.T) {
	found, err := Check(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		t.Error(v)
	}
}

func TestRules(t *testing.T) {
	for _, c := range []struct{ name, path, text, want string }{
		{"down", "e2e/trial/a.go", imports("chaos/fault"), ""},
		{"up", "clusters/a.go", imports("e2e/rundir"), "layers"},
		{"up to the low ones", "clusters/a.go", imports("chaos/history"), ""},
		{"peers", "chaos/fault/a.go", imports("fixtures/stateful"), "layers"},
		{"peers, the other way", "fixtures/stateful/a.go", imports("chaos/fault"), "layers"},
		{"waiting", "fixtures/stateful/a.go", imports("chaos/await"), ""},
		{"a program from below", "e2e/trial/a.go", imports("tools/seatrial"), "layers"},
		{"a test may", "clusters/a_test.go", imports("e2e/trial"), ""},
		{"concrete", "e2e/trial/a.go", imports("chaos/fault/node"), "registry"},
		{"concrete in the registry", "e2e/trial/registry.go", imports("chaos/fault/node"), ""},
		{"concrete on the node", "tools/agent/a.go", imports("fixtures/mysql/start"), ""},
		{"its own part", "fixtures/mysql/a.go", imports("fixtures/mysql/start"), ""},
		{"a peer's part", "chaos/fault/node/a.go", imports("chaos/fault/network"), "registry"},
		{"SQL, its owner", "fixtures/mysql/start/a.go", `import _ "database/sql"`, ""},
		{"SQL in the registry", "e2e/trial/registry.go", `import _ "database/sql"`, "registry"},
		{"SQL elsewhere", "e2e/check/a.go", `import _ "database/sql"`, "registry"},
		{"kind elsewhere", "tools/seatrial/a.go", `import _ "sigs.k8s.io/kind/pkg/cluster"`, "registry"},
		{"assertions in a program", "e2e/trial/a.go", `import _ "github.com/onsi/gomega"`, "registry"},
		{"pure, a pure one", "e2e/check/data/a.go", imports("e2e/world"), ""},
		{"pure, not pure", "e2e/check/a.go", imports("e2e/rundir"), "pure"},
		{"pure, types", "e2e/world/a.go", `import _ "k8s.io/api/core/v1"`, ""},
		{"pure, a client", "e2e/world/a.go", `import _ "k8s.io/client-go/kubernetes"`, "pure"},
		{"pure, files", "e2e/report/a.go", `import _ "os/exec"`, "pure"},
		{"pure, clock", "e2e/explain/a.go", `import "time"; var _ = time.Now()`, "pure"},
		{"pure, times", "e2e/explain/a.go", `import "time"; const _ = time.Second`, ""},
		{"pure, global chance", "chaos/plan/a.go", `import "math/rand/v2"; var _ = rand.IntN(2)`, "pure"},
		{"pure, passed chance", "chaos/plan/a.go",
			`import "math/rand/v2"; func _(r *rand.Rand) int { return r.IntN(2) }`, ""},
		{"no list", "chaos/fault/node/a.go", "func Reboot() fault.Definition { return fault.Definition{} }",
			"registry"},
		{"no labels", "fixtures/a.go", `var _ = metav1.ObjectMeta{Name: "a"}`, "labels"},
		{"labels", "fixtures/a.go", `var _ = metav1.ObjectMeta{Name: "a", Labels: all}`, ""},
		{"another module", "tools/offline/a.go", imports("e2e/trial/x"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := fstest.MapFS{
				c.path: {Data: []byte("package p\n" + c.text)}, "tools/offline/go.mod": {Data: []byte("module m")}}
			found, err := Check(tree)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(found, "\n"); c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want a violation of %q", got, c.want)
			}
		})
	}
}

func imports(dir string) string { return `import _ "` + module + dir + `"` }
