package sidecars

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/seatrial/seatrial/tools/offline/gobuild"
	"github.com/seatrial/seatrial/tools/offline/layers"
	"github.com/seatrial/seatrial/tools/offline/proc"
	"github.com/seatrial/seatrial/tools/offline/store"
)

// TestPins holds that every sidecar can be compiled from what is checked in: its pinned module is there, requires its
// version, and has the sum of it.
func TestPins(t *testing.T) {
	for _, s := range sidecars() {
		m, err := s.Load(pinFiles, nil)
		if err != nil {
			t.Errorf("%s: %v", s.Title(), err)
			continue
		}
		if !strings.Contains(string(m.Files["go.mod"]), s.Path+" "+s.Version) {
			t.Errorf("go.mod of %s does not require it", s.Title())
		}
		if !strings.Contains(string(m.Files["go.sum"]), s.Path+" "+s.Version+" h1:") {
			t.Errorf("go.sum of %s lacks it", s.Title())
		}
	}
}

// goCommand compiles by writing the output file; it fails for packages of the module refused.
type goCommand struct {
	refused string
	runs    int
}

func (g *goCommand) Run(_ context.Context, c proc.Command) error {
	if c.Args[1] == "env" {
		return nil
	}
	g.runs++
	if g.refused != "" && strings.HasPrefix(c.Args[len(c.Args)-1], g.refused) {
		return errors.New("undefined: everything")
	}
	out := c.Args[slices.Index(c.Args, "-o")+1]
	return os.WriteFile(out, []byte("program"), 0o755)
}

// noRegistry is an address where nobody listens.
const noRegistry = "127.0.0.1:1"

// TestPublished takes the programs out of images on a registry of this host; one that is not there is compiled.
func TestPublished(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	at := strings.TrimPrefix(server.URL, "http://")
	all := sidecars()
	for _, s := range all[:1] {
		program := path.Base(s.Packages[0])
		layer := filepath.Join(t.TempDir(), "layer.tar")
		if err := layers.WriteFile(layer, []layers.File{
			{Name: "etc/" + program, Data: []byte("another file")},
			{Name: program, Mode: 0o755, Data: []byte("published " + program)},
		}); err != nil {
			t.Fatal(err)
		}
		read, err := tarball.LayerFromFile(layer)
		if err != nil {
			t.Fatal(err)
		}
		img, err := mutate.AppendLayers(empty.Image, read)
		if err != nil {
			t.Fatal(err)
		}
		ref, err := name.ParseReference(at + "/" + program + ":" + s.Version)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, img); err != nil {
			t.Fatal(err)
		}
	}
	compiler := &goCommand{}
	b := gobuild.Builder{Store: store.Store{Dir: t.TempDir()}, Runner: compiler, GoVersion: "go1.26.8", Arch: "amd64"}
	var said bytes.Buffer
	made, err := ensure(t.Context(), b, at, &said)
	if err != nil || compiler.runs != 1 {
		t.Fatalf("%+v, %v, %d compiled, want one; said %s", made, err, compiler.runs, &said)
	}
	for path, want := range map[string]string{
		made.Attacher: "published csi-attacher", made.Provisioner: "program",
	} {
		text, err := os.ReadFile(path)
		info, _ := os.Stat(path)
		if err != nil || string(text) != want || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
	for _, want := range []string{"take csi-attacher out of " + at + "/csi-attacher@sha256:",
		"no published sidecars, so they are compiled: pull " + at + "/csi-provisioner:" + all[1].Version} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("said nothing like %q:\n%s", want, &said)
		}
	}
}

func TestEnsure(t *testing.T) {
	all := sidecars()
	compiler := &goCommand{refused: all[1].Path}
	b := gobuild.Builder{Store: store.Store{Dir: t.TempDir()}, Runner: compiler, GoVersion: "go1.26.8", Arch: "amd64"}
	var said bytes.Buffer
	_, err := ensure(t.Context(), b, noRegistry, &said)
	if err == nil || !strings.Contains(err.Error(), "make sidecar "+all[1].Title()) {
		t.Errorf("ensure = %v, want it to name the provisioner", err)
	}
	compiler.refused = ""
	first, err := ensure(t.Context(), b, noRegistry, &said)
	if err != nil || compiler.runs != len(all)+1 {
		t.Fatalf("ensure = %+v (%v) after %d runs, want it to go on where it stopped", first, err, compiler.runs)
	}
	for _, want := range []string{
		"sidecar 1/2: compile " + all[0].Title() + " (about 4m on two idle cores)\n",
		"sidecar 1/2: compile " + all[0].Title() + ": done in",
		"sidecar 2/2: compile " + all[1].Title() + ": failed after",
	} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("progress does not say %q:\n%s", want, &said)
		}
	}
	said.Reset()
	second, err := ensure(t.Context(), b, noRegistry, &said)
	if err != nil || said.Len() > 0 || compiler.runs != len(all)+1 {
		t.Errorf("second ensure = %+v (%v), said %q, after %d runs", second, err, &said, compiler.runs)
	}
	for program, path := range map[string]string{
		"csi-attacher": first.Attacher, "csi-provisioner": first.Provisioner,
	} {
		if _, err := os.Stat(path); err != nil || filepath.Base(path) != program {
			t.Errorf("%s is at %q (%v)", program, path, err)
		}
	}
	if first.Versions["external-provisioner"] != all[1].Version || len(first.Versions) != len(all) {
		t.Errorf("versions = %v", first.Versions)
	}
}
