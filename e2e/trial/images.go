package trial

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/fixtures"
)

// EnsureImages makes the node image and the database image, or finds them in the cache. On an existing cluster only the
// database image is needed.
func EnsureImages(ctx context.Context, m ClusterOptions) (images offline.Images, err error) {
	tool := offline.Tool{
		CacheDir: m.CacheDir, Progress: m.Progress, Log: m.Log, Consent: m.Consent, Database: m.DatabaseImage,
	}
	switch {
	case m.Access == nil:
		return tool.EnsureImages(ctx, m.Engine, m.KubernetesVersion, m.ImageSource)
	case !m.NoDatabase:
		images.Database, err = tool.EnsureDatabase(ctx)
	}
	return images, err
}

func versionsOf(images offline.Images) map[string]string {
	v := map[string]string{
		"kubernetes": images.KubernetesVersion, "mysql": images.Database.Version, "node image": images.Node,
		"database image": images.Database.Ref, "kind": moduleVersion("sigs.k8s.io/kind"),
	}
	if images.Database.Source != "" {
		v["database image made of"] = images.Database.Source
	}
	return v
}

// EnsureStorages builds the programs that the storages of m need on nodes, or finds them in the cache.
func EnsureStorages(ctx context.Context, m ClusterOptions) error {
	for _, name := range m.Storages {
		def, ok := AllParts().storage(name)
		if !ok {
			return fmt.Errorf("build for storage %q: it is not known", name)
		}
		if def.Ensure == nil {
			continue
		}
		err := def.Ensure(ctx, fixtures.Builds{CacheDir: m.CacheDir, Progress: m.Progress, Log: m.Log})
		if err != nil {
			return fmt.Errorf("build for storage %q: %w", name, err)
		}
	}
	return nil
}

// loadDatabase loads the database image on the nodes that lack it: those of a published node image, and those of a
// reused cluster that was made with an earlier database image.
func (m ClusterOptions) loadDatabase(ctx context.Context, c clusters.Cluster, image offline.Database) error {
	if m.NoDatabase {
		return nil
	}
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return fmt.Errorf("list nodes of cluster %q: %w", c.Name(), err)
	}
	return onEach(ctx, nodes, func(ctx context.Context, n clusters.Node) error {
		have, err := clusters.Run(ctx, n, "ctr", "--namespace=k8s.io", "images", "list", "-q", "name=="+image.Ref)
		if err != nil {
			return fmt.Errorf("list images of node %q: %w", n.Name(), err)
		}
		if strings.TrimSpace(have) != "" {
			return nil
		}
		return loadOn(ctx, n, image.Path)
	})
}

func loadOn(ctx context.Context, n clusters.Node, archive string) error {
	f, err := os.Open(archive)
	if err != nil {
		return fmt.Errorf("read database image: %w", err)
	}
	defer f.Close() //nolint:errcheck // It is only read.
	_, err = n.Exec(ctx, clusters.Command{
		Argv:  []string{"ctr", "--namespace=k8s.io", "images", "import", "--all-platforms", "--no-unpack", "-"},
		Stdin: f,
	})
	if err != nil {
		return fmt.Errorf("load database image on node %q: %w", n.Name(), err)
	}
	return nil
}

// hostFacts describes the host for readers; what cannot be read stays empty.
func hostFacts(engine string) report.Host {
	host := report.Host{Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Engine: engine}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		host.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	host.OS = strings.Trim(field("/etc/os-release", "PRETTY_NAME="), `"`)
	kib, err := strconv.Atoi(strings.TrimSuffix(field("/proc/meminfo", "MemTotal:"), " kB"))
	if err == nil {
		host.MemoryMiB = kib >> 10
	}
	return host
}

// moduleVersion returns the version of a module in this program, or "unknown".
func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range info.Deps {
		if m.Path == path {
			return m.Version
		}
	}
	return "unknown"
}

// field returns the rest of the line of a file that starts with key.
func field(path, key string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, key); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
