// Package nodeimage makes kind node images on hosts that have no container registry, from Go modules and Debian
// packages alone. The same inputs are never built twice, and an interrupted build resumes where it stopped.
package nodeimage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"time"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/tools/offline/debian"
	"github.com/seatrial/seatrial/tools/offline/gobuild"
	"github.com/seatrial/seatrial/tools/offline/proc"
	"github.com/seatrial/seatrial/tools/offline/steps"
	"github.com/seatrial/seatrial/tools/offline/store"
)

// builder makes one node image.
type builder struct {
	opts     Options
	rel      release
	run      proc.Runner
	store    store.Store
	compiler gobuild.Builder
	roots    debian.Builder
}

// Ensure returns a node image that the engine has, and pulls or builds it if it has none. That takes a second if the
// engine has it, and some 20 minutes on two cores for a build with nothing cached.
func Ensure(ctx context.Context, o Options) (Image, error) {
	b, err := newBuilder(o, proc.Exec{})
	if err != nil {
		return Image{}, err
	}
	return b.ensure(ctx)
}

// Dir returns the directory of the built image in the store, whether or not it exists.
func Dir(o Options) (string, error) {
	b, err := newBuilder(o, proc.Exec{})
	if err != nil {
		return "", err
	}
	img, err := b.target()
	return b.store.Path(b.kind(), img.Inputs), err
}

// Keep puts the built image into the store if only the engine has it.
func Keep(ctx context.Context, o Options) error {
	b, err := newBuilder(o, proc.Exec{})
	if err != nil {
		return err
	}
	img, err := b.target()
	if err != nil {
		return err
	}
	_, _, err = b.store.Produce(ctx, b.kind(), img.Inputs, func(ctx context.Context, dir string) error {
		return b.engine(ctx, io.Discard, "save", "-o", filepath.Join(dir, archiveName), img.Ref)
	})
	if err != nil {
		return fmt.Errorf("save node image %s: %w", img.Ref, err)
	}
	return nil
}

func newBuilder(o Options, run proc.Runner) (*builder, error) {
	o.KubernetesVersion = cmp.Or(o.KubernetesVersion, offline.DefaultKubernetesVersion)
	o.Source = cmp.Or(o.Source, Auto)
	rel, err := releaseOf(o.KubernetesVersion)
	if err != nil && !offline.IsReference(string(o.Source)) {
		return nil, err
	}
	s := store.Store{Dir: o.CacheDir}
	return &builder{
		opts: o, rel: rel, run: run, store: s, compiler: gobuild.New(s, run),
		roots: debian.Builder{Store: s, Runner: run, Arch: runtime.GOARCH},
	}, nil
}

func (b *builder) ensure(ctx context.Context) (Image, error) {
	if offline.IsReference(string(b.opts.Source)) {
		return b.named(ctx)
	}
	if b.opts.Source == Published {
		return b.published(ctx)
	}
	img, buildErr := b.target()
	built := buildErr == nil && b.present(ctx, img.Ref)
	var pullErr error
	// A registry is not asked if the engine has the built image.
	if b.opts.Source == Auto && (!built || b.present(ctx, publishedImages()[b.rel.Kubernetes])) {
		var pulled Image
		if pulled, pullErr = b.published(ctx); pullErr == nil {
			return pulled, nil
		}
		if ctx.Err() != nil {
			return Image{}, ctx.Err()
		}
		if !built {
			fmt.Fprintf(b.opts.Progress, "no published node image, so it is built: %v\n", pullErr)
		}
	}
	if built {
		return img, nil
	}
	if buildErr == nil {
		buildErr = b.build(ctx, img)
	}
	if buildErr != nil {
		return Image{}, errors.Join(pullErr, buildErr)
	}
	return img, nil
}

func (b *builder) target() (Image, error) {
	sum, err := b.sum()
	if err != nil {
		return Image{}, fmt.Errorf("read the inputs of the node image: %w", err)
	}
	return Image{
		Ref:               offline.NodeImageRepository + ":" + b.rel.Kubernetes + "-" + sum[:12],
		KubernetesVersion: b.rel.Kubernetes, Source: Build, Inputs: sum,
	}, nil
}

// build makes the image and loads it into the engine.
func (b *builder) build(ctx context.Context, img Image) error {
	all, err := b.steps(img)
	if err != nil {
		return err
	}
	if b.store.Has(b.kind(), img.Inputs) {
		all = all[len(all)-1:] // Only the engine lacks it.
	} else {
		if err := gobuild.NeedGo(ctx, b.run); err != nil {
			return fmt.Errorf("build node image: %w", err)
		}
		fmt.Fprintf(b.opts.Progress, "build node image %s: %s\n", img.Ref, steps.Outlook(all))
	}
	if err := steps.Run(ctx, b.opts.Progress, "node image", all); err != nil {
		return err
	}
	if !b.present(ctx, img.Ref) {
		return fmt.Errorf("load node image into %s: it loaded the archive, but has no %s", b.engineName(), img.Ref)
	}
	return errors.Join(b.store.KeepOnly(b.kind(), img.Inputs), b.store.Sweep())
}

// kind names node images in the store.
func (b *builder) kind() string { return "image-" + b.rel.Kubernetes }

func (b *builder) steps(img Image) ([]steps.Step, error) {
	p := parts{built: make(map[string]string)}
	all := []steps.Step{{
		Name: "Debian root file system", About: 2 * time.Minute,
		There: func() bool { return b.roots.Has(nodeRoot()) },
		Do: func(ctx context.Context) (err error) {
			p.rootTar, err = b.roots.Root(ctx, nodeRoot())
			return err
		},
	}}
	for _, c := range components(b.rel) {
		if len(c.Packages) == 0 {
			continue
		}
		m, err := c.Load(pinFiles, ownFiles)
		if err != nil {
			return nil, err
		}
		all = append(all, steps.Step{
			Name: "compile " + c.Title(), About: c.Cold,
			There: func() bool { return b.compiler.Has(m) },
			Do: func(ctx context.Context) error {
				if err := b.toolsFor(ctx, m); err != nil {
					return err
				}
				dir, err := b.compiler.Build(ctx, m)
				p.built[c.Name] = dir
				return err
			},
		})
	}
	assemble := steps.Step{
		Name: "assemble image", About: time.Minute,
		There: func() bool { return b.store.Has(b.kind(), img.Inputs) },
		Do: func(ctx context.Context) error {
			_, _, err := b.store.Produce(ctx, b.kind(), img.Inputs, func(ctx context.Context, dir string) (err error) {
				if p.kindDir, err = b.kindSource(ctx); err != nil {
					return err
				}
				return b.assemble(ctx, p, img.Ref, dir)
			})
			return err
		},
	}
	load := steps.Step{
		Name: "load image into " + b.engineName(), About: time.Minute,
		Do: func(ctx context.Context) error {
			archive := filepath.Join(b.store.Path(b.kind(), img.Inputs), archiveName)
			if err := b.engine(ctx, io.Discard, "load", "-i", archive); err != nil {
				return fmt.Errorf("load node image into %s: %w", b.engineName(), err)
			}
			return nil
		},
	}
	return append(all, assemble, load), nil
}

// toolsFor installs what compiling a component needs besides Go.
func (b *builder) toolsFor(ctx context.Context, m gobuild.Module) error {
	if !m.Cgo || b.compiler.Has(m) {
		return nil
	}
	for _, program := range []string{"gcc", "pkg-config"} {
		if err := debian.Install(ctx, b.run, io.Discard, program); err != nil {
			return fmt.Errorf("prepare to build component %s: %w", m.Name, err)
		}
	}
	if b.run.Run(ctx, proc.Command{Args: []string{"pkg-config", "--exists", "libseccomp"}}) == nil {
		return nil
	}
	if err := debian.InstallPackages(ctx, b.run, io.Discard, "libseccomp-dev"); err != nil {
		return fmt.Errorf("prepare to build component %s: %w", m.Name, err)
	}
	return nil
}
