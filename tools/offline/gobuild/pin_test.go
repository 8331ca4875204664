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
	m := Pin{
		Name: "kubernetes", Path: "k8s.io/kubernetes", Version: "v1.36.3",
		Packages: []string{"k8s.io/kubernetes/cmd/kubelet", "./own"},
	}
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

func TestPinFiles(t *testing.T) {
	pins := fstest.MapFS{
		"pins/x-v1/go.mod.txt":     {Data: []byte("module x\n")},
		"pins/x-v1/go.sum.txt":     {Data: []byte("sums\n")},
		"pins/x-v1/cmd/main.go":    {Data: []byte("package main\n")},
		"pins/other-v1/go.mod.txt": {Data: []byte("module other\n")},
	}
	got, err := PinFiles(pins, "pins/x-v1")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]byte{
		"go.mod": []byte("module x\n"), "go.sum": []byte("sums\n"), "cmd/main.go": []byte("package main\n"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := PinFiles(pins, "pins/absent"); err == nil {
		t.Error("a pinned module that is not there gives no error")
	}
}

func TestWriteLeavesAPinAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "go.mod.txt")
	if err := os.WriteFile(path, []byte("as it was"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WritePin(t.Context(), Pin{Name: "x", Path: "x.invalid/x", Version: "v1.0.0"}, dir); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "as it was" {
		t.Errorf("it is %q now (%v)", got, err)
	}
}
