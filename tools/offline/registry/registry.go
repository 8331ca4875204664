// Package registry takes images from a container registry, as long as something comes.
package registry

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// How long a pull may be silent: at first, when there may be no registry, and later.
const (
	first = 20 * time.Second
	later = 2 * time.Minute
)

// Patiently calls do with a context that ends when nothing has come for 20 s, or later for a certain time; heard says
// that something came.
func Patiently(ctx context.Context, later time.Duration, do func(_ context.Context, heard func()) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begin := time.AfterFunc(first, func() { cancel(fmt.Errorf("nothing came within %s", first)) })
	defer begin.Stop()
	silent := time.AfterFunc(first+later, func() { cancel(fmt.Errorf("no progress for %s", later)) })
	defer silent.Stop()
	err := do(ctx, func() {
		begin.Stop()
		silent.Reset(later)
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// Use finds the image that ref names, for this machine's architecture, and calls use with it and with its name by
// digest. What use reads of the image is pulled then.
func Use(ctx context.Context, ref string, progress io.Writer, use func(digest string, img v1.Image) error) error {
	named, err := name.ParseReference(ref)
	if err != nil {
		return fmt.Errorf("pull an image: %w", err)
	}
	fmt.Fprintf(progress, "pull %s\n", named.Name())
	err = Patiently(ctx, later, func(ctx context.Context, heard func()) error {
		p := &pull{heard: heard, out: progress, name: named.Name()}
		return p.use(ctx, named, use)
	})
	if err != nil {
		return fmt.Errorf("pull %s: %w", named.Name(), err)
	}
	return nil
}

// pull is the transport of one pull. It tells each tenth of the image.
type pull struct {
	heard func()
	out   io.Writer
	name  string

	mu                sync.Mutex
	come, told, whole int64
}

func (p *pull) use(ctx context.Context, ref name.Reference, use func(string, v1.Image) error) error {
	found, err := remote.Get(ref, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithTransport(p), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	if err != nil {
		return err
	}
	img, err := found.Image()
	if err != nil {
		return err
	}
	manifest, err := img.Manifest()
	if err != nil {
		return err
	}
	p.mu.Lock()
	for _, l := range manifest.Layers {
		p.whole += l.Size
	}
	p.mu.Unlock()
	return use(ref.Context().Digest(found.Digest.String()).Name(), img)
}

// RoundTrip carries out a request, and counts what its answer brings.
func (p *pull) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := remote.DefaultTransport.RoundTrip(r)
	if err == nil {
		answer.Body = &body{answer.Body, p}
	}
	return answer, err
}

// body is the body of an answer.
type body struct {
	io.ReadCloser
	pull *pull
}

func (b *body) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if n > 0 {
		b.pull.count(int64(n))
	}
	return n, err
}

func (p *pull) count(n int64) {
	p.heard()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.whole == 0 {
		return
	}
	p.come += n
	if part := 10 * p.come / p.whole; part > p.told {
		p.told = part
		fmt.Fprintf(p.out, "pull %s: %d of %d MiB\n", p.name, min(p.come, p.whole)>>20, p.whole>>20)
	}
}
