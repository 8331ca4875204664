package faulttest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/genall"
	"sigs.k8s.io/yaml"

	"github.com/seatrial/seatrial/chaos/fault/chaosmesh"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/chaos/undo/apileaks"
	"github.com/seatrial/seatrial/clusters"
)

// meshSource is the package of Chaos Mesh's API, from whose source its own build makes its CRDs, with the same
// generator.
const meshSource = "github.com/chaos-mesh/chaos-mesh/api/v1alpha1"

// meshCRDs makes the CRDs of Chaos Mesh, and returns the directory that they are in.
func meshCRDs(t *testing.T) string {
	t.Helper()
	dir, noDescriptions := t.TempDir(), 0
	gen := genall.Generator(crd.Generator{MaxDescLen: &noDescriptions})
	run, err := genall.Generators{&gen}.ForRoots(meshSource)
	if err != nil {
		t.Fatal(err)
	}
	run.OutputRules.Default = genall.OutputToDirectory(dir)
	run.ErrorWriter = t.Output()
	if run.Run() {
		t.Fatal("make the CRDs of Chaos Mesh: see above")
	}
	return dir
}

// experiments installs the kinds of Chaos Mesh, and nothing that carries an experiment out. The API server must take
// the manifests that we take, with strict validation; an object of ours must go although its harness was killed; and
// nobody is believed who says that it had an effect.
func (m *matrix) experiments(t *testing.T, on clusters.Node) {
	ctx := t.Context()
	config, err := m.config(ctx)
	if err != nil {
		t.Error(err)
		return
	}
	log.SetLogger(klog.Background()) // What installs them says so only there.
	these := envtest.CRDInstallOptions{Paths: []string{meshCRDs(t)}}
	crds, err := envtest.InstallCRDs(config, these)
	if err != nil {
		t.Errorf("install the CRDs of Chaos Mesh: %v", err)
		return
	}
	defer func() {
		if err := envtest.UninstallCRDs(config, these); err != nil {
			t.Errorf("uninstall the CRDs of Chaos Mesh: %v", err)
		}
	}()
	api, err := client.New(config, client.Options{})
	if err != nil {
		t.Error(err)
		return
	}
	taken, err := takes(ctx, api)
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d CRDs of Chaos Mesh; the API server takes %d manifests as they stand", len(crds), taken)
	if err := m.unbelieved(ctx, on, api); err != nil {
		t.Errorf("who says AllInjected and does nothing: %v", err)
	}
	run := runPrefix + "-mesh"
	seen := m.watchAPI(ctx, run, history.ThingExperiment)
	point := faulttest.KillPoint{Stage: history.StageInjected}
	c, ok := m.kill(ctx, chaosmesh.Experiment(), on, point, run)
	if was := seen(); !ok || c.err != nil || !was {
		t.Errorf("the harness of an experiment is killed: %t, %v; it was there: %t; left before: %s", ok, c.err, was,
			c.last)
	}
	t.Logf("an experiment's harness killed: gone %s after the kill; before: %s", c.healed, c.last)
}

// watchAPI looks for things of a class that a run leaves in the API, until the function that it returns is called. That
// one says whether any was there.
func (m *matrix) watchAPI(ctx context.Context, run, class string) (seen func() bool) {
	ctx, stop := context.WithCancel(ctx)
	found := make(chan bool, 1) // Nobody may ask.
	go func() {
		tick := time.NewTicker(3 * time.Second) // Others ask with the same client.
		defer tick.Stop()
		was := false
		for ctx.Err() == nil {
			things, err := apileaks.Look(ctx, m.kube, nil)
			was = was || err == nil && slices.ContainsFunc(things, func(t history.Thing) bool {
				return t.Class == class && t.Run == run
			})
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
		found <- was
	}()
	return func() bool {
		stop()
		return <-found
	}
}

func (m *matrix) config(ctx context.Context) (*rest.Config, error) {
	kubeconfig, err := m.cluster.Kubeconfig(ctx)
	if err != nil {
		return nil, err
	}
	return clientcmd.RESTConfigFromKubeConfig(kubeconfig)
}

// takes has the API server look at all manifests that are legal on paper, and at one that is not; it makes none.
func takes(ctx context.Context, api client.Client) (taken int, err error) {
	const pattern = "../chaosmesh/testdata/manifests/*.yaml"
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("no manifests at %s: %w", pattern, errors.Join(err, fs.ErrNotExist))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return taken, err
		}
		if _, err := chaosmesh.Parse(text); err != nil {
			return taken, fmt.Errorf("%s: %w", file, err)
		}
		for one := range strings.SplitSeq(string(text), "\n---\n") {
			obj := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(one), &obj.Object); err != nil {
				return taken, fmt.Errorf("%s: %w", file, err)
			}
			if err := strictly(ctx, api, obj); err != nil {
				return taken, fmt.Errorf("%s: %w", file, err)
			}
			obj.Object["spec"].(map[string]any)["modus"] = "all"
			if err := strictly(ctx, api, obj); err == nil || !strings.Contains(err.Error(), `"spec.modus"`) {
				return taken, fmt.Errorf("%s with an unknown field: %w, want an error that names it", file, err)
			}
			taken++
		}
	}
	return taken, nil
}

func strictly(ctx context.Context, api client.Client, obj *unstructured.Unstructured) error {
	obj = obj.DeepCopy()
	obj.SetNamespace(metav1.NamespaceDefault)
	return api.Create(ctx, obj, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
}

// unbelieved makes an experiment, and says in the name of Chaos Mesh that it is injected, which it is not.
func (m *matrix) unbelieved(ctx context.Context, on clusters.Node, api client.Client) error {
	run := runPrefix + "-lie"
	env, err := m.fit(ctx, chaosmesh.Experiment(), on, run)
	if err != nil {
		return err
	}
	f, err := chaosmesh.Experiment().New(spec(chaosmesh.Name), 1, env)
	if err != nil {
		return err
	}
	if err := f.Inject(ctx); err != nil {
		return err
	}
	left, err := m.leftInAPI(ctx, run, on)
	if err != nil || !slices.ContainsFunc(left, func(l string) bool { return strings.Contains(l, "StressChaos") }) {
		return fmt.Errorf("the residue has %q, %w, want the experiment", left, err)
	}
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion(apileaks.MeshGroup + "/" + apileaks.MeshVersion)
	obj.SetKind("StressChaos")
	obj.SetNamespace(env.Namespace)
	obj.SetName(undo.Owner{Run: run, Step: 1}.Name())
	lie, err := json.Marshal(map[string]any{"status": map[string]any{
		"conditions": []map[string]string{
			{"type": "Selected", "status": "True"}, {"type": "AllInjected", "status": "True"},
		},
		"experiment": map[string]any{"containerRecords": []map[string]any{{
			"id": env.Namespace + "/" + env.Pod + "/any", "selectorKey": ".", "phase": "Injected", "injectedCount": 1,
			"recoveredCount": 0,
		}}},
	}})
	if err != nil {
		return err
	}
	if err := api.Patch(ctx, obj, client.RawPatch("application/merge-patch+json", lie)); err != nil {
		return err
	}
	facts, err := f.Confirm(ctx)
	if err == nil || !strings.Contains(err.Error(), "in the pod is one of") {
		return fmt.Errorf("confirmed with %v, %w; want an error of our probe", facts, err)
	}
	if err := f.Heal(ctx); err != nil {
		return err
	}
	return m.well(ctx, f)
}
