package upgrade

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/yaml"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/nodefile"
)

const (
	apiServer = "kube-apiserver"
	// backBound is how long a component may take to be another version.
	backBound = 4 * time.Minute
	// besideManifests is where a manifest is written before it takes its place. The kubelet reads every file of the
	// directory of manifests, so it is not there, and on the same file system.
	besideManifests = "/etc/kubernetes/seatrial-upgrade"
)

// components are those of the control plane that are taken back, in that order: no other may be newer than the API
// server (Kubernetes documentation, Version Skew Policy).
func components() []string { return []string{"kube-scheduler", "kube-controller-manager", apiServer} }

// manifests returns the manifests of the components on the node, by component.
func (c Config) manifests(ctx context.Context) (map[string]string, error) {
	found := map[string]string{}
	for _, name := range components() {
		text, err := clusters.Run(ctx, c.Node, "cat", undo.ManifestDir+name+".yaml")
		if err != nil {
			return nil, fmt.Errorf("read manifest of %s: %w", name, err)
		}
		found[name] = text
	}
	return found, nil
}

// back takes the components back to the version of their former manifests. The API server emulates that version first,
// so that nothing is stored that the former one does not know (Kubernetes documentation, Compatibility Version For
// Kubernetes Control Plane Components).
func (c Config) back(ctx context.Context, former map[string]string) error {
	images := map[string]string{}
	for _, name := range components() {
		var pod corev1.Pod
		if err := yaml.Unmarshal([]byte(former[name]), &pod); err != nil {
			return fmt.Errorf("read manifest of %s: %w", name, err)
		}
		if len(pod.Spec.Containers) != 1 {
			return fmt.Errorf("read manifest of %s: it has %d containers", name, len(pod.Spec.Containers))
		}
		images[name] = pod.Spec.Containers[0].Image
	}
	_, tag, _ := strings.Cut(path.Base(images[apiServer]), ":")
	before, err := version.ParseSemantic(tag)
	if err != nil {
		return fmt.Errorf("read version of image %q: %w", images[apiServer], err)
	}
	err = c.part(ctx, history.UpgradeEmulate, func(ctx context.Context) error {
		now, err := c.manifests(ctx)
		if err != nil {
			return err
		}
		const command = "    - " + apiServer + "\n"
		minor := fmt.Sprintf("%d.%d", before.Major(), before.Minor())
		if !strings.Contains(now[apiServer], command) {
			return fmt.Errorf("read manifest of %s: its command is not as kubeadm writes it", apiServer)
		}
		changed := strings.Replace(now[apiServer], command, command+"    - --emulated-version="+minor+"\n", 1)
		if err := c.put(ctx, apiServer, changed); err != nil {
			return err
		}
		return c.answers(ctx, func(v apiversion.Info) bool {
			return v.GitVersion == c.Step.Upgrade.To && v.EmulationMajor+"."+v.EmulationMinor == minor
		}, fmt.Sprintf("the API server to be %s and to emulate %s", c.Step.Upgrade.To, minor))
	})
	if err != nil {
		return err
	}
	return c.part(ctx, history.UpgradeBack, func(ctx context.Context) error {
		for _, name := range components() {
			if err := c.put(ctx, name, former[name]); err != nil {
				return err
			}
			if err := c.runs(ctx, name, images[name]); err != nil {
				return err
			}
		}
		return c.answers(ctx, func(v apiversion.Info) bool { return v.GitVersion == tag },
			"the API server to be "+tag)
	})
}

// put replaces the manifest of a component at once.
func (c Config) put(ctx context.Context, name, manifest string) error {
	if _, err := nodefile.Place(ctx, c.Node, besideManifests, []byte(manifest), "0600"); err != nil {
		return fmt.Errorf("change manifest of %s: %w", name, err)
	}
	return c.run(ctx, "mv", "-f", besideManifests, undo.ManifestDir+name+".yaml")
}

// answers waits until the API server's version is as wanted.
func (c Config) answers(ctx context.Context, wanted func(apiversion.Info) bool, what string) error {
	return await.Until(ctx, what, lookEvery, backBound, func(ctx context.Context) (bool, string, error) {
		is, err := c.Version(ctx)
		return err == nil && wanted(is), fmt.Sprintf("%s, emulates %s.%s", is.GitVersion, is.EmulationMajor,
			is.EmulationMinor), err
	})
}

// runs waits until the kubelet reports that a component is Ready with an image.
func (c Config) runs(ctx context.Context, name, image string) error {
	what := fmt.Sprintf("%s to be Ready with image %s", name, image)
	return await.Until(ctx, what, lookEvery, backBound, func(ctx context.Context) (bool, string, error) {
		pod, err := c.Kube.CoreV1().Pods(metav1.NamespaceSystem).Get(ctx, name+"-"+c.Node.Name(), metav1.GetOptions{})
		if err != nil {
			return false, "", fmt.Errorf("get pod: %w", err)
		}
		last := fmt.Sprintf("image %s", pod.Spec.Containers[0].Image)
		for _, s := range pod.Status.ContainerStatuses {
			last += fmt.Sprintf(", Ready %t", s.Ready)
			if s.Ready && pod.Spec.Containers[0].Image == image {
				return true, last, nil
			}
		}
		return false, last, nil
	})
}
