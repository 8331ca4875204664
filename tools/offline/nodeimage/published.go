package nodeimage

import (
	"context"
	"fmt"

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
	if img.Reused = b.present(ctx, img.Ref); img.Reused {
		return img, nil
	}
	return img, b.pull(ctx, img.Ref)
}

// pull pulls an image, as long as there is progress, and passes on what the engine says of it.
func (b *builder) pull(ctx context.Context, ref string) error {
	fmt.Fprintf(b.opts.Progress, "pull the published node image %s\n", ref)
	patient, heard, stop := registry.Patience(ctx)
	defer stop()
	said := writerFunc(func(p []byte) (int, error) {
		heard()
		return b.opts.Progress.Write(p)
	})
	err := b.run.Run(patient, proc.Command{Args: []string{b.opts.Engine, "pull", ref}, Stdout: said, Stderr: said})
	if cause := context.Cause(patient); err != nil && cause != nil {
		err = cause
	}
	if err != nil {
		return fmt.Errorf("pull %s: %w", ref, err)
	}
	return nil
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
