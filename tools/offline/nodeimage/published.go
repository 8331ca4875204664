package nodeimage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// How long a pull may be silent: at first, when nothing may be there to answer, and once something came.
const (
	pullFirst  = 20 * time.Second
	pullSilent = 2 * time.Minute
)

// errNoPublished says that there is no published image to try.
var errNoPublished = errors.New("no published image of this version is pinned")

// published returns the published image when the engine has it or can pull it.
func (b *builder) published(ctx context.Context) (Image, error) {
	ref := publishedImages()[b.rel.Kubernetes]
	if ref == "" {
		return Image{}, fmt.Errorf("take published node image of %s: %w", b.rel.Kubernetes, errNoPublished)
	}
	img := Image{Ref: ref, KubernetesVersion: b.rel.Kubernetes, Source: Published}
	if b.present(ctx, ref) {
		img.Reused = true
		return img, nil
	}
	if err := b.pull(ctx, ref); err != nil {
		return Image{}, err
	}
	return img, nil
}

// pull pulls an image, as long as there is progress.
func (b *builder) pull(ctx context.Context, ref string) error {
	fmt.Fprintf(b.opts.Progress, "pull the published node image %s\n", ref)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &watchdog{cancel: cancel}
	w.timer = time.AfterFunc(pullFirst, func() {
		cancel(fmt.Errorf("nothing came within %s", pullFirst))
	})
	defer func() { w.timer.Stop() }()
	if err := b.engine(ctx, w, "pull", ref); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fmt.Errorf("pull %s: %w", ref, err)
	}
	return nil
}

// watchdog ends a pull that has gone silent. Only the pull itself writes to it.
type watchdog struct {
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

// Write hears the pull's output.
func (w *watchdog) Write(p []byte) (int, error) {
	w.timer.Stop()
	w.timer = time.AfterFunc(pullSilent, func() { w.cancel(fmt.Errorf("no progress for %s", pullSilent)) })
	return len(p), nil
}
