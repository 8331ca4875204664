package gobuild

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestPinnedMod(t *testing.T) {
	upstream := `module k8s.io/kubernetes

go 1.26.0

godebug default=go1.26

require (
	k8s.io/api v0.0.0
	other.org/fork v1.0.0
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/client-go => ./staging/src/k8s.io/client-go
	other.org/fork => better.org/fork v1.2.3
	other.org/local => ./local
)
`
	m := Component{Path: "k8s.io/kubernetes", Version: "v1.36.3", Module: Module{
		Name: "kubernetes", Packages: []string{"k8s.io/kubernetes/cmd/kubelet", "./own"},
	}}
	got, err := pinnedMod(m, []byte(upstream))
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join("testdata", "pinned.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := pinnedMod(m, []byte("not a go.mod")); err == nil {
		t.Error("a bad go.mod gives no error")
	}
}

func TestLoad(t *testing.T) {
	pins := fstest.MapFS{
		"pins/x-v1/go.mod.txt":     {Data: []byte("module x\n")},
		"pins/x-v1/go.sum.txt":     {Data: []byte("sums\n")},
		"pins/other-v1/go.mod.txt": {Data: []byte("module other\n")},
	}
	own := fstest.MapFS{
		"cmd/main.go.txt": {Data: []byte("package main\n")}, "cmd/main_test.go": {}, "other/main.go": {},
	}
	c := Component{Path: "x.invalid/x", Version: "v1", Module: Module{Name: "x", Packages: []string{"./cmd"}}}
	got, err := c.Load(pins, own)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]byte{
		"go.mod": []byte("module x\n"), "go.sum": []byte("sums\n"), "cmd/main.go": []byte("package main\n"),
	}
	if diff := cmp.Diff(want, got.Files); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := (Component{Pin: "absent"}).Load(pins, own); err == nil {
		t.Error("a pinned module that is not there gives no error")
	}
	c.Packages = []string{"./absent"}
	if _, err := c.Load(pins, own); err == nil {
		t.Error("sources that are not there give no error")
	}
}

func TestWriteLeavesAPinAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x-v1.0.0", "go.mod.txt")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("as it was"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Component{Path: "x.invalid/x", Version: "v1.0.0", Module: Module{Name: "x"}}
	if err := WritePins(t.Context(), dir, nil, []Component{c}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "as it was" {
		t.Errorf("it is %q now (%v)", got, err)
	}
}
