package kind

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/yaml"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/linux"
	"github.com/seatrial/seatrial/clusters/offline"
)

// runLabel is the label of Kubernetes nodes with the run ID.
const runLabel = "seatrial.dev/run"

// maxWorkers is a bound against slips of the keyboard.
const maxWorkers = 20

// Kubelets from 1.35 on refuse cgroup v1 unless told otherwise (k/k KEP-4569). Those from 1.31 on know the field: told
// from the begin, a cluster can be upgraded.
const kubeletCgroupV1 = `kind: KubeletConfiguration
failCgroupV1: false
`

// A container that is killed again and again is held back for up to 40 s, the third of the waits that the kubelet
// doubles, and not for 300 s: a control plane whose parts are killed by trial after trial would be away for longer than
// any of them waits. Kubelets from 1.35 on can be told so (KEP-4603).
const kubeletBackOff = `kind: KubeletConfiguration
crashLoopBackOff:
  maxContainerRestartPeriod: 40s
`

// Without CAP_SYS_RESOURCE nothing can lower its OOM score below that of its parent, and containerd must not try. The
// setting has another place in each version of its configuration; kind leaves out the one that does not fit.
//
// Images under builtImage need no patch: tools/offline makes the setting part of them, or fails, and kind
// restarts containerd on every node after a patch.
const (
	builtImage        = offline.NodeImageRepository + ":"
	containerdV2Patch = `version = 2
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
`
	containerdV3Patch = `version = 3
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
`
)

// validate checks a spec before anything is touched.
func validate(spec clusters.Spec) error {
	if err := clusters.ValidateName(spec.Name); err != nil {
		return err
	}
	switch {
	case spec.Workers < 0 || spec.Workers > maxWorkers:
		return fmt.Errorf("Spec.Workers is %d; want 0 to %d", spec.Workers, maxWorkers)
	case spec.NodeImage == "":
		return fmt.Errorf("Spec.NodeImage is empty; name an image that the engine has")
	case spec.RunID == "" || len(validation.IsValidLabelValue(spec.RunID)) > 0:
		return fmt.Errorf("Spec.RunID %q cannot be a label; use letters, digits, dots and dashes", spec.RunID)
	}
	if _, err := version.ParseSemantic(spec.KubernetesVersion); err != nil {
		return fmt.Errorf("Spec.KubernetesVersion %q: %w; write it like v1.37.0", spec.KubernetesVersion, err)
	}
	return nil
}

// config makes kind's configuration. The IP family is kind's default: pods and services have IPv4, and the nodes have
// addresses of both families on kind's network.
func (p *Provider) config(ctx context.Context, spec clusters.Spec) (*v1alpha4.Cluster, error) {
	if err := validate(spec); err != nil {
		return nil, err
	}
	cfg := &v1alpha4.Cluster{
		TypeMeta: v1alpha4.TypeMeta{Kind: "Cluster", APIVersion: "kind.x-k8s.io/v1alpha4"},
		Name:     spec.Name,
	}
	for i := range spec.Workers + 1 {
		role := v1alpha4.WorkerRole
		if i == 0 {
			role = v1alpha4.ControlPlaneRole
		}
		cfg.Nodes = append(cfg.Nodes, v1alpha4.Node{
			Role: role, Image: spec.NodeImage, Labels: map[string]string{runLabel: spec.RunID},
			ExtraMounts: []v1alpha4.Mount{
				{HostPath: "/dev/null", ContainerPath: markDir + spec.RunID, Readonly: true},
				// Not propagated: a mount that a node makes below it is that node's alone.
				{HostPath: p.shared.dir(spec.Name), ContainerPath: clusters.SharedDir},
			},
		})
	}
	v1, err := p.engine.cgroupV1(ctx)
	if err != nil {
		return nil, err
	}
	kubelet := version.MustParseSemantic(spec.KubernetesVersion)
	if kubelet.AtLeast(version.MustParseSemantic("1.35.0-0")) {
		cfg.KubeadmConfigPatches = []string{kubeletBackOff}
	}
	if v1 && kubelet.AtLeast(version.MustParseSemantic("1.31.0-0")) {
		cfg.KubeadmConfigPatches = append(cfg.KubeadmConfigPatches, kubeletCgroupV1)
	}
	own, err := patches(spec)
	if err != nil {
		return nil, err
	}
	cfg.KubeadmConfigPatches = append(cfg.KubeadmConfigPatches, own...)
	if p.lacksResource && !strings.HasPrefix(spec.NodeImage, builtImage) {
		cfg.ContainerdConfigPatches = []string{containerdV2Patch, containerdV3Patch}
	}
	return cfg, nil
}

// patches returns merge patches for the flags and the fields of a spec. kubeadm's v1beta3 has the flags of a component
// as a map and v1beta4 as a list, which a patch replaces as a whole; kind applies the patch of the version that it
// writes.
func patches(spec clusters.Spec) ([]string, error) {
	var objects []map[string]any
	maps3 := map[string]any{"kind": "ClusterConfiguration", "apiVersion": "kubeadm.k8s.io/v1beta3"}
	lists4 := map[string]any{"kind": "ClusterConfiguration", "apiVersion": "kubeadm.k8s.io/v1beta4"}
	fields := map[string]string{"kube-apiserver": "apiServer", "kube-controller-manager": "controllerManager",
		"kube-scheduler": "scheduler"}
	for component, flags := range spec.Flags {
		field := fields[component]
		if field == "" {
			return nil, fmt.Errorf("Spec.Flags: component %q has no flags here; want one of %q", component,
				slices.Sorted(maps.Keys(fields)))
		}
		all := maps.Clone(flags)
		if component == "kube-controller-manager" {
			all["enable-hostpath-provisioner"] = "true" // As kind has it.
		}
		var list []map[string]string
		for _, name := range slices.Sorted(maps.Keys(all)) {
			list = append(list, map[string]string{"name": name, "value": all[name]})
		}
		maps3[field], lists4[field] = map[string]any{"extraArgs": flags}, map[string]any{"extraArgs": list}
	}
	if len(spec.Flags) > 0 {
		objects = append(objects, maps3, lists4)
	}
	if len(spec.Kubelet) > 0 {
		fields := maps.Clone(spec.Kubelet)
		fields["kind"] = "KubeletConfiguration"
		objects = append(objects, fields)
	}
	var all []string
	for _, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("Spec.Flags, Spec.Kubelet: %w", err)
		}
		all = append(all, string(text))
	}
	return all, nil
}

// lacksSysResource reports whether CAP_SYS_RESOURCE is outside this process's bounding set, and so outside that of
// every container on this machine.
func lacksSysResource() (bool, error) {
	has, err := linux.MayHave(linux.CapSysResource)
	if err != nil {
		return false, fmt.Errorf("read capabilities: %w", err)
	}
	return !has, nil
}
