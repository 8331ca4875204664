package scenarios_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/scenarios"
)

func caps() plan.Caps {
	return plan.Caps{
		Faults: []plan.FaultCaps{
			{Name: "container-freeze"},
			{Name: "cordon"},
			{Name: "drain"},
			{Name: "kubelet-kill", Takes: []plan.Part{plan.PartKubelet}},
			{Name: "manager-kill"},
			{Name: "node-partition", Takes: []plan.Part{plan.PartNode},
				Check: plan.Names("families", "direction", "flows", "reject")},
			{Name: "packet-loss", Check: plan.Names("direction", "percent")},
			{Name: "pod-partition", Check: plan.Names("direction", "flows", "reject", "peer")},
			{Name: "node-reboot"},
			{Name: "pod-delete"},
			{Name: "power-loss"},
			{Name: "device-gone"},
			{Name: "volume-full"},
			{Name: "volume-read-only"},
			{
				Name: "container-kill",
			},
			{Name: "page-flip", Check: plan.Names("file")},
			{Name: "file-truncate", Check: plan.Names("file")},
			{Name: "runtime-kill"},
			{Name: "node-stop", Takes: []plan.Part{plan.PartNode}},
			{Name: "out-of-service", Takes: []plan.Part{plan.PartService}},
			{Name: "apiserver-freeze"}, {Name: "apiserver-kill"}, {Name: "apiserver-stop"},
			{Name: "etcd-freeze"}, {Name: "etcd-kill"}, {Name: "etcd-stop"},
			{Name: "scheduler-freeze"}, {Name: "scheduler-kill"}, {Name: "scheduler-stop"},
			{Name: "manager-freeze"}, {Name: "manager-stop"},
			{Name: "kubelet-freeze", Takes: []plan.Part{plan.PartKubelet}},
			{Name: "kubelet-starve", Takes: []plan.Part{plan.PartKubelet}},
			{Name: "runtime-stop"}, {Name: "kube-proxy-kill"}, {Name: "dns-block"}, {Name: "node-dark"},
			{Name: "node-isolate", Check: plan.Names("direction", "peer")},
			{Name: "node-pause", Takes: []plan.Part{plan.PartNode}},
			{Name: "node-crash", Takes: []plan.Part{plan.PartNode}},
			{Name: "claim-delete"}, {Name: "pod-quota"},
			{Name: "api-reject", Check: plan.Names("of", "resources", "verbs")},
			{Name: "csi-point", Check: plan.Names("csi"), Storage: plan.StorageSharedDisk},
		},
		Workloads: []string{"ledger", "light"},
	}
}

func encode(t *testing.T, p plan.Plan) []byte {
	t.Helper()
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(data, '\n')
}

func TestSameSeedSameBytes(t *testing.T) {
	for _, s := range scenarios.All() {
		different := map[string]bool{}
		for seed := range uint64(100) {
			first, second := encode(t, plan.Make(s, seed)), encode(t, plan.Make(s, seed))
			if !bytes.Equal(first, second) {
				t.Fatalf("scenario %q, seed %d: two plans differ:\n%s", s.Name, seed, cmp.Diff(first, second))
			}
			if err := plan.Make(s, seed).Validate(caps()); err != nil {
				t.Fatalf("scenario %q, seed %d: %v", s.Name, seed, err)
			}
			p := plan.Make(s, seed)
			p.Seed = 0
			different[string(encode(t, p))] = true
		}
		if len(different) < 2 {
			t.Errorf("scenario %q: 100 seeds give one plan", s.Name)
		}
	}
}

func TestListIsInOrderAndComplete(t *testing.T) {
	var names []string
	for _, s := range scenarios.All() {
		names = append(names, s.Name)
	}
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("names are not in alphabetical order, or one is there twice: %q", names)
	}
	for _, s := range scenarios.All() {
		if !slices.Contains([]string{"PASS", "FAIL", "UNKNOWN"}, s.Expect) || s.Summary == "" {
			t.Errorf("scenario %q: expect %q, summary %q", s.Name, s.Expect, s.Summary)
		}
	}
}

func TestSmokeHurtsEachWayOnce(t *testing.T) {
	orders := map[string]bool{}
	for seed := range uint64(100) {
		var names []string
		for _, s := range plan.Make(mustFind(t, "smoke"), seed).Steps {
			if s.Fault != nil {
				names = append(names, s.Fault.Name)
			}
		}
		orders[names[0]] = true
		slices.Sort(names)
		if d := cmp.Diff([]string{"kubelet-kill", "node-partition", "node-reboot"}, names); d != "" {
			t.Fatalf("seed %d: faults (-want +got):\n%s", seed, d)
		}
	}
	if len(orders) != 3 {
		t.Errorf("100 seeds begin with %v only", orders)
	}
}

// TestFaultsOfSetsComeAtAMoment holds that a scenario of a StatefulSet with a fault in its name has that fault once,
// right after the moment on the API watch that chooses its time, and that the others have none of these faults.
func TestFaultsOfSetsComeAtAMoment(t *testing.T) {
	faults := []string{"kubelet-kill", "manager-kill", "node-partition", "node-reboot"}
	faulty := map[string]int{} // How many faults there are of each.
	for _, s := range scenarios.All() {
		if !strings.HasPrefix(s.Name, "set-") {
			continue
		}
		want := ""
		for _, f := range faults {
			if strings.HasSuffix(s.Name, "-"+f) {
				want = f
			}
		}
		if want == "" {
			faulty[s.Name] += 0
		} else {
			faulty[strings.TrimSuffix(s.Name, "-"+want)]++
		}
		for seed := range uint64(50) {
			var had []string
			steps := plan.Make(s, seed).AllSteps()
			for i, step := range steps {
				if step.Fault == nil || !slices.Contains(faults, step.Fault.Name) {
					continue
				}
				had = append(had, step.Fault.Name)
				if before := steps[i-1].Await; before == nil || !before.Moment() {
					t.Fatalf("scenario %q, seed %d: step %d comes after %q", s.Name, seed, step.N, steps[i-1].Do)
				}
			}
			if got := strings.Join(had, " "); got != want {
				t.Fatalf("scenario %q, seed %d: has the faults %q, want %q", s.Name, seed, got, want)
			}
		}
	}
	for name, n := range faulty {
		without := n == 0 && (strings.HasSuffix(name, "-disk") || strings.HasPrefix(name, "set-binding-") ||
			name == "set-storage-full-light")
		if all := 4; n != all && (n != 2 || !strings.HasPrefix(name, "set-node-gone")) && !without {
			t.Errorf("scenario %q is there with %d faults, want %d", name, n, all)
		}
	}
}

// TestDatabasesAreLookedAtBetweenFaults holds that a StatefulSet of databases works and is read back between one fault
// and the next that is not within it: the checks demand it, and would have nothing to show otherwise.
func TestDatabasesAreLookedAtBetweenFaults(t *testing.T) {
	for _, s := range scenarios.All() {
		if !strings.HasPrefix(s.Name, "set-") {
			continue
		}
		for seed := range uint64(50) {
			p := plan.Make(s, seed)
			if p.Workload.Light {
				break
			}
			loaded, checked := false, false
			for _, step := range p.Steps {
				loaded = loaded || step.Do == plan.ActionLoad
				checked = checked || step.Do == plan.ActionChecksum
				if !hurts(step) {
					continue
				}
				if !loaded || !checked {
					t.Fatalf("scenario %q, seed %d: nothing was written and read back before step %d", s.Name, seed,
						step.N)
				}
				loaded, checked = false, false
			}
			if !loaded || !checked {
				t.Fatalf("scenario %q, seed %d: nothing was written and read back at the end", s.Name, seed)
			}
		}
	}
}

// hurts reports whether a step is a fault or has one within it.
func hurts(step plan.Step) bool {
	return step.Fault != nil || slices.ContainsFunc(step.During, hurts)
}

func mustFind(t *testing.T, name string) plan.Scenario {
	t.Helper()
	all := scenarios.All()
	i := slices.IndexFunc(all, func(s plan.Scenario) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no scenario %q", name)
	}
	return all[i]
}

var update = flag.Bool("update", false, "write the golden files anew")

func TestGoldenPlans(t *testing.T) {
	for _, s := range scenarios.All() {
		shown := strings.HasSuffix(s.Name, "-light") ||
			slices.Contains([]string{"set-scale-node-reboot", "set-node-gone", "set-node-gone-backup"}, s.Name)
		if strings.HasPrefix(s.Name, "set-") && !shown {
			continue // They are as the light ones, with a load, and with a fault, of which one is shown.
		}
		p := plan.Make(s, 42)
		var text bytes.Buffer
		if err := p.Render(&text); err != nil {
			t.Fatal(err)
		}
		golden(t, s.Name+".txt", text.Bytes())
		golden(t, s.Name+".json", encode(t, p))
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (-want +got); go test -update writes it anew:\n%s", path, d)
	}
}
