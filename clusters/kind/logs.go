package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"sigs.k8s.io/kind/pkg/cmd/kind/version"

	"github.com/seatrial/seatrial/clusters"
)

var _ clusters.LogExporter = (*Cluster)(nil)

// ExportLogs writes what `kind export logs` has of engine and containers, under kind's names. Package nodelogs has the
// rest of kind's layout.
func (c *Cluster) ExportLogs(ctx context.Context, dir string) error {
	write := func(name string, data []byte) error {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, data, 0o644)
	}
	engine := c.provider.engine
	errs := []error{write("kind-version.txt", []byte(version.DisplayVersion()))}
	var mu sync.Mutex
	var all sync.WaitGroup
	keep := func(name string, args ...string) {
		all.Go(func() {
			out, err := engine.output(ctx, args...)
			err = errors.Join(err, write(name, out))
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	keep(engine.name+"-info.txt", "info")
	for _, n := range c.nodes {
		keep(filepath.Join(n.name, "inspect.json"), "inspect", n.name)
		keep(filepath.Join(n.name, "serial.log"), "logs", n.name)
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("export logs of cluster %q: %w", c.name, err)
	}
	return nil
}
