package chaosmesh_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/chaos/fault/chaosmesh"
	"github.com/seatrial/seatrial/chaos/plan"
)

var update = flag.Bool("update", false, "write the golden files anew")

// faults are all faults that a manifest can become.
func faults() []plan.FaultCaps {
	takes := func(name string, params ...string) plan.FaultCaps {
		return plan.FaultCaps{Name: name, Check: plan.Names(params...)}
	}
	caps := []plan.FaultCaps{
		takes("container-kill", "container"),
		takes(chaosmesh.Name, "manifest"),
		takes("node-isolate", "direction", "flows", "reject", "peer"),
		takes("node-partition", "families", "direction", "flows", "reject"),
		takes("packet-loss", "direction", "percent"),
		takes("pod-delete", "grace"),
		takes("pod-partition", "direction", "flows", "reject", "peer"),
	}
	for _, name := range []string{
		"kubelet-freeze", "kubelet-kill", "manager-kill", "pod-force-delete", "runtime-kill",
	} {
		caps = append(caps, plan.FaultCaps{Name: name})
	}
	return caps
}

func around() chaosmesh.Around {
	return chaosmesh.Around{Seed: 7, Faults: faults(), Machines: map[string]int{"worker-1": 0}}
}

// errorsOf returns the field errors and fails on any other error.
func errorsOf(t *testing.T, err error) plan.FieldErrors {
	t.Helper()
	var list plan.FieldErrors
	if err != nil && !errors.As(err, &list) {
		t.Fatalf("%T is not of fields: %v", err, err)
	}
	for _, e := range list {
		if e.Field == "" || !strings.Contains(e.Detail, "; ") {
			t.Errorf("%+v does not say where, what and how", e)
		}
		if strings.ContainsFunc(e.Error(), func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("%q would move a terminal's cursor", e.Error())
		}
	}
	return list
}

// TestManifestsBecomePlans compares the plan of each manifest with the golden file, as text and as JSON.
func TestManifestsBecomePlans(t *testing.T) {
	files, err := filepath.Glob("testdata/manifests/*.yaml")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d manifests, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data := read(t, file)
			p, err := chaosmesh.Import(data, around())
			if err != nil {
				t.Fatal(err)
			}
			again, err := chaosmesh.Import(data, around())
			if d := cmp.Diff(p, again); d != "" || err != nil {
				t.Errorf("the same seed gives another plan (-first +second):\n%s%v", d, err)
			}
			if err := p.Validate(plan.Caps{Faults: faults(), Workloads: []string{"ledger"}}); err != nil {
				t.Error(err)
			}
			var text bytes.Buffer
			out := json.NewEncoder(&text)
			out.SetIndent("", "  ")
			if err := errors.Join(p.Render(&text), out.Encode(p)); err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(filepath.Base(file), ".yaml")+".txt", text.String())
			if !chaosmesh.Is(data) {
				t.Error("it is not known for manifests")
			}
		})
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(string(read(t, path)), got); d != "" {
		t.Errorf("%s (-want +got); go test -update writes it anew:\n%s", path, d)
	}
}

// steps returns the faults of a manifest's steps, at any depth.
func planned(t *testing.T, manifest string, a chaosmesh.Around) []plan.Fault {
	t.Helper()
	p, err := chaosmesh.Import([]byte(manifest), a)
	if err != nil {
		t.Fatal(err)
	}
	var all []plan.Fault
	for _, s := range p.AllSteps() {
		if s.Fault != nil {
			all = append(all, *s.Fault)
		}
	}
	return all
}

// TestModesAreDrawnWithTheSeed draws with many seeds: each of three pods is drawn at least once, and the note names it.
func TestModesAreDrawnWithTheSeed(t *testing.T) {
	manifest := string(read(t, "testdata/manifests/pod-kill.yaml"))
	for _, tc := range []struct {
		mode  string
		sizes []int
	}{
		{"mode: one", []int{1}}, {"mode: fixed\n  value: \"2\"", []int{2}},
		{"mode: fixed-percent\n  value: \"67\"", []int{2}}, {"mode: all", []int{3}},
		{"mode: random-max-percent\n  value: \"100\"", []int{1, 2, 3}},
	} {
		seen, sizes := map[int]bool{}, map[int]bool{}
		for seed := range uint64(40) {
			a := around()
			a.Seed = seed + 1
			drawn := planned(t, strings.Replace(manifest, "mode: one", tc.mode, 1), a)
			sizes[len(drawn)] = true
			for _, f := range drawn {
				seen[f.Ordinal] = true
			}
			if !slices.Contains(tc.sizes, len(drawn)) {
				t.Errorf("%q: seed %d: %d pods, want %v", tc.mode, seed, len(drawn), tc.sizes)
			}
		}
		if len(seen) != 3 || len(sizes) != len(tc.sizes) {
			t.Errorf("%q: drew %v in sizes %v", tc.mode, seen, sizes)
		}
	}
}

// TestTheWordsOfChaosMeshForDirections checks that directions are seen from the side that is selected first.
func TestTheWordsOfChaosMeshForDirections(t *testing.T) {
	manifest := string(read(t, "testdata/manifests/partition.yaml"))
	for theirs, ours := range map[string]any{
		"direction: to": "out", "direction: from": "in", "direction: both": nil,
	} {
		for behavior, reject := range map[string]any{"": nil, "\n  partitionBehavior: reject": true} {
			got := planned(t, strings.Replace(manifest, "direction: both", theirs+behavior, 1), around())
			if len(got) != 1 || got[0].Params["direction"] != ours || got[0].Params["reject"] != reject ||
				got[0].Params["peer"] != 1 {
				t.Errorf("%s%s: got %+v", theirs, behavior, got)
			}
		}
	}
}

// TestLabelsThatOnlyTheManifestKnows checks selectors with labels that the plan adds.
func TestLabelsThatOnlyTheManifestKnows(t *testing.T) {
	manifest := strings.Replace(string(read(t, "testdata/manifests/pod-kill.yaml")), "app.kubernetes.io/name: mysql",
		"app: db\n      tier: data", 1)
	_, err := chaosmesh.Import([]byte(manifest), around())
	list := errorsOf(t, err)
	if len(list) != 1 || list[0].Field != "manifests[0].spec.selector" ||
		!strings.Contains(list[0].Detail, "--labels") {
		t.Errorf("got %v", err)
	}
	a := around()
	a.Labels = map[string]string{"app": "db", "tier": "data"}
	if got := planned(t, manifest, a); len(got) != 1 {
		t.Errorf("got %+v", got)
	}
}

// TestManifestsWithinAPlan checks that manifests at any depth are replaced by their steps, and that steps are
// renumbered.
func TestManifestsWithinAPlan(t *testing.T) {
	p, err := chaosmesh.Import(read(t, "testdata/manifests/container-kill.yaml"), around())
	if err != nil {
		t.Fatal(err)
	}
	kill := []byte(`{"apiVersion": "chaos-mesh.org/v1alpha1", "kind": "PodChaos", "metadata": {"name": "x"}, "spec": {
		"action": "pod-kill", "mode": "one", "selector": {"labelSelectors": {"app": "db"}}}}`)
	step := plan.Step{Do: plan.ActionMesh, Bound: p.Steps[0].Bound,
		Mesh: &plan.Mesh{Manifest: kill, Labels: map[string]string{"app": "db"}}}
	p.Steps[1].Fault.During = []plan.Step{step}
	p.Steps = append(p.Steps, step)
	got, err := chaosmesh.Expand(p, faults())
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Validate(plan.Caps{Faults: faults(), Workloads: []string{"ledger"}}); err != nil {
		t.Error(err)
	}
	var names []string
	for _, s := range got.AllSteps() {
		if s.Fault != nil {
			names = append(names, s.Fault.Name)
		}
	}
	if d := cmp.Diff([]string{"container-kill", "pod-force-delete", "pod-force-delete"}, names); d != "" {
		t.Errorf("faults (-want +got):\n%s", d)
	}
	step.Mesh.Labels = nil
	_, err = chaosmesh.Expand(p, faults())
	want := "steps[1].fault.during[0].mesh.manifest.spec.selector"
	if list := errorsOf(t, err); len(list) != 2 || list[0].Field != want {
		t.Errorf("got %v, want %s", err, want)
	}
	without := plan.Plan{Steps: []plan.Step{{N: 9}}}
	if same, err := chaosmesh.Expand(without, nil); err != nil || same.Steps[0].N != 9 {
		t.Errorf("got %+v, %v", same, err)
	}
}

// TestAFaultThatThisSeatrialDoesNotHave checks that the import refuses an unknown fault.
func TestAFaultThatThisSeatrialDoesNotHave(t *testing.T) {
	_, err := chaosmesh.Import(read(t, "testdata/manifests/partition.yaml"), chaosmesh.Around{Seed: 1})
	list := errorsOf(t, err)
	if len(list) != 1 || !strings.Contains(list[0].Detail, `"pod-partition", which this Seatrial does not have`) {
		t.Errorf("got %v", err)
	}
}

// FuzzParse looks for documents on which decoding, validation or import panics.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/manifests/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("no manifests to begin with: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("apiVersion: chaos-mesh.org/v1alpha1\nkind: Schedule\nmetadata: {name: x}\nspec: {type: IOChaos}\n"))
	f.Add([]byte(`{"apiVersion": "chaos-mesh.org/v1alpha1", "kind": "Workflow", "spec": {"templates": [{}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		chaosmesh.Is(data)
		p, err := chaosmesh.Import(data, around())
		if err != nil {
			if len(errorsOf(t, err)) == 0 {
				t.Errorf("%v names no field", err)
			}
			return
		}
		if err := p.Validate(plan.Caps{Faults: faults(), Workloads: []string{"ledger"}}); err != nil {
			_ = errorsOf(t, err) // It holds that each names a field.
		}
	})
}
