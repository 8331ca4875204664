package gobuild

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/tools/offline/proc"
	"github.com/seatrial/seatrial/tools/offline/store"
)

func sample() Module {
	return Module{
		Name:      "etcd",
		Files:     map[string][]byte{"go.mod": []byte("module x\n"), "go.sum": []byte("sums\n")},
		Packages:  []string{"example.org/server/v3"},
		Binary:    "etcd",
		Tags:      []string{"netgo", "seccomp"},
		Variables: map[string]string{"example.org/b.V": "2", "example.org/a.V": "1"},
	}
}

func TestArgs(t *testing.T) {
	one := sample()
	two := Module{Name: "two", Packages: []string{"x.org/cmd/a", "x.org/cmd/b"}, Cgo: true}
	tests := []struct {
		module Module
		want   []string
	}{
		{one, []string{
			"go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false",
			"-ldflags=-s -w -X=example.org/a.V=1 -X=example.org/b.V=2", "-tags=netgo,seccomp",
			"-o", "/out/etcd", "example.org/server/v3",
		}},
		{two, []string{
			"go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false",
			"-ldflags=-s -w -linkmode=external -extldflags=-static", "-o", "/out/", "x.org/cmd/a", "x.org/cmd/b",
		}},
	}
	for _, test := range tests {
		if diff := cmp.Diff(test.want, test.module.args("/out")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.module.Name, diff)
		}
	}
	if diff := cmp.Diff([]string{"a", "b"}, two.programs()); diff != "" {
		t.Errorf("programs (-want +got):\n%s", diff)
	}
}

func TestAddressCoversEveryInput(t *testing.T) {
	base := sample().address("go1.26.8", "amd64")
	if base != sample().address("go1.26.8", "amd64") {
		t.Fatal("the same inputs give two addresses")
	}
	changes := map[string]func(*Module){
		"sum":      func(m *Module) { m.Files["go.sum"] = []byte("other\n") },
		"source":   func(m *Module) { m.Files["main.go"] = []byte("package main\n") },
		"package":  func(m *Module) { m.Packages = []string{"example.org/other"} },
		"binary":   func(m *Module) { m.Binary = "other" },
		"tag":      func(m *Module) { m.Tags = m.Tags[:1] },
		"cgo":      func(m *Module) { m.Cgo = true },
		"variable": func(m *Module) { m.Variables["example.org/a.V"] = "3" },
	}
	seen := map[string]string{base: "nothing"}
	for name, change := range changes {
		m := sample()
		m.Files, m.Variables = maps.Clone(m.Files), maps.Clone(m.Variables)
		change(&m)
		sum := m.address("go1.26.8", "amd64")
		if other, ok := seen[sum]; ok {
			t.Errorf("changing the %s gives the address of changing the %s", name, other)
		}
		seen[sum] = name
	}
	if base == sample().address("go1.26.9", "amd64") || base == sample().address("go1.26.8", "arm64") {
		t.Error("the Go version and the architecture must change the address")
	}
}

// fakeGo compiles by writing the output file, unless it is to fail.
type fakeGo struct {
	fail   error
	silent bool
	runs   int
}

// Run carries out one go build.
func (f *fakeGo) Run(_ context.Context, c proc.Command) error {
	f.runs++
	if _, err := os.Stat(filepath.Join(c.Dir, "go.mod")); err != nil {
		return fmt.Errorf("no go.mod in the work directory: %w", err)
	}
	if f.fail != nil {
		_, _ = io.WriteString(c.Stderr, "undefined: everything\n")
		return f.fail
	}
	if f.silent {
		return nil
	}
	for i, arg := range c.Args {
		if arg == "-o" {
			return os.WriteFile(c.Args[i+1], []byte("program"), 0o755)
		}
	}
	return errors.New("no -o")
}

func TestBuild(t *testing.T) {
	ctx := context.Background()
	run := &fakeGo{fail: errors.New("exit status 1: undefined: everything")}
	b := Builder{Store: store.Store{Dir: t.TempDir()}, Runner: run, GoVersion: "go1.26.8", Arch: "amd64"}
	_, err := b.Build(ctx, sample())
	if err == nil {
		t.Fatal("a failing compiler gives no error")
	}
	log := filepath.Join(b.Store.Dir, "logs", "etcd.log")
	for _, want := range []string{"build component etcd", log, "the same command resumes", "undefined: everything"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	if text, _ := os.ReadFile(log); !strings.Contains(string(text), "undefined: everything") {
		t.Errorf("log is %q, want the compiler's words", text)
	}
	run.fail, run.silent = nil, true
	if _, err := b.Build(ctx, sample()); err == nil || !strings.Contains(err.Error(), "no program etcd came out") {
		t.Errorf("error = %v, want it to miss the program", err)
	}
	run.silent = false
	first, err := b.Build(ctx, sample())
	if err != nil || !b.Has(sample()) {
		t.Fatalf("build = %q, %v, want a new result", first, err)
	}
	before := run.runs
	second, err := b.Build(ctx, sample())
	if err != nil || second != first || run.runs != before {
		t.Errorf("second build = %q, %v after %d runs, want the first result", second, err, run.runs-before)
	}
}
