package nodeimage

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/tools/offline/proc"
	"github.com/seatrial/seatrial/tools/offline/store"
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

// Engine is the command line of the container engine: docker, podman or nerdctl. Only what all three have is used.
type Engine struct {
	// Name is "docker", "podman" or "nerdctl".
	Name string
	// Path is the program; empty means Name, looked up.
	Path string
}

// Archive is a file with images, as `docker save` writes it, that are to be inside a built node image.
type Archive struct {
	// Path is the docker-archive on this host.
	Path string
	// Digest identifies the content; it goes into the node image's tag, so that the file need not be read to know
	// that the node image is the right one.
	Digest string
}

// Options are what is wanted of a node image.
type Options struct {
	// KubernetesVersion is one of the pinned versions, such as "v1.37.0"; empty means DefaultVersion.
	KubernetesVersion string
	// Source is Auto, Published or Build; empty means Auto.
	Source Source
	Engine Engine
	// Preload are images to have inside. A published image has none of them: see Image.Preloaded.
	Preload []Archive
	// CacheDir keeps what was built; empty means CacheDir().
	CacheDir string
	// Log hears of what is rarely of interest; nil means nothing is logged.
	Log *slog.Logger
	// Progress hears of every step: when it starts, at least every 20 s while it goes on, and when it ends;
	// nil for silence.
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
	// Inputs is the digest of everything a built image was made from, or the digest of the published one.
	Inputs string
	// Preloaded tells whether the images of Options.Preload are inside.
	Preloaded bool
	// Reused tells that nothing had to be made or pulled.
	Reused bool
}

// CacheDir is where built parts are kept: that of store.Default.
func CacheDir() (string, error) {
	s, err := store.Default()
	return s.Dir, err
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
	if o.Engine.Path == "" {
		o.Engine.Path = o.Engine.Name
	}
	if o.Engine.Path == "" {
		return o, fmt.Errorf("no container engine given: name docker, podman or nerdctl")
	}
	for i, p := range o.Preload {
		if p.Path == "" || p.Digest == "" {
			return o, fmt.Errorf("preload archive %d has path %q and digest %q: give both", i, p.Path, p.Digest)
		}
	}
	if o.CacheDir == "" {
		dir, err := CacheDir()
		if err != nil {
			return o, err
		}
		o.CacheDir = dir
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	return o, nil
}

// runner runs programs.
type runner interface {
	Run(ctx context.Context, c proc.Command) error
}

// engine runs a command of the container engine.
func (b *builder) engine(ctx context.Context, stdout io.Writer, args ...string) error {
	return b.run.Run(ctx, proc.Command{Args: append([]string{b.opts.Engine.Path}, args...), Stdout: stdout})
}

// present tells whether the engine has an image.
func (b *builder) present(ctx context.Context, ref string) bool {
	return b.engine(ctx, io.Discard, "image", "inspect", ref) == nil
}
