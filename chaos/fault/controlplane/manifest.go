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
// is set already.
func withFlag(manifest []byte) ([]byte, error) {
	return edit(manifest, manager, func(args []string) ([]string, error) {
		if slices.Contains(args, flagSet) || slices.Contains(args, flag) {
			return nil, fmt.Errorf("set %s of %q: %w", flagSet, manager, errSet)
		}
		args = slices.DeleteFunc(args, func(a string) bool { return strings.HasPrefix(a, flag+"=") })
		return append(args, flagSet), nil
	})
}

// edit returns a component's manifest with another command line. It is an error if the manifest has a field that the
// API's types would drop.
func edit(manifest []byte, component string, change func(args []string) ([]string, error)) ([]byte, error) {
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(manifest, &pod); err != nil {
		return nil, fmt.Errorf("read manifest of %q: %w", component, err)
	}
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == component })
	if i < 0 {
		return nil, fmt.Errorf("read manifest of %q: its pod has no container of that name", component)
	}
	c := &pod.Spec.Containers[i]
	line := slices.Concat(c.Command, c.Args)
	words := min(len(c.Command), 1) // The program is not an argument.
	args, err := change(line[words:])
	if err != nil {
		return nil, err
	}
	if len(c.Args) == 0 && words == 1 {
		c.Command = append(line[:words:words], args...)
	} else {
		c.Command, c.Args = line[:words:words], args
	}
	changed, err := yaml.Marshal(&pod)
	if err != nil {
		return nil, fmt.Errorf("write manifest of %q: %w", component, err)
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
