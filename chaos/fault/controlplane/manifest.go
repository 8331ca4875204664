package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/nodefile"
)

// errSet is wrapped by the error for a flag that is already set.
var errSet = errors.New("it is set already")

// manifestMode is kubeadm's file mode of manifests.
const manifestMode = "0600"

// withFlag returns the kube-controller-manager's manifest with the flag on its command line. It is an error if the flag
// is set already, and if the manifest has a field that the API's types would drop.
func withFlag(manifest []byte) ([]byte, error) {
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(manifest, &pod); err != nil {
		return nil, fmt.Errorf("read manifest of %q: %w", manager, err)
	}
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == manager })
	if i < 0 {
		return nil, fmt.Errorf("read manifest of %q: its pod has no container of that name", manager)
	}
	c := &pod.Spec.Containers[i]
	set := flag + "=true"
	for _, args := range []*[]string{&c.Command, &c.Args} {
		if slices.Contains(*args, set) || slices.Contains(*args, flag) {
			return nil, fmt.Errorf("set %s of %q: %w", set, manager, errSet)
		}
		*args = slices.DeleteFunc(*args, func(a string) bool { return strings.HasPrefix(a, flag+"=") })
	}
	if len(c.Args) > 0 || len(c.Command) == 0 {
		c.Args = append(c.Args, set)
	} else {
		c.Command = append(c.Command, set)
	}
	changed, err := yaml.Marshal(&pod)
	if err != nil {
		return nil, fmt.Errorf("write manifest of %q: %w", manager, err)
	}
	return changed, nil
}

// pausePod returns the manifest of a pod with the same name that runs nothing: its image does not exist.
func pausePod(manifest []byte) ([]byte, error) {
	var pod corev1.Pod
	if err := yaml.Unmarshal(manifest, &pod); err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	if pod.Name == "" {
		return nil, errors.New("read manifest: its pod has no name")
	}
	pod = corev1.Pod{
		TypeMeta:   pod.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, Labels: pod.Labels},
		Spec: corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{
			Name: "nothing", Image: "localhost/seatrial/nothing:none", ImagePullPolicy: corev1.PullNever,
		}}},
	}
	changed, err := yaml.Marshal(&pod)
	if err != nil {
		return nil, fmt.Errorf("write manifest of a pod that runs nothing: %w", err)
	}
	return changed, nil
}

// manifestsBack returns the undo that restores a manifest's present content on each node.
func manifestsBack(ctx context.Context, nodes []clusters.Node, owner undo.Owner, name string) ([]undo.Task, error) {
	beside := undo.BesideManifests(owner)
	var tasks []undo.Task
	for _, n := range nodes {
		now, err := clusters.Run(ctx, n, "cat", undo.ManifestDir+name)
		if err != nil {
			return nil, fmt.Errorf("read manifest %q: %w", name, err)
		}
		tasks = append(tasks, undo.Task{Node: n, Actions: []undo.Action{
			undo.Restore(undo.ManifestDir+name, now), undo.Command("rm", "-f", beside, beside+".new"),
		}})
	}
	return tasks, nil
}

// swap atomically replaces a manifest on a node by what change makes of it.
func swap(ctx context.Context, node clusters.Node, owner undo.Owner, name string,
	change func([]byte) ([]byte, error),
) error {
	before, err := clusters.Run(ctx, node, "cat", undo.ManifestDir+name)
	if err != nil {
		return fmt.Errorf("read manifest %q: %w", name, err)
	}
	after, err := change([]byte(before))
	if err != nil {
		return err
	}
	beside := undo.BesideManifests(owner)
	if _, err := nodefile.Place(ctx, node, beside, after, manifestMode); err != nil {
		return fmt.Errorf("change manifest %q: %w", name, err)
	}
	if _, err := clusters.Run(ctx, node, "mv", "-f", beside, undo.ManifestDir+name); err != nil {
		return fmt.Errorf("change manifest %q: %w", name, err)
	}
	return nil
}
