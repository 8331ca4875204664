package nodeimage

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/tools/offline/proc"
)

// Source says where a node image comes from.
type Source string

// The sources. Auto is only ever asked for; what an image came from is one of the other two.
const (
	// Auto takes the published image when it can be pulled, and builds otherwise.
	Auto Source = "auto"
	// Published is kind's own image, by digest.
	Published Source = "published"
	// Build is the image made here, from Go modules and Debian packages.
	Build Source = "build"
)

// Options are what is wanted of a node image.
type Options struct {
	// KubernetesVersion is one of the pinned versions, such as "v1.37.0"; empty means DefaultVersion.
	KubernetesVersion string
	// Source is Auto, Published or Build; empty means Auto.
	Source Source
	// Engine is the client of docker, podman or nerdctl, by name or path. Only what all three have is used.
	Engine string
	// Preload are images to have inside, as `docker save` writes them; a published image has none of them. Their
	// digests go into the node image's tag, so that the files need not be read to know that the node image is the right
	// one.
	Preload []offline.Database
	// CacheDir keeps what was built.
	CacheDir string
	Log      *slog.Logger
	// Progress hears of every step: when it starts, at least every 20 s while it goes on, and when it ends.
	Progress io.Writer
}

// Image is a node image that is present in the engine.
type Image struct {
	// Ref is what to give to kind.
	Ref string
	// KubernetesVersion is the version of Kubernetes inside.
	KubernetesVersion string
	// Source is Published or Build.
	Source Source
	// Inputs is the digest of everything a built image was made from.
	Inputs string
	// Reused tells that nothing had to be made or pulled.
	Reused bool
}

// withDefaults fills in what is left empty, and refuses what cannot be done.
func (o Options) withDefaults() (Options, error) {
	if o.KubernetesVersion == "" {
		o.KubernetesVersion = DefaultVersion
	}
	if err := offline.ValidateImages(o.KubernetesVersion, string(o.Source)); err != nil {
		return o, err
	}
	if o.Source == "" {
		o.Source = Auto
	}
	if o.Engine == "" {
		return o, fmt.Errorf("no container engine given: name docker, podman or nerdctl")
	}
	for i, p := range o.Preload {
		if p.Path == "" || p.Digest == "" {
			return o, fmt.Errorf("preload archive %d has path %q and digest %q: give both", i, p.Path, p.Digest)
		}
	}
	return o, nil
}

// engineName names the container engine for a person.
func (b *builder) engineName() string { return filepath.Base(b.opts.Engine) }

// engine runs a command of the container engine.
func (b *builder) engine(ctx context.Context, stdout io.Writer, args ...string) error {
	return b.run.Run(ctx, proc.Command{Args: append([]string{b.opts.Engine}, args...), Stdout: stdout})
}

// present tells whether the engine has an image.
func (b *builder) present(ctx context.Context, ref string) bool {
	return b.engine(ctx, io.Discard, "image", "inspect", ref) == nil
}
