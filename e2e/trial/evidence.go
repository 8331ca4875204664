package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/e2e/rundir"
)

// keepEvidence writes what a person wants to look at beside the history: the nodes' logs, their mount tables, and the
// objects as they are now. It goes on after an error: half of the evidence is better than none.
func (c *runner) keepEvidence(ctx context.Context) error {
	if c.kube == nil {
		return nil // The cluster could not even be reached; there is nothing to be had.
	}
	return errors.Join(
		c.keepObjects(ctx),
		c.onEachNode(ctx, c.keepMounts),
		c.Cluster.CollectLogs(ctx, c.dir.File(rundir.NodesDir)),
	)
}

func (c *runner) keepMounts(ctx context.Context, n clusters.Node) error {
	table, err := clusters.Run(ctx, n, "cat", "/proc/1/mountinfo")
	if err != nil {
		return fmt.Errorf("read mount table of node %q: %w", n.Name(), err)
	}
	return c.dir.WriteFile(filepath.Join(rundir.NodesDir, n.Name()+".mountinfo"), []byte(table))
}

// keepObjects writes one YAML file for each kind of object.
func (c *runner) keepObjects(ctx context.Context) error {
	ns, all := c.namespace(), metav1.ListOptions{}
	core, apps, storage := c.kube.CoreV1(), c.kube.AppsV1(), c.kube.StorageV1()
	lists := []struct {
		name string
		list func() (runtime.Object, error)
	}{
		{"controllerrevisions", func() (runtime.Object, error) { return apps.ControllerRevisions(ns).List(ctx, all) }},
		{"events", func() (runtime.Object, error) { return core.Events(ns).List(ctx, all) }},
		{"nodes", func() (runtime.Object, error) { return core.Nodes().List(ctx, all) }},
		{"persistentvolumeclaims", func() (runtime.Object, error) {
			return core.PersistentVolumeClaims(ns).List(ctx, all)
		}},
		{"persistentvolumes", func() (runtime.Object, error) { return core.PersistentVolumes().List(ctx, all) }},
		{"pods", func() (runtime.Object, error) { return core.Pods("").List(ctx, all) }},
		{"statefulsets", func() (runtime.Object, error) { return apps.StatefulSets(ns).List(ctx, all) }},
		{"volumeattachments", func() (runtime.Object, error) { return storage.VolumeAttachments().List(ctx, all) }},
	}
	var errs []error
	for _, l := range lists {
		objects, err := l.list()
		if err != nil {
			errs = append(errs, fmt.Errorf("list %s: %w", l.name, err))
			continue
		}
		data, err := yaml.Marshal(objects)
		if err != nil {
			errs = append(errs, fmt.Errorf("encode %s: %w", l.name, err))
			continue
		}
		data = bytes.TrimSpace(data)
		errs = append(errs, c.dir.WriteFile(filepath.Join(rundir.ObjectsDir, l.name+".yaml"), append(data, '\n')))
	}
	return errors.Join(errs...)
}
