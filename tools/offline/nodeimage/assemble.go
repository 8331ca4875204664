package nodeimage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/seatrial/seatrial/tools/offline/layers"
	"github.com/seatrial/seatrial/tools/offline/proc"
)

// archiveName is the node image in its directory in the store.
const archiveName = "image.tar"

// parts are what a node image is assembled from.
type parts struct {
	// built has the directory of each component's programs.
	built map[string]string
	// rootTar is the Debian root, and kindDir the source of kind.
	rootTar, kindDir string
}

// assemble puts the node image together, as an archive that any engine loads. No engine is needed for it: the images
// inside are imported by the node's own containerd, running here on a directory.
func (b *builder) assemble(ctx context.Context, p parts, ref, dir string) (err error) {
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		return fmt.Errorf("assemble node image: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	list, err := b.kubeadmImages(ctx, p.built["kubernetes"], b.rel.Kubernetes)
	if err != nil {
		return err
	}
	names, err := parseImages(list, b.rel, podnetName(p.built["podnet"]))
	if err != nil {
		return err
	}
	content, err := b.contentFiles(ctx, p, names, work)
	if err != nil {
		return err
	}
	spec, err := proc.Output(ctx, b.run, proc.Command{
		Args: []string{filepath.Join(p.built["containerd"], "ctr"), "oci", "spec"},
	})
	if err != nil {
		return fmt.Errorf("ask containerd for its default runtime specification: %w", err)
	}
	cri, err := criBase([]byte(spec))
	if err != nil {
		return err
	}
	kind, err := kindLayer(p.kindDir, b.rel, names, cri)
	if err != nil {
		return err
	}
	root := filepath.Join(work, "root.tar")
	if err := layers.Filter(root, p.rootTar, dropFromRoot); err != nil {
		return err
	}
	stack, err := plainLayers(work, root, programFiles(p.built), content, kind)
	if err != nil {
		return err
	}
	return writeArchive(filepath.Join(dir, archiveName), ref, stack)
}

// podnetName is the name of the pod network's image. Its tag is what it was made from, as the directory says.
func podnetName(dir string) string {
	base := filepath.Base(dir)
	return "localhost/seatrial/podnet:" + base[len("podnet-"):]
}

// contentFiles makes all images that are inside the node, and returns the files of containerd's directory.
func (b *builder) contentFiles(ctx context.Context, p parts, n imageNames, work string) ([]layers.File, error) {
	root, err := layers.OpenRoot(p.rootTar)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // Read only: nothing can be lost.
	images, err := assembleInner(work, p.built, root, n)
	if err != nil {
		return nil, err
	}
	if path := b.opts.Database.Path; path != "" {
		database, err := layers.LoadArchive(path, work)
		if err != nil {
			return nil, err
		}
		images = append(images, database)
	}
	archive := filepath.Join(work, "images.tar")
	f, err := os.Create(archive)
	if err != nil {
		return nil, fmt.Errorf("write images of the node: %w", err)
	}
	err = layers.WriteLayout(f, filepath.Join(work, "layout"), images)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("write images of the node: %w", err)
	}
	return b.importImages(ctx, p.built["containerd"], archive, filepath.Join(work, "containerd"))
}

// programFiles are the programs that run in the node itself.
func programFiles(built map[string]string) []layers.File {
	var files []layers.File
	add := func(component, dir string, programs ...string) {
		for _, program := range programs {
			files = append(files, layers.File{
				Name: dir + program, Mode: 0o755, Path: filepath.Join(built[component], program),
			})
		}
	}
	add("kubernetes", "usr/bin/", "kubeadm", "kubectl", "kubelet")
	add("containerd", "usr/local/bin/", "containerd", "containerd-shim-runc-v2", "ctr")
	add("runc", "usr/local/sbin/", "runc")
	add("cni-plugins", "opt/cni/bin/", "host-local", "loopback", "portmap", "ptp")
	return files
}

// plainLayers writes one layer for each list of files, on top of the root. What changes most often is on top.
func plainLayers(work, root string, lists ...[]layers.File) ([]v1.Layer, error) {
	paths := []string{root}
	for i, files := range lists {
		path := filepath.Join(work, fmt.Sprintf("layer%d.tar", i))
		if err := layers.WriteFile(path, files); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	stack := make([]v1.Layer, 0, len(paths))
	for _, path := range paths {
		l, err := layers.Plain(path)
		if err != nil {
			return nil, err
		}
		stack = append(stack, l)
	}
	return stack, nil
}

// writeArchive writes the node image with the configuration that kind's has: systemd is told that it is in a
// container, and ends on the signal it understands.
func writeArchive(dst, ref string, stack []v1.Layer) error {
	img, err := layers.Image(v1.Config{
		Env:        []string{searchPath, "container=docker"},
		Entrypoint: []string{"/usr/local/bin/entrypoint", "/sbin/init"},
		StopSignal: "SIGRTMIN+3",
		WorkingDir: "/",
	}, false, stack...)
	if err != nil {
		return fmt.Errorf("assemble node image: %w", err)
	}
	tag, err := name.NewTag(ref)
	if err != nil {
		return fmt.Errorf("name node image: %w", err)
	}
	if err := tarball.WriteToFile(dst, tag, img); err != nil {
		return fmt.Errorf("write node image: %w", err)
	}
	return nil
}
