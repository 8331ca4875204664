package nodeimage

import (
	"context"
	"fmt"
	"time"
)

// How long a pull may be silent: at first, when there may be no registry, and later.
const (
	pullFirst  = 20 * time.Second
	pullSilent = 2 * time.Minute
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

// pull pulls an image, as long as there is progress.
func (b *builder) pull(ctx context.Context, ref string) error {
	fmt.Fprintf(b.opts.Progress, "pull the published node image %s\n", ref)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	first := time.AfterFunc(pullFirst, func() { cancel(fmt.Errorf("nothing came within %s", pullFirst)) })
	silent := time.AfterFunc(pullFirst+pullSilent, func() { cancel(fmt.Errorf("no progress for %s", pullSilent)) })
	defer func() { first.Stop(); silent.Stop() }()
	progress := writerFunc(func(p []byte) (int, error) {
		first.Stop()
		silent.Reset(pullSilent)
		return len(p), nil
	})
	if err := b.engine(ctx, progress, "pull", ref); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fmt.Errorf("pull %s: %w", ref, err)
	}
	return nil
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
