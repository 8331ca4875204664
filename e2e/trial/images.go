package trial

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/fixtures"
	"github.com/seatrial/seatrial/tools/offline/nodeimage"
)

// DefaultKubernetesVersion is the one whose node image kind publishes for the kind version in go.mod.
const DefaultKubernetesVersion = nodeimage.DefaultVersion

// NodeImageRepository is the repository of the node images that are built here.
const NodeImageRepository = nodeimage.Repository

// Images are the images of a place.
type Images struct {
	Node     string // Reference of the node image, present in the engine.
	Database string // Reference of the database image.
	Source   string // "published" or "build": where the node image came from.
	Archive  string // Path of the database image's archive.
	Versions map[string]string
}

// ValidateImages holds what the user wishes of the node image against what there is, before anything is touched.
func ValidateImages(kubernetesVersion, source string) error {
	return nodeimage.Options{KubernetesVersion: kubernetesVersion, Source: nodeimage.Source(source)}.Validate()
}

// EnsureImages makes the database image and the node image, or takes those that are there. It says first what it is
// about to do and how long that takes.
func EnsureImages(ctx context.Context, m Moorings) (Images, error) {
	cache := m.CacheDir
	if cache == "" {
		var err error
		if cache, err = nodeimage.CacheDir(); err != nil {
			return Images{}, err
		}
	}
	fmt.Fprintln(m.Progress, "database image: MySQL from Debian packages (a minute when it must be built)")
	database, err := databaseImage(ctx, cache, m.Log)
	if err != nil {
		return Images{}, err
	}
	options := nodeimage.Options{
		KubernetesVersion: m.KubernetesVersion, Source: nodeimage.Source(m.ImageSource),
		Engine:   nodeimage.Engine{Name: filepath.Base(m.Engine), Path: m.Engine},
		Preload:  []nodeimage.Archive{{Path: database.Path, Digest: database.Digest}},
		CacheDir: cache, Log: m.Log,
		Progress: func(p nodeimage.Progress) { fmt.Fprintln(m.Progress, p) },
	}
	work, err := nodeimage.Plan(ctx, options)
	if err != nil {
		return Images{}, err
	}
	fmt.Fprintln(m.Progress, work)
	node, err := nodeimage.Ensure(ctx, options)
	if err != nil {
		return Images{}, fmt.Errorf("%w\nwhat was built so far is kept: the same command goes on from there", err)
	}
	return Images{
		Node: node.Ref, Database: database.Ref, Source: string(node.Source), Archive: database.Path,
		Versions: map[string]string{
			"kubernetes": node.KubernetesVersion, "mysql": database.Version, "node image": node.Ref,
			"database image": database.Ref, "kind": moduleVersion("sigs.k8s.io/kind"),
		},
	}, nil
}

// EnsureStorages builds what the storages of m need on nodes, or finds it in the cache.
func EnsureStorages(ctx context.Context, m Moorings) error {
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

// loadDatabase brings the database image to the nodes that lack it: those of a published node image, and those of a
// cluster that was made with an earlier database image and is used again.
func loadDatabase(ctx context.Context, c clusters.Cluster, images Images) error {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return fmt.Errorf("list nodes of cluster %q: %w", c.Name(), err)
	}
	for _, n := range nodes {
		have, err := clusters.Run(ctx, n, "ctr", "--namespace=k8s.io", "images", "list", "-q", "name=="+images.Database)
		if err != nil {
			return fmt.Errorf("list images of node %q: %w", n.Name(), err)
		}
		if strings.TrimSpace(have) != "" {
			continue
		}
		if err := loadOn(ctx, n, images.Archive); err != nil {
			return err
		}
	}
	return nil
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
