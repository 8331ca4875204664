package upgrade_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	kube "k8s.io/client-go/kubernetes/fake"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/chaos/upgrade"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/fake"
)

const to = "v1.37.0"

// stocked is a cluster whose nodes can be upgraded.
type stocked struct{ *fake.Cluster }

func (stocked) Stock(context.Context, string) (string, error) { return "/stock", nil }

// trial is the upgrade of one node, and what was recorded of it, as "kubeadm" and "kubeadm ended" or "kubeadm failed".
type trial struct {
	upgrade.Config

	cluster *fake.Cluster
	parts   []string
}

// of makes the upgrade of a node, which is Ready at the new version.
func of(suffix string, u plan.Upgrade) *trial {
	c := fake.NewCluster("c", 1)
	c.On([]string{"..."}, fake.Reply{})
	node := c.Node(suffix)
	ready := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name()}}
	ready.Status.NodeInfo.KubeletVersion = to
	ready.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	u.To = to
	t := &trial{cluster: c}
	t.Config = upgrade.Config{
		Env: fault.Env{Cluster: c, Kube: kube.NewClientset(ready), Node: node, Clock: bootclock.Now,
			Log: slog.New(slog.DiscardHandler)},
		Step: plan.Step{N: 1, Upgrade: &u}, Stocker: stocked{c}, NodeImage: "image",
		Drained: func(ctx context.Context, during func(context.Context) error) error {
			t.parts = append(t.parts, "cordoned")
			defer func() { t.parts = append(t.parts, "uncordoned") }()
			return during(ctx)
		},
		Settle: func(context.Context) error { return nil },
		Record: func(_ history.Span, u history.Upgrade) {
			said := string(u.Part)
			switch {
			case u.Error != "":
				said += " failed"
			case u.End:
				said += " ended"
			}
			t.parts = append(t.parts, said)
		},
	}
	return t
}

func (t *trial) commands() []string {
	var all []string
	for _, a := range t.cluster.Transcript.Acts() {
		all = append(all, strings.TrimPrefix(a.String(), "c-"))
	}
	return all
}

// each returns that a part begins and ends, for each.
func each(parts ...string) []string {
	var all []string
	for _, p := range parts {
		all = append(all, p, p+" ended")
	}
	return all
}

func TestControlPlane(t *testing.T) {
	u := of("control-plane", plan.Upgrade{Node: plan.UpgradeControlPlane})
	if err := u.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	const ignored = " --ignore-preflight-errors=CreateJob,SystemVerification"
	want := []string{
		"control-plane: ctr --namespace=k8s.io images import --all-platforms --no-unpack /stock/images.tar",
		"worker: ctr --namespace=k8s.io images import --all-platforms --no-unpack /stock/images.tar",
		"control-plane: cp /stock/kubeadm /usr/bin/kubeadm.new",
		"control-plane: mv /usr/bin/kubeadm.new /usr/bin/kubeadm",
		"control-plane: kubeadm upgrade plan v1.37.0" + ignored,
		"control-plane: kubeadm upgrade apply --yes v1.37.0" + ignored,
		"control-plane: cp /stock/kubelet /usr/bin/kubelet.new",
		"control-plane: mv /usr/bin/kubelet.new /usr/bin/kubelet",
		"control-plane: cp /stock/kubectl /usr/bin/kubectl.new",
		"control-plane: mv /usr/bin/kubectl.new /usr/bin/kubectl",
		"control-plane: systemctl daemon-reload",
		"control-plane: systemctl restart kubelet",
	}
	if d := cmp.Diff(want, u.commands()); d != "" {
		t.Errorf("commands (-want +got):\n%s", d)
	}
	parts := slices.Concat(each("stock", "kubeadm", "plan", "apply"), []string{"drain", "cordoned"},
		each("kubelet", "ready"), []string{"uncordoned", "drain ended"}, each("settled"))
	if d := cmp.Diff(parts, u.parts); d != "" {
		t.Errorf("parts (-want +got):\n%s", d)
	}
}

func TestWorker(t *testing.T) {
	u := of("worker", plan.Upgrade{Node: "worker-1", Undrained: true})
	if err := u.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(each("stock", "kubeadm", "node", "kubelet", "ready", "settled"), u.parts); d != "" {
		t.Errorf("parts (-want +got):\n%s", d)
	}
	if got := strings.Join(u.commands(), "\n"); strings.Contains(got, "ctr") ||
		!strings.Contains(got, "worker: kubeadm upgrade node --ignore") {
		t.Errorf("commands:\n%s", got)
	}
}

// TestReplaced holds what a node keeps when it joins again: its name, the kubelet's flags that are not kubeadm's own,
// and that it is cordoned.
func TestReplaced(t *testing.T) {
	u := of("worker", plan.Upgrade{Node: "worker-1", Replaced: true})
	old, err := u.ReadNode(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	old.Spec.Unschedulable, old.Annotations = true, map[string]string{undo.Cordon: "ours"}
	if _, err := u.Kube.CoreV1().Nodes().Update(t.Context(), old, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	u.cluster.On([]string{"cat", "..."}, fake.Reply{Stdout: `KUBELET_KUBEADM_ARGS="--node-ip=10.0.0.3 ` +
		`--pod-infra-container-image=pause:3.10 --node-labels=a=b,c=d"` + "\n"})
	u.cluster.On([]string{"kubeadm", "token", "create", "..."}, fake.Reply{Stdout: "kubeadm join c:6443 --token a.b " +
		"--discovery-token-ca-cert-hash sha256:12 \n"})
	config := ""
	u.cluster.On([]string{"kubeadm", "join", "..."}, fake.Reply{Do: func(ctx context.Context, _ clusters.Command,
		stdin string,
	) (clusters.Result, error) {
		config = stdin
		if gone, err := u.ReadNode(ctx); gone != nil || err != nil {
			t.Errorf("the old Node is there: %v, %v", gone, err)
		}
		old.Spec.Unschedulable, old.Annotations, old.UID, old.ResourceVersion = false, nil, "new", ""
		time.AfterFunc(100*time.Millisecond, func() { // kubeadm does not wait for it.
			if _, err := u.Kube.CoreV1().Nodes().Create(t.Context(), old, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		})
		return clusters.Result{}, nil
	}})
	if err := u.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := `apiVersion: kubeadm.k8s.io/v1beta4
discovery:
  bootstrapToken:
    apiServerEndpoint: c:6443
    caCertHashes:
    - sha256:12
    token: a.b
kind: JoinConfiguration
nodeRegistration:
  kubeletExtraArgs:
  - name: node-ip
    value: 10.0.0.3
  - name: node-labels
    value: a=b,c=d
  name: c-worker
`
	if d := cmp.Diff(want, config); d != "" {
		t.Errorf("kubeadm's configuration (-want +got):\n%s", d)
	}
	parts := slices.Concat(each("stock", "kubeadm"), []string{"drain", "cordoned"}, each("kubelet", "ready"),
		[]string{"uncordoned", "drain ended"}, each("settled"))
	if d := cmp.Diff(parts, u.parts); d != "" {
		t.Errorf("parts (-want +got):\n%s", d)
	}
	if last := u.commands()[len(u.commands())-1]; last != "control-plane: kubeadm token delete a.b" {
		t.Errorf("the last command is %q", last)
	}
	now, err := u.ReadNode(t.Context())
	if err != nil || now.UID != "new" || !now.Spec.Unschedulable || now.Annotations[undo.Cordon] != "ours" {
		t.Errorf("the new Node is %v, %v", now, err)
	}
}

// TestBack holds the order in which a control plane is taken back, that the API server emulates the version before in
// between, and that all manifests are as they were.
func TestBack(t *testing.T) {
	u := of("control-plane", plan.Upgrade{Node: plan.UpgradeControlPlane, Back: true})
	manifest := func(name, version string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - command:\n    - %s\n    - --v=1\n"+
			"    image: registry.example.com:5000/%[1]s:%s\n", name, version)
	}
	const before = "v1.36.3"
	names := []string{"kube-scheduler", "kube-controller-manager", "kube-apiserver"}
	files, put := map[string]string{}, []string(nil)
	all := func(version string) {
		for _, name := range names {
			files[undo.ManifestDir+name+".yaml"] = manifest(name, version)
		}
	}
	all(before)
	says := func(do func(argv []string, stdin string) string) fake.Reply {
		return fake.Reply{Do: func(_ context.Context, cmd clusters.Command, stdin string) (clusters.Result, error) {
			said := do(cmd.Argv, stdin)
			if cmd.Stdout == nil {
				return clusters.Result{Stdout: []byte(said)}, nil
			}
			_, err := io.WriteString(cmd.Stdout, said)
			return clusters.Result{}, err
		}}
	}
	u.cluster.On([]string{"cat", "..."}, says(func(argv []string, _ string) string { return files[argv[1]] }))
	u.cluster.On([]string{"kubeadm", "upgrade", "apply", "..."}, says(func([]string, string) string {
		all(to)
		return ""
	}))
	u.cluster.On([]string{"dd", "..."}, says(func(argv []string, stdin string) string {
		files[strings.TrimPrefix(argv[1], "of=")] = stdin
		return ""
	}))
	u.cluster.On([]string{"sha256sum", "..."}, says(func(argv []string, _ string) string {
		return fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(files[argv[1]])), argv[1])
	}))
	u.cluster.On([]string{"mv", "-f", "..."}, says(func(argv []string, _ string) string {
		files[argv[3]] = files[argv[2]]
		name, ok := strings.CutPrefix(argv[3], undo.ManifestDir)
		if !ok {
			return ""
		}
		version := to
		if strings.Contains(files[argv[3]], ":"+before) {
			version = before
		}
		name = strings.TrimSuffix(name, ".yaml")
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name + "-c-control-plane"}}
		pod.Spec.Containers = []corev1.Container{{Image: "registry.example.com:5000/" + name + ":" + version}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Ready: true}}
		put = append(put, name+" "+version)
		pods := u.Kube.CoreV1().Pods("kube-system")
		err := pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{})
		if err == nil || apierrors.IsNotFound(err) {
			_, err = pods.Create(t.Context(), pod, metav1.CreateOptions{})
		}
		if err != nil {
			t.Error(err)
		}
		return ""
	}))
	u.Version = func(context.Context) (version.Info, error) {
		server := files[undo.ManifestDir+"kube-apiserver.yaml"]
		is := version.Info{GitVersion: to, EmulationMajor: "1", EmulationMinor: "37"}
		if strings.Contains(server, "    - kube-apiserver\n    - --emulated-version=1.36\n    - --v=1\n") {
			is.EmulationMinor = "36"
			put = append(put, "emulated")
		}
		if strings.Contains(server, ":"+before) {
			is.GitVersion = before
		}
		return is, nil
	}
	if err := u.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"kube-apiserver " + to, "emulated", "kube-scheduler " + before,
		"kube-controller-manager " + before, "kube-apiserver " + before}
	if d := cmp.Diff(want, put); d != "" {
		t.Errorf("manifests (-want +got):\n%s", d)
	}
	for _, name := range names {
		if d := cmp.Diff(manifest(name, before), files[undo.ManifestDir+name+".yaml"]); d != "" {
			t.Errorf("manifest of %s (-want +got):\n%s", name, d)
		}
	}
	if d := cmp.Diff(each("stock", "kubeadm", "plan", "apply", "emulate", "back", "settled"), u.parts); d != "" {
		t.Errorf("parts (-want +got):\n%s", d)
	}
	if got := strings.Join(u.commands(), "\n"); strings.Contains(got, "kubelet.new") ||
		!strings.Contains(got, "--skip-phases=upload-config,") {
		t.Errorf("commands:\n%s", got)
	}
}

// TestFailure holds that nothing is done after a part that failed, and that the error says which it was.
func TestFailure(t *testing.T) {
	u := of("worker", plan.Upgrade{Node: "worker-1"})
	u.cluster.On([]string{"systemctl", "restart", "kubelet"}, fake.Reply{Stderr: "no such unit\n", ExitCode: 5})
	err := u.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), `upgrade node "c-worker" to v1.37.0: kubelet: `) ||
		!strings.HasSuffix(err.Error(), "it said last: no such unit") {
		t.Error(err)
	}
	want := slices.Concat(each("stock", "kubeadm", "node"), []string{"drain", "cordoned", "kubelet", "kubelet failed",
		"uncordoned", "drain failed"})
	if d := cmp.Diff(want, u.parts); d != "" {
		t.Errorf("parts (-want +got):\n%s", d)
	}
}

// TestDuring holds that what is planned with a part goes on beside it, and that the part is not over before.
func TestDuring(t *testing.T) {
	u := of("worker", plan.Upgrade{Node: "worker-1", At: "node"})
	runs, done := make(chan struct{}), make(chan struct{})
	u.cluster.On([]string{"kubeadm", "..."}, fake.Reply{Do: func(context.Context, clusters.Command, string) (
		clusters.Result, error,
	) {
		close(runs)
		<-done
		return clusters.Result{}, nil
	}})
	u.During = func(context.Context) error {
		<-runs
		close(done)
		return errors.New("the fault was not shown")
	}
	err := u.Run(t.Context())
	if want := `upgrade node "c-worker" to v1.37.0: node: the fault was not shown`; fmt.Sprint(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if last := u.parts[len(u.parts)-1]; last != "node failed" {
		t.Errorf("%s", last)
	}
}

// TestDuringIsGivenUp holds that what is planned with a part that fails is ended.
func TestDuringIsGivenUp(t *testing.T) {
	u := of("worker", plan.Upgrade{Node: "worker-1", At: "node"})
	u.cluster.On([]string{"kubeadm", "..."}, fake.Reply{ExitCode: 1})
	u.During = func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Minute):
			return errors.New("it was left alone")
		}
	}
	err := u.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the upgrade failed: ") {
		t.Error(err)
	}
}

// TestEtcdIsLookedAt holds that kubeadm gets its timeouts, and that what it leaves of etcd is recorded when it fails.
func TestEtcdIsLookedAt(t *testing.T) {
	u := of("control-plane", plan.Upgrade{
		Node: plan.UpgradeControlPlane, Timeouts: map[string]plan.Duration{"etcdAPICall": plan.Duration(time.Second)},
	})
	var config string
	u.cluster.On([]string{"kubeadm", "upgrade", "apply", "..."}, fake.Reply{Do: func(
		_ context.Context, cmd clusters.Command, stdin string,
	) (clusters.Result, error) {
		config = stdin
		_, err := io.WriteString(cmd.Stdout, "[upgrade] begin\n[upgrade/etcd] Etcd data rollback successful\n")
		return clusters.Result{Stderr: []byte("error: no etcd\n"), ExitCode: 1},
			errors.Join(err, errors.New("exit code 1"))
	}})
	u.cluster.On([]string{"curl", "..."}, fake.Reply{Stdout: `{"health":"true","reason":""}`})
	u.cluster.On([]string{"find", "..."}, fake.Reply{Stdout: "ab12  /var/lib/etcd/member/snap/db\n"})
	u.cluster.On([]string{"sh", "..."}, fake.Reply{Stdout: "2026 stderr F {\"level\":\"panic\"}\n"})
	var got history.EtcdData
	u.RecordEtcd = func(_ history.Span, d history.EtcdData) { got = d }
	if err := u.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "it said last: ") {
		t.Error(err)
	}
	want := history.EtcdData{
		Step: 1, Node: "c-control-plane", Healthy: true, Log: `2026 stderr F {"level":"panic"}`,
		Said:      []string{"[upgrade/etcd] Etcd data rollback successful", "error: no etcd"},
		Databases: map[string]string{"/var/lib/etcd/member/snap/db": "ab12"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("recorded (-want +got):\n%s", d)
	}
	for _, line := range []string{"kind: UpgradeConfiguration", "etcdAPICall: 1s", "kubernetesVersion: v1.37.0"} {
		if !strings.Contains(config, line) {
			t.Errorf("kubeadm's configuration has no %q:\n%s", line, config)
		}
	}
}
