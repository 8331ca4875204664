package nodeimage

import (
	"context"
	"io"
	"path/filepath"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/tools/offline/proc"
)

// Source says where a node image comes from. It can also be the name of an image in a registry.
type Source string

// The sources. Images come from Published or Build; Auto is an option only.
const (
	// Auto pulls the published image if possible, and builds otherwise.
	Auto Source = "auto"
	// Published is kind's own image, by digest.
	Published Source = "published"
	// Build is the image made here, from Go modules and Debian packages.
	Build Source = "build"
)

// Options describe the node image to make.
type Options struct {
	// KubernetesVersion is such as "v1.37.0", and one of the pinned versions unless Source is an image in a registry;
	// empty means the default version.
	KubernetesVersion string
	// Source is Auto, Published, Build or an image in a registry; empty means Auto.
	Source Source
	// Engine is the client of docker, podman or nerdctl, by name or path.
	Engine string
	// Database is the image to have inside, none if zero; a published image does not have it. Its digest goes into the
	// node image's tag, so that its file need not be read to find the right node image.
	Database offline.Database
	// CacheDir keeps what was built.
	CacheDir string
	// Progress gets a line when a step starts and when it ends.
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
}

// engineName names the container engine for a person.
func (b *builder) engineName() string { return filepath.Base(b.opts.Engine) }

// engine runs a command of the container engine.
func (b *builder) engine(ctx context.Context, stdout io.Writer, args ...string) error {
	return b.run.Run(ctx, proc.Command{Args: append([]string{b.opts.Engine}, args...), Stdout: stdout})
}

// present reports whether the engine has an image.
func (b *builder) present(ctx context.Context, ref string) bool {
	return b.engine(ctx, io.Discard, "image", "inspect", ref) == nil
}
