package faulttest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	restfake "k8s.io/client-go/rest/fake"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/chaosmesh"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	apiobjects "github.com/seatrial/seatrial/chaos/undo/apileaks"
	"github.com/seatrial/seatrial/clusters/fake"
)

// chaosMesh is the Chaos Mesh of the world, which knows one experiment: to stress the workload's pod.
type chaosMesh struct {
	absent  bool   // It is not installed.
	lies    bool   // It says that it did what it did not.
	stuck   bool   // It does not recover, unless it is forced to.
	other   bool   // It takes another pod than it was told to.
	name    string // Of the object that is there; empty when none is.
	since   time.Time
	ends    time.Duration // Its duration.
	gone    time.Time     // When it is gone, once it is deleted.
	deleted time.Time
	labels  map[string]string
	pod     string // The uid of the pod that it stresses.
}

// stresses reports whether it does so now. The lock is held.
func (w *world) stresses() bool {
	c := &w.mesh
	if c.name != "" && !c.gone.IsZero() && !c.gone.After(time.Now()) {
		c.name = ""
	}
	over := c.ends > 0 && time.Since(c.since) > c.ends
	return c.name != "" && !c.lies && !over && time.Since(c.since) >= time.Second && w.pod != nil &&
		string(w.pod.UID) == c.pod
}

// stressor is the process that it stresses with, and that of a pod which has come after the first. The lock is held.
func (w *world) stressor() []probe.Process {
	var all []probe.Process
	if w.stresses() {
		all = append(all, probe.Process{PID: 7000, Start: w.time(w.mesh.since), Name: "stress-ng", PodUID: w.mesh.pod})
	}
	if w.pod != nil && w.pod.UID != workloadUID {
		all = append(all, probe.Process{PID: 950, Start: w.time(w.podBack), Name: "mysqld", PodUID: string(w.pod.UID)})
	}
	return all
}

// server is the API server of the world with the kinds of Chaos Mesh.
type server struct {
	kubernetes.Interface
	w *world
}

func (s server) Discovery() discovery.DiscoveryInterface {
	return meshKinds{s.Interface.Discovery(), s.w}
}

type meshKinds struct {
	discovery.DiscoveryInterface
	w *world
}

func (d meshKinds) ServerResourcesForGroupVersion(group string) (*metav1.APIResourceList, error) {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	list := &metav1.APIResourceList{GroupVersion: group}
	if !d.w.mesh.absent {
		list.APIResources = []metav1.APIResource{
			{Name: "stresschaos", Kind: "StressChaos"}, {Name: "stresschaos/status", Kind: "StressChaos"},
		}
	}
	return list, nil
}

func (d meshKinds) RESTClient() rest.Interface {
	return &restfake.RESTClient{
		NegotiatedSerializer: scheme.Codecs.WithoutConversion(), Client: restfake.CreateHTTPClient(d.w.answerMesh),
	}
}

// answerMesh is the API server for the objects of Chaos Mesh, and for requests in the name of others.
func (w *world) answerMesh(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Impersonate-User") != "" {
		return w.answerOther(r)
	}
	name := path.Base(r.URL.Path)
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	argv := []string{strings.ToLower(r.Method), r.URL.Path}
	if v := r.URL.Query().Get("fieldValidation"); v != "" {
		argv = append(argv, "--validate="+v)
	}
	switch r.Method {
	case http.MethodGet:
		w.mu.Lock()
		defer w.mu.Unlock()
		w.stresses()
		if name == "stresschaos" {
			return respond(http.StatusOK, map[string]any{"items": w.meshItems()}), nil
		}
		if w.mesh.name != name {
			return respond(http.StatusNotFound, metav1.Status{Status: "Failure", Reason: "NotFound", Code: 404}), nil
		}
		return respond(http.StatusOK, w.meshStatus()), nil
	case http.MethodPost:
		return answer(http.StatusCreated, w.write(argv, string(body), func() error { return w.experiment(body) }))
	case http.MethodPatch:
		return answer(http.StatusOK, w.write(argv, string(body), func() error {
			w.mesh.gone = time.Now()
			return nil
		}))
	}
	return answer(http.StatusOK, w.write(argv, "", func() error {
		w.endMesh(name)
		return nil
	}))
}

// answer is an empty one, or none.
func answer(code int, err error) (*http.Response, error) {
	if err != nil {
		return nil, err
	}
	return respond(code, nil), nil
}

// endMesh has Chaos Mesh end an experiment. The lock is held.
func (w *world) endMesh(name string) {
	if w.mesh.name != name || !w.mesh.deleted.IsZero() {
		return
	}
	w.mesh.deleted = time.Now()
	if !w.mesh.stuck {
		w.mesh.gone = time.Now().Add(2 * time.Second)
	}
}

// meshItems lists the experiment, if there is one. The lock is held.
func (w *world) meshItems() []any {
	if w.mesh.name == "" {
		return nil
	}
	return []any{w.meshObject()}
}

// meshObject is the experiment as kubectl lists it. The lock is held.
func (w *world) meshObject() map[string]any {
	meta := map[string]any{
		"name": w.mesh.name, "namespace": "trial", "labels": w.mesh.labels,
		"finalizers": []string{"chaos-mesh/records"},
	}
	if !w.mesh.deleted.IsZero() {
		meta["deletionTimestamp"] = w.mesh.deleted.Format(time.RFC3339)
	}
	return map[string]any{"apiVersion": "chaos-mesh.org/v1alpha1", "kind": "StressChaos", "metadata": meta}
}

// experiment is what Chaos Mesh does with a new object. The lock is held.
func (w *world) experiment(body []byte) error {
	var obj struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     struct {
			Duration string `json:"duration"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(body, &obj); err != nil {
		return err
	}
	w.mesh.name, w.mesh.labels = obj.Metadata.Name, obj.Metadata.Labels
	w.mesh.since, w.mesh.gone, w.mesh.deleted = time.Now(), time.Time{}, time.Time{}
	w.mesh.ends, _ = time.ParseDuration(obj.Spec.Duration)
	w.mesh.pod = string(w.pod.UID)
	return nil
}

func (w *world) meshStatus() map[string]any {
	pod := "trial/mysql-1/mysql"
	if w.mesh.other {
		pod = "trial/mysql-2/mysql"
	}
	phase, yes := "Not Injected", "False"
	if w.mesh.lies || w.stresses() {
		phase, yes = "Injected", "True"
	}
	return map[string]any{"metadata": map[string]any{"name": w.mesh.name}, "status": map[string]any{
		"conditions": []map[string]string{
			{"type": "Selected", "status": "True"}, {"type": "AllInjected", "status": yes},
		},
		"experiment": map[string]any{"containerRecords": []map[string]any{{
			"id": pod, "selectorKey": ".", "phase": phase, "events": []map[string]string{
				{"type": "Failed", "operation": "Apply", "message": "no daemon on the node"}},
		}}},
	}}
}

func respond(code int, v any) *http.Response {
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(encode(v))),
	}
}

// stress is an experiment that is left to Chaos Mesh, as it stands in a plan.
func stress() json.RawMessage {
	return json.RawMessage(`{"apiVersion": "chaos-mesh.org/v1alpha1", "kind": "StressChaos",
		"metadata": {"name": "busy", "namespace": "trial"}, "spec": {"mode": "all", "duration": "20s",
		"selector": {"pods": {"trial": ["mysql-1"]}}, "stressors": {"cpu": {"workers": 1, "load": 80}}}}`)
}

func TestWhatIsLeftToChaosMeshConforms(t *testing.T) {
	def := chaosmesh.Experiment()
	inWorld(t, def, func(*world) {}, func(t *testing.T, w *world, b faulttest.Bench) {
		if err := faulttest.Conform(t.Context(), def, b); err != nil {
			t.Error(err)
		}
	})
	inWorld(t, def, func(*world) {}, func(t *testing.T, w *world, b faulttest.Bench) {
		r, err := faulttest.Run(t.Context(), def, b, nil)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for _, a := range w.cluster.Transcript.Acts() {
			if a.Node == "api" {
				text.WriteString(a.String() + "\n")
			}
		}
		for _, f := range r.Facts() {
			fmt.Fprintf(&text, "%s\n", f.Stage)
			for _, e := range f.Evidence {
				fmt.Fprintf(&text, "    %s\n", e)
			}
		}
		golden(t, "mesh.txt", text.String())
	})
	for name, mode := range map[string]fake.CrashMode{
		"refused": fake.CrashError, "half": fake.CrashHalf, "panic": fake.CrashPanics,
	} {
		t.Run("crash/"+name, func(t *testing.T) {
			for _, n := range crashPoints(t, def) {
				synctest.Test(t, func(t *testing.T) { crashAt(t, def, n, mode) })
			}
		})
	}
}

// TestAnExperimentThatIsNone is found, whatever Chaos Mesh says of it.
func TestAnExperimentThatIsNone(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*world)
		stage  string
		says   string
	}{
		{"not installed", func(w *world) { w.mesh.absent = true }, "inject", "the cluster has no Chaos Mesh"},
		{"nothing is done", func(w *world) { w.inert = true }, "confirm", "it is not there any more"},
		{"it lies", func(w *world) { w.mesh.lies = true }, "confirm", "none of 1 processes in the pod is one of"},
		{"another pod", func(w *world) { w.mesh.other = true }, "confirm", `injected are ["trial/mysql-2"]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, chaosmesh.Experiment(), tc.change, func(t *testing.T, w *world, b faulttest.Bench) {
				_, err := faulttest.Run(t.Context(), chaosmesh.Experiment(), b, nil)
				if stageOf(err) != tc.stage || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("got %v, want an error of %s: %s", err, tc.stage, tc.says)
				}
				if w.mesh.name != "" && w.mesh.gone.IsZero() {
					t.Error("the object was left behind")
				}
			})
		})
	}
}

// TestAnExperimentThatDoesNotRecover is let go by force, after its pod was deleted and not before.
func TestAnExperimentThatDoesNotRecover(t *testing.T) {
	stuck := func(w *world) { w.mesh.stuck = true }
	inWorld(t, chaosmesh.Experiment(), stuck, func(t *testing.T, w *world, b faulttest.Bench) {
		r, err := faulttest.Run(t.Context(), chaosmesh.Experiment(), b, nil)
		if err != nil {
			t.Fatal(err)
		}
		deleted, forced := -1, -1
		for i, a := range w.cluster.Transcript.Acts() {
			switch line := a.String(); {
			case strings.Contains(line, "delete pod trial/mysql-1"):
				deleted = i
			case strings.HasPrefix(line, "api: patch"):
				forced = i
			}
		}
		if deleted < 0 || forced < deleted {
			t.Errorf("the pod was deleted at %d, the object forced at %d", deleted, forced)
		}
		if shown := evidenceOf(r, "confirmedHealed"); !strings.Contains(shown, "did not recover it") {
			t.Errorf("evidence %s", shown)
		}
	})
}

// TestWithoutAHarnessChaosMeshEndsIt by the duration that the object was given.
func TestWithoutAHarnessChaosMeshEndsIt(t *testing.T) {
	inWorld(t, chaosmesh.Experiment(), func(*world) {}, func(t *testing.T, w *world, b faulttest.Bench) {
		f, err := chaosmesh.Experiment().New(b.Spec, 1, b.Env)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Inject(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if !w.stresses() {
			t.Error("it never began")
		}
		time.Sleep(fault.Life(b.Spec))
		if w.stresses() {
			t.Error("it goes on")
		}
	})
}

// TestAHealFindsAnExperiment of its run, has Chaos Mesh end it, and does not say that all is well while it does not.
func TestAHealFindsAnExperiment(t *testing.T) {
	for name, stuck := range map[string]bool{"it recovers": false, "it does not": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, chaosmesh.Experiment(), func(w *world) { w.mesh.stuck = stuck }, func(
				t *testing.T, w *world, b faulttest.Bench,
			) {
				injected(t, chaosmesh.Experiment(), b)
				things, err := apiobjects.Look(t.Context(), b.Env.Kube, nil)
				want := "Chaos Mesh experiment StressChaos trial/seatrial-r1-1"
				left := func(t history.Thing) bool {
					return t.Run == "r1" && t.Step == 1 && strings.HasPrefix(t.String(), want)
				}
				if !slices.ContainsFunc(things, left) || err != nil {
					t.Errorf("residue: %v, %v, want %s", things, err, want)
				}
				other, err := undo.Cluster(t.Context(), allNodes(w), undo.Of("r2", 0))
				if did := apiOf(other); err != nil || len(did) > 0 {
					t.Errorf("of another run: %q, %v", did, err)
				}
				reports, err := undo.Cluster(t.Context(), allNodes(w), undo.Of("r1", 0))
				did := []string{"stresschaos trial/seatrial-r1-1 deleted (seatrial-r1-1)"}
				if d := cmp.Diff(did, apiOf(reports)); d != "" {
					t.Errorf("undone (-want +got):\n%s", d)
				}
				again, err2 := undo.Cluster(t.Context(), allNodes(w), nil)
				says := `it is held by finalizers ["chaos-mesh/records"]`
				if stuck {
					if err2 == nil || !strings.Contains(err2.Error(), says) {
						t.Errorf("it is still there: %v", err2)
					}
					return
				}
				undone := !w.stresses() && w.mesh.name == ""
				if err := errors.Join(err, err2); err != nil || len(apiOf(again)) > 0 || !undone {
					t.Errorf("healed twice: %q, %v, %q", apiOf(again), err, w.mesh.name)
				}
			})
		})
	}
}

// TestWhatIsLeftToChaosMeshOnPaper holds the manifest in a plan against the rules.
func TestWhatIsLeftToChaosMeshOnPaper(t *testing.T) {
	for name, tc := range map[string]struct{ old, new, want string }{
		"legal":          {"", "", ""},
		"an unknown key": {`"load": 80`, `"lode": 80`, "manifest.spec.stressors.cpu.lode"},
		"another victim": {"mysql-1", "mysql-2", "manifest.spec.selector"},
		"a whole file":   {"StressChaos", "Workflow", "manifest"},
	} {
		f := plan.Fault{Name: "mesh", Ordinal: 1, Params: plan.Params{"manifest": json.RawMessage(
			strings.Replace(string(stress()), tc.old, tc.new, 1))}}
		work := plan.Workload{StatefulSet: "mysql", Replicas: 3}
		got := chaosmesh.Experiment().Check(plan.Setting{Fault: f, Workload: work})
		if tc.want == "" != (len(got) == 0) || len(got) > 0 && !strings.HasPrefix(got[0].Field, tc.want) {
			t.Errorf("%s: got %v, want %q", name, got, tc.want)
		}
	}
}
