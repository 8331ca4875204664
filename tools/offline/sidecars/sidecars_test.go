package sidecars

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/tools/offline/gobuild"
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

func TestEnsure(t *testing.T) {
	all := sidecars()
	compiler := &goCommand{refused: all[1].Path}
	b := gobuild.Builder{Store: store.Store{Dir: t.TempDir()}, Runner: compiler, GoVersion: "go1.26.8", Arch: "amd64"}
	var said bytes.Buffer
	_, err := ensure(t.Context(), b, &said)
	if err == nil || !strings.Contains(err.Error(), "make sidecar "+all[1].Title()) {
		t.Errorf("ensure = %v, want it to name the provisioner", err)
	}
	compiler.refused = ""
	first, err := ensure(t.Context(), b, &said)
	if err != nil || compiler.runs != len(all)+1 {
		t.Fatalf("ensure = %+v (%v) after %d runs, want it to go on where it stopped", first, err, compiler.runs)
	}
	for _, want := range []string{
		"sidecar 1/3: compile " + all[0].Title() + " (about 4m on two idle cores)\n",
		"sidecar 1/3: compile " + all[0].Title() + ": done in",
		"sidecar 2/3: compile " + all[1].Title() + ": failed after",
	} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("progress does not say %q:\n%s", want, &said)
		}
	}
	said.Reset()
	second, err := ensure(t.Context(), b, &said)
	if err != nil || said.Len() > 0 || compiler.runs != len(all)+1 {
		t.Errorf("second ensure = %+v (%v), said %q, after %d runs", second, err, &said, compiler.runs)
	}
	for program, path := range map[string]string{
		"csi-attacher": first.Attacher, "csi-provisioner": first.Provisioner, "csi-resizer": first.Resizer,
	} {
		if _, err := os.Stat(path); err != nil || filepath.Base(path) != program {
			t.Errorf("%s is at %q (%v)", program, path, err)
		}
	}
	if first.Versions["external-resizer"] != all[2].Version || len(first.Versions) != len(all) {
		t.Errorf("versions = %v", first.Versions)
	}
}
