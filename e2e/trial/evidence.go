package trial

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/e2e/rundir"
)

// keepEvidence writes what helps a person beside the history: the nodes' logs, their mount tables, and the objects as
// they are now. It continues after an error: half of the evidence is better than none.
func (c *runner) keepEvidence(ctx context.Context) error {
	if c.dynamic == nil {
		return nil // The cluster was not reached.
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

// keepObjects writes one YAML file for each resource. Pods of all namespaces are kept: one of the system may be to blame.
func (c *runner) keepObjects(ctx context.Context) error {
	var errs []error
	for _, r := range []struct{ group, name, namespace string }{
		{"apps", "controllerrevisions", c.namespace()},
		{"", "events", c.namespace()},
		{"", "nodes", ""},
		{"", "persistentvolumeclaims", c.namespace()},
		{"", "persistentvolumes", ""},
		{"", "pods", ""},
		{"apps", "statefulsets", c.namespace()},
		{"storage.k8s.io", "volumeattachments", ""},
	} {
		resource := c.dynamic.Resource(schema.GroupVersionResource{Group: r.group, Version: "v1", Resource: r.name})
		list, err := resource.Namespace(r.namespace).List(ctx, metav1.ListOptions{})
		var data []byte
		if err == nil {
			data, err = yaml.Marshal(list)
		}
		if err == nil {
			err = c.dir.WriteFile(filepath.Join(rundir.ObjectsDir, r.name+".yaml"), data)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("keep %s: %w", r.name, err))
		}
	}
	return errors.Join(errs...)
}
