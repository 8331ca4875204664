package nodeimage

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/clusters/offline"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestComponentList(t *testing.T) {
	for _, r := range releases() {
		var b strings.Builder
		for _, c := range components(r) {
			fmt.Fprintf(&b, "%s in %s\n", c.Title(), c.PinName())
			for _, p := range c.Packages {
				fmt.Fprintf(&b, "\t%s\n", p)
			}
		}
		golden(t, "components-"+r.Kubernetes+".txt", b.String())
	}
}

// TestPins holds that every component of every release can be compiled from what is checked in: its pinned module is
// there, requires its version, and has the sum of it.
func TestPins(t *testing.T) {
	for _, r := range releases() {
		for _, c := range components(r) {
			m, err := c.Load(pinFiles, ownFiles)
			if err != nil {
				t.Errorf("%s: %v", r.Kubernetes, err)
				continue
			}
			for _, p := range c.Packages {
				if own, ok := strings.CutPrefix(p, "./"); ok && m.Files[own+"/main.go"] == nil {
					t.Errorf("%s: component %s has no source of %s", r.Kubernetes, c.Name, own)
				}
			}
			for name := range m.Files {
				if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".txt") {
					t.Errorf("%s: component %s is compiled with %s", r.Kubernetes, c.Name, name)
				}
			}
			if c.Path == "" {
				continue
			}
			if !strings.Contains(string(m.Files["go.mod"]), c.Path+" "+c.Version) {
				t.Errorf("%s: go.mod of component %s does not require %s %s", r.Kubernetes, c.Name, c.Path, c.Version)
			}
			if !strings.Contains(string(m.Files["go.sum"]), c.Path+" "+c.Version+" h1:") {
				t.Errorf("%s: go.sum of component %s lacks %s %s", r.Kubernetes, c.Name, c.Path, c.Version)
			}
		}
	}
}

func TestReleaseOf(t *testing.T) {
	var pinned []string
	for _, r := range releases() {
		pinned = append(pinned, r.Kubernetes)
	}
	if diff := cmp.Diff(offline.KubernetesVersions(), pinned); diff != "" {
		t.Errorf("the versions that are offered, and those that are pinned (-want +got):\n%s", diff)
	}
	r, err := releaseOf(offline.DefaultKubernetesVersion)
	if err != nil || r.EtcdTag != "3.7.0-0" || r.CoreDNSTag != "v1.14.6" {
		t.Errorf("default release = %+v, %v", r, err)
	}
	_, err = releaseOf("v1.20.0")
	if err == nil {
		t.Fatal("an unpinned version gives no error")
	}
	for _, want := range []string{`"v1.20.0"`, "v1.37.0, ", "v1.36.3", "seatrial versions add v1.20.0"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
}

// TestPublishedImageIsKinds holds the pinned published image against kind's source, and the default version against
// it.
func TestPublishedImageIsKinds(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", kindModule).Output()
	if err != nil {
		t.Fatal(err)
	}
	version, dir, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if version != kindVersion {
		t.Errorf("go.mod has kind %s, the node image takes the files of %s", version, kindVersion)
	}
	source, err := os.ReadFile(filepath.Join(dir, "pkg/apis/config/defaults/image.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`const Image = "([^"]+)"`).FindSubmatch(source)
	if found == nil {
		t.Fatal("no default image in kind's source")
	}
	if got := publishedImages()[offline.DefaultKubernetesVersion]; got != string(found[1]) {
		t.Errorf("published image of %s = %q, kind's default is %q", offline.DefaultKubernetesVersion, got, found[1])
	}
}

// TestPinElsewhere is refused before anything is asked for or written, whatever the version.
func TestPinElsewhere(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, version := range []string{offline.DefaultKubernetesVersion, "v1.99.0"} {
		err := Pin(t.Context(), version, "pins", "releases.json")
		if err == nil || !strings.Contains(err.Error(), "run it at the root of the source tree") {
			t.Errorf("%s: %v", version, err)
		}
	}
	if made, err := os.ReadDir("."); err != nil || len(made) > 0 {
		t.Errorf("it made %v, %v", made, err)
	}
}

func TestGuestsShareAPin(t *testing.T) {
	r, err := releaseOf(offline.DefaultKubernetesVersion)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range components(r) {
		if c.PinName() == "kubernetes-"+r.Kubernetes {
			names = append(names, c.Name)
		}
	}
	if diff := cmp.Diff([]string{"kubernetes", "podnet", "pause"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
