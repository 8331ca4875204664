package audit

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files and gates.yaml anew")

// featureList is where Kubernetes lists its gates, in the module cache: `go mod download k8s.io/kubernetes@v1.37.0`,
// outside of any module, puts it there.
const featureList = "k8s.io/kubernetes@v1.37.0/test/compatibility_lifecycle/reference/versioned_feature_list.yaml"

// TestGatesAreThoseOfKubernetes makes gates.yaml from Kubernetes' own list, and compares.
func TestGatesAreThoseOfKubernetes(t *testing.T) {
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(cache)), featureList))
	if err != nil {
		t.Skipf("NOT RUN: no %s in the module cache; go mod download k8s.io/kubernetes@v1.37.0 in an empty "+
			"folder", featureList)
	}
	want := []byte(changesIn(t, list))
	if *update {
		if err := os.WriteFile("gates.yaml", want, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(gatesYAML, want) {
		t.Error("gates.yaml is not what Kubernetes' list says; -update writes it anew")
	}
}

// changesIn writes a line for each change of each minor version.
func changesIn(t *testing.T, list []byte) string {
	type spec struct {
		Default       bool   `json:"default"`
		LockToDefault bool   `json:"lockToDefault"`
		Version       string `json:"version"`
	}
	var gates []struct {
		Name  string `json:"name"`
		Specs []spec `json:"versionedSpecs"`
	}
	if err := yaml.Unmarshal(list, &gates); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Feature gates that change between v1.%d and v1.%d. Made from %s.\n",
		oldestMinor, newestMinor, featureList)
	for minorVersion := oldestMinor + 1; minorVersion <= newestMinor; minorVersion++ {
		for _, g := range gates {
			at := func(m int) *spec {
				var last *spec
				for i := range g.Specs {
					if n, err := minor(g.Specs[i].Version); err == nil && n <= m {
						last = &g.Specs[i]
					}
				}
				return last
			}
			before, after := at(minorVersion-1), at(minorVersion)
			change := ""
			switch {
			case after == nil:
			case before == nil && after.Default:
				change = changeNew
			case before == nil:
			case before.Default != after.Default:
				change = changeFlip
			case !before.LockToDefault && after.LockToDefault:
				change = changeLock
			}
			if change == "" {
				continue
			}
			locked := ""
			if after.LockToDefault {
				locked = ", locked: true"
			}
			fmt.Fprintf(&b, "- {minor: %d, gate: %s, change: %s, default: "+
				"%t%s}\n", minorVersion, g.Name, change, after.Default,
				locked)
		}
	}
	return b.String()
}

// TestChanges counts what v1.37 changes, as found by hand.
func TestChanges(t *testing.T) {
	changes, err := changesOf(Upgrade{36, 37})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, c := range changes {
		got[c.Change]++
	}
	if got[changeFlip] != 18 || got[changeLock] != 13 || got[changeNew] != 13 {
		t.Errorf("v1.36 to v1.37: %v, want 18 flips, 13 locks, 13 new", got)
	}
	for gate := range concerned() {
		known := false
		for m := oldestMinor + 1; m <= newestMinor; m++ {
			changes, err := changesOf(Upgrade{m - 1, m})
			if err != nil {
				t.Fatal(err)
			}
			known = known || slices.ContainsFunc(changes, func(c gateChange) bool { return c.Gate == gate })
		}
		if !known {
			t.Errorf("gate %s changes in no version", gate)
		}
	}
	if _, err := changesOf(Upgrade{37, 38}); err == nil {
		t.Error("v1.38 is known")
	}
	if changes, err := changesOf(Upgrade{36, 36}); err != nil || len(changes) > 0 {
		t.Errorf("v1.36 to v1.36: %v, %v", changes, err)
	}
}

func TestParseUpgrade(t *testing.T) {
	for _, c := range []struct{ from, to, want, wrong string }{
		{"v1.36.3", "", "v1.37", ""},
		{"v1.37.0", "", "v1.38", ""},
		{"v1.36.3-gke.100+abc", "v1.37", "v1.37", ""},
		{"v1.36.3", "v1.37.0", "v1.37", ""},
		{"v1.36.3", "v1.36.5", "v1.36", ""},
		{"v1.36.3", "v1.35", "", "downgrade"},
		{"v1.35.1", "v1.37", "", "skips"},
		{"v1.37.0", "v1.38", "", "not known"},
		{"v1.36.3", "latest", "", "no version"},
		{"v1.36.3", "v2.37", "", "Kubernetes 1"},
		{"", "v1.37", "", "API server"},
	} {
		u, err := ParseUpgrade(c.from, c.to)
		switch {
		case c.wrong == "" && (err != nil || u.To() != c.want):
			t.Errorf("%q to %q = %s, %v, want %s", c.from, c.to, u.To(), err, c.want)
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%q to %q: %v, want %q", c.from, c.to, err, c.wrong)
		}
	}
}
