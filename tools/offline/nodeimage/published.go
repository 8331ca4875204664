package nodeimage

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seatrial/seatrial/tools/offline/proc"
	"github.com/seatrial/seatrial/tools/offline/registry"
)

// published returns the published image, and pulls it if the engine does not have it.
func (b *builder) published(ctx context.Context) (Image, error) {
	img := Image{
		Ref: publishedImages()[b.rel.Kubernetes], KubernetesVersion: b.rel.Kubernetes, Source: Published,
	}
	if img.Ref == "" {
		return Image{}, fmt.Errorf("take published node image of %s: none of this version is pinned", b.rel.Kubernetes)
	}
	if b.present(ctx, img.Ref) {
		return img, nil
	}
	return img, b.pull(ctx, img.Ref)
}

// named returns the image that the source names, and pulls it if the engine does not have it.
func (b *builder) named(ctx context.Context) (Image, error) {
	img := Image{Ref: string(b.opts.Source), KubernetesVersion: b.opts.KubernetesVersion, Source: Published}
	if !b.present(ctx, img.Ref) {
		if err := b.pull(ctx, img.Ref); err != nil {
			return Image{}, err
		}
	}
	var said bytes.Buffer // Every node image of kind says its version in this file.
	err := b.engine(ctx, &said, "run", "--rm", "--network=none", "--entrypoint=cat", img.Ref, "/kind/version")
	if err != nil {
		return Image{}, fmt.Errorf("read /kind/version in %s, which images of kind nodes have: %w", img.Ref, err)
	}
	if has := strings.TrimSpace(said.String()); has != img.KubernetesVersion {
		return Image{}, fmt.Errorf("node image %s has Kubernetes %q, and %s is asked for: give --kubernetes-version %s",
			img.Ref, has, img.KubernetesVersion, has)
	}
	return img, nil
}

// pull pulls an image, as long as there is progress, and passes on what the engine says of it.
func (b *builder) pull(ctx context.Context, ref string) error {
	fmt.Fprintf(b.opts.Progress, "pull the published node image %s\n", ref)
	err := registry.Patiently(ctx, layer, func(ctx context.Context, heard func()) error {
		said := writerFunc(func(p []byte) (int, error) {
			heard()
			return b.opts.Progress.Write(p)
		})
		return b.run.Run(ctx, proc.Command{Args: []string{b.opts.Engine, "pull", ref}, Stdout: said, Stderr: said})
	})
	if err != nil {
		return fmt.Errorf("pull %s: %w", ref, err)
	}
	return nil
}

// layer bounds the pull of one layer, 400 MiB at most: the engine says when it begins and when it is there, and nothing
// in between.
const layer = 20 * time.Minute

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
