package trial

import (
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
	fakecluster "github.com/seatrial/seatrial/clusters/fake"
	"github.com/seatrial/seatrial/e2e/certify/apitest"
)

// TestAnExperimentWithoutChaosMesh is refused before anything is touched, by what is missing.
func TestAnExperimentWithoutChaosMesh(t *testing.T) {
	p := plan.Plan{Steps: []plan.Step{{N: 1, Do: plan.ActionFault, Fault: &plan.Fault{Name: "mesh"}}}}
	if err := validateNew(AllParts(), p); err == nil || !strings.Contains(err.Error(), "--reuse") {
		t.Errorf("got %v", err)
	}
	p.Steps[0].Fault.Name = "kubelet-kill"
	if err := validateNew(AllParts(), p); err != nil {
		t.Error(err)
	}
	labels := map[string]string{
		"app.kubernetes.io/component": "controller-manager", "app.kubernetes.io/name": "chaos-mesh",
	}
	for want, tc := range map[string]struct {
		kinds     bool
		available int32
	}{
		"no CustomResourceDefinitions":     {},
		"no controller of it that is avai": {kinds: true},
		"":                                 {kinds: true, available: 1},
	} {
		kube := fake.NewClientset(&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "chaos-controller-manager", Namespace: "chaos-mesh", Labels: labels},
			Status:     appsv1.DeploymentStatus{AvailableReplicas: tc.available},
		})
		if tc.kinds {
			kube.Discovery().(*fakediscovery.FakeDiscovery).Resources = []*metav1.APIResourceList{
				{GroupVersion: "chaos-mesh.org/v1alpha1", APIResources: []metav1.APIResource{{Kind: "IOChaos"}}},
			}
		}
		err := chaosMeshOn(t.Context(), kube, "c")
		if want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// The limits of a session leave room for what the act of a fault waits, which its guard asks the nodes for.
func TestLimitsCountWaiting(t *testing.T) {
	f := plan.Fault{Name: "etcd-freeze", Hold: plan.Duration(time.Minute), Params: plan.Params{"upgraded": true}}
	p := plan.Plan{Steps: []plan.Step{{N: 1, Do: plan.ActionFault, Fault: &f}}}
	m := ClusterOptions{Access: &Access{}}
	m.Bound(AllParts(), 3, p)
	def, _ := AllParts().fault(f.Name)
	if got, want := m.Access.Faults.Longest, fault.Life(f)+7*time.Minute; got < want || got != def.Life(f) {
		t.Errorf("longest %s, want %s", got, def.Life(f))
	}
	if got, want := m.Access.Faults.Total, 3*def.Life(f); got != want {
		t.Errorf("total %s, want %s", got, want)
	}
}

// TestAnExistingClusterIsNotOnThisMachine: why it cannot is not said of the machine of the harness.
func TestAnExistingClusterIsNotOnThisMachine(t *testing.T) {
	upgrade, _ := AllParts().Named("upgrade")
	err := ValidateExisting(AllParts(), plan.Make(upgrade, 1), false)
	if err == nil || strings.Contains(err.Error(), "this machine") || !strings.Contains(err.Error(), "by kubeconfig") {
		t.Errorf("got %v", err)
	}
}

// TestAnUpgradeOfAClusterThatIsNotSteady is refused before anything is touched, by what is not as the plan begins.
func TestAnUpgradeOfAClusterThatIsNotSteady(t *testing.T) {
	upgrade, _ := AllParts().Named("upgrade")
	for want, change := range map[string]func(*apitest.Server, *corev1.Node){
		"": func(*apitest.Server, *corev1.Node) {},
		`kubernetes: is v1.36.3, and the API server of cluster "c" is v1.37.0; use`: func(s *apitest.Server,
			_ *corev1.Node,
		) {
			s.Version = "v1.37.0"
		},
		`kubernetes: is v1.36.3, and the kubelet of node n of cluster "c" is v1.35.1; use`: func(_ *apitest.Server,
			n *corev1.Node,
		) {
			n.Status.NodeInfo.KubeletVersion = "v1.35.1"
		},
		`steps: an upgrade begins on a steady cluster, and node n of cluster "c" is cordoned;`: func(
			_ *apitest.Server, n *corev1.Node,
		) {
			n.Spec.Unschedulable = true
		},
		"is not Ready: Unknown": func(_ *apitest.Server, n *corev1.Node) {
			n.Status.Conditions[0].Status = corev1.ConditionUnknown
		},
	} {
		s := apitest.Serve(t)
		n := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}}
		n.Name = "n"
		n.Status.NodeInfo.KubeletVersion = "v1.36.3"
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		change(s, n)
		s.Lists["/api/v1/nodes"] = []any{n}
		c := fakecluster.NewCluster("c", 3)
		c.Able.Can = append(c.Able.Can, clusters.CanUpgrade)
		config, err := os.ReadFile(s.Kubeconfig(t))
		if err != nil {
			t.Fatal(err)
		}
		c.Config = config
		err = ValidateOn(t.Context(), AllParts(), plan.Make(upgrade, 1), c)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestFeatureGatesOfAPlan: a cluster is used only if both components have each gate on.
func TestFeatureGatesOfAPlan(t *testing.T) {
	const gate, none = plan.RecreateGate, " of cluster \"c\" has no flag"
	recreate, ok := AllParts().Named("recreate-light")
	if !ok {
		t.Fatal("no scenario recreate-light")
	}
	p := plan.Make(recreate, 1)
	for _, c := range []struct{ name, server, manager, want string }{
		{"both", "A=false," + gate + "=true", gate + "=true", ""},
		{"off", gate + "=true", gate + "=false", "featureGates[0]: kube-controller-manager" + none},
		{"another", gate + "Two=true", gate + "=true", "featureGates[0]: kube-apiserver" + none},
		{"no pods", "", "", "featureGates[0]: kube-apiserver" + none},
	} {
		var pods []runtime.Object
		for i, component := range gated() {
			gates := []string{c.server, c.manager}[i]
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: component, Namespace: metav1.NamespaceSystem,
				Labels: map[string]string{"component": component}}}
			pod.Spec.Containers = []corev1.Container{{Command: []string{component, "--feature-gates=" + gates}}}
			if gates != "" {
				pods = append(pods, pod)
			}
		}
		err := gatesOn(t.Context(), fake.NewClientset(pods...), p.FeatureGates, "c")
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// TestAPlanThatTheClusterCannotCarryOut is refused on paper, by fault, need and cluster.
func TestAPlanThatTheClusterCannotCarryOut(t *testing.T) {
	smoke, ok := AllParts().Named("smoke")
	if !ok {
		t.Fatal("no scenario smoke")
	}
	p := plan.Make(smoke, 1)
	c := fakecluster.NewCluster("small", p.Workers)
	if err := ValidateOn(t.Context(), AllParts(), p, c); err != nil {
		t.Errorf("a cluster that can do everything: %v", err)
	}
	few := ValidateOn(t.Context(), AllParts(), p, fakecluster.NewCluster("few", p.Workers-1))
	if want := `workers: 2 are needed, and cluster "few" has 1`; few == nil || !strings.Contains(few.Error(), want) {
		t.Errorf("a cluster with too few workers: %v, want %s", few, want)
	}
	c.Able = clusters.Capabilities{
		Can:    []string{clusters.CanAPI},
		Cannot: map[string]string{"systemd": "it runs OpenRC"},
	}
	err := ValidateOn(t.Context(), AllParts(), p, c)
	for _, want := range []string{"fault \"", "needs \"systemd\"", "cluster \"small\": it runs OpenRC"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	// Undo is armed by systemd, whatever the faults need.
	p.Steps = []plan.Step{{N: 1, Do: plan.ActionFault, Bound: plan.Duration(time.Minute), Fault: &plan.Fault{
		Name: "pod-delete", Hold: plan.Duration(time.Second),
	}}}
	err = ValidateOn(t.Context(), AllParts(), p, c)
	if err == nil || !strings.Contains(err.Error(), "undo is armed by systemd on the nodes: it runs OpenRC") {
		t.Errorf("a cluster without systemd: %v", err)
	}
	c.Able = clusters.Capabilities{
		Can:    []string{clusters.CanAPI, clusters.CanSystemd},
		Cannot: map[string]string{"shared-dir": "its nodes are machines"},
	}
	p.Workload.Storage, p.Workload.Fencing = plan.StorageSharedDisk, "single"
	err = ValidateOn(t.Context(), AllParts(), p, c)
	want := `workload.storage: cluster "small": disks of storage "shareddisk" are files that all nodes see: ` +
		`its nodes are machines; use "local"`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a cluster whose nodes share nothing: %v, want %s", err, want)
	}
	if got := c.Transcript.Acts(); len(got) > 0 {
		t.Errorf("it ran %v", got)
	}
}
