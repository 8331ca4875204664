package faulttest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	restfake "k8s.io/client-go/rest/fake"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/fault/mesh"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/probe"
	"github.com/seatrial/seatrial/clusters/fake"
)

// chaosMesh is the Chaos Mesh of the world, which knows one experiment: to stress the workload's pod.
type chaosMesh struct {
	absent bool   // It is not installed.
	lies   bool   // It says that it did what it did not.
	stuck  bool   // It does not recover, unless it is forced to.
	other  bool   // It takes another pod than it was told to.
	name   string // Of the object that is there; empty when none is.
	since  time.Time
	ends   time.Duration // Its duration.
	gone   time.Time     // When it is gone, once it is deleted.
	pod    string        // The uid of the pod that it stresses.
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
		list.APIResources = []metav1.APIResource{{Name: "stresschaos", Kind: "StressChaos"}}
	}
	return list, nil
}

func (d meshKinds) RESTClient() rest.Interface {
	return &restfake.RESTClient{
		NegotiatedSerializer: scheme.Codecs.WithoutConversion(), Client: restfake.CreateHTTPClient(d.w.answerMesh),
	}
}

// answerMesh is the API server for the objects of Chaos Mesh.
func (w *world) answerMesh(r *http.Request) (*http.Response, error) {
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
		if w.mesh.name != name {
			return respond(http.StatusNotFound, metav1.Status{Status: "Failure", Reason: "NotFound", Code: 404}), nil
		}
		return respond(http.StatusOK, w.meshStatus()), nil
	case http.MethodPost:
		return respond(http.StatusCreated, nil), w.write(argv, string(body), func() error { return w.experiment(body) })
	case http.MethodPatch:
		return respond(http.StatusOK, nil), w.write(argv, string(body), func() error {
			w.mesh.gone = time.Now()
			return nil
		})
	}
	return respond(http.StatusOK, nil), w.write(argv, "", func() error {
		if w.mesh.name == name && w.mesh.gone.IsZero() && !w.mesh.stuck {
			w.mesh.gone = time.Now().Add(2 * time.Second)
		}
		return nil
	})
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
	w.mesh.name, w.mesh.since, w.mesh.gone = obj.Metadata.Name, time.Now(), time.Time{}
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
	def := mesh.Experiment()
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
			inWorld(t, mesh.Experiment(), tc.change, func(t *testing.T, w *world, b faulttest.Bench) {
				_, err := faulttest.Run(t.Context(), mesh.Experiment(), b, nil)
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
	inWorld(t, mesh.Experiment(), stuck, func(t *testing.T, w *world, b faulttest.Bench) {
		r, err := faulttest.Run(t.Context(), mesh.Experiment(), b, nil)
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
	inWorld(t, mesh.Experiment(), func(*world) {}, func(t *testing.T, w *world, b faulttest.Bench) {
		f, err := mesh.Experiment().New(b.Spec, 1, b.Env)
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

// TestWhatIsLeftToChaosMeshOnPaper holds the manifest in a plan against the rules.
func TestWhatIsLeftToChaosMeshOnPaper(t *testing.T) {
	for name, tc := range map[string]struct{ old, new, want string }{
		"legal":          {"", "", ""},
		"an unknown key": {`"load": 80`, `"lode": 80`, "manifest.spec.stressors.cpu.lode"},
		"another victim": {"mysql-1", "mysql-2", "manifest.spec.selector"},
		"a whole file":   {"StressChaos", "Workflow", "manifest"},
	} {
		f := plan.Fault{Name: "mesh", Ordinal: 1, Manifest: json.RawMessage(
			strings.Replace(string(stress()), tc.old, tc.new, 1))}
		got := mesh.Experiment().Check(f, plan.Workload{StatefulSet: "mysql", Replicas: 3})
		if tc.want == "" != (len(got) == 0) || len(got) > 0 && !strings.HasPrefix(got[0].Field, tc.want) {
			t.Errorf("%s: got %v, want %q", name, got, tc.want)
		}
	}
}
