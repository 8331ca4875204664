// Package nodeimage makes kind node images on hosts that have no container registry, from Go modules and Debian
// packages alone: the same inputs never build twice, and an interrupted build goes on where it stopped.
package nodeimage

import (
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

// Ensure returns a node image that is present in the engine, and makes or pulls it when it is not. With everything
// there it takes a second; a build from nothing takes some 20 minutes on two cores, and one that was interrupted
// goes on where it stopped.
func Ensure(ctx context.Context, o Options) (Image, error) {
	b, err := newBuilder(o, proc.Exec{})
	if err != nil {
		return Image{}, err
	}
	return b.ensure(ctx)
}

// Dir returns where, in the store, the image that a build gives is or would be.
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
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	rel, err := releaseOf(o.KubernetesVersion)
	if err != nil {
		return nil, err
	}
	s := store.Store{Dir: o.CacheDir}
	return &builder{
		opts: o, rel: rel, run: run, store: s, compiler: gobuild.New(s, run),
		roots: debian.Builder{Store: s, Runner: run, Arch: runtime.GOARCH},
	}, nil
}

func (b *builder) ensure(ctx context.Context) (Image, error) {
	if b.opts.Source == Published {
		return b.published(ctx)
	}
	img, buildErr := b.target()
	var pullErr error
	if b.opts.Source == Auto && b.worthPulling(ctx, img, buildErr) {
		var pulled Image
		if pulled, pullErr = b.published(ctx); pullErr == nil {
			return pulled, nil
		}
		if ctx.Err() != nil {
			return Image{}, ctx.Err()
		}
		b.opts.Log.Info("published node image is not to be had, building", "reason", pullErr)
	}
	if buildErr != nil {
		return Image{}, errors.Join(pullErr, buildErr)
	}
	if b.present(ctx, img.Ref) {
		img.Reused = true
		return img, nil
	}
	if err := b.build(ctx, img); err != nil {
		return Image{}, errors.Join(pullErr, err)
	}
	return img, nil
}

// worthPulling tells whether to ask for the published image: one that is here is taken, and a registry is not asked
// when the built image is here.
func (b *builder) worthPulling(ctx context.Context, built Image, buildErr error) bool {
	if buildErr != nil || !b.present(ctx, built.Ref) {
		return true
	}
	ref := publishedImages()[b.rel.Kubernetes]
	return ref != "" && b.present(ctx, ref)
}

// target is the image that a build would give.
func (b *builder) target() (Image, error) {
	sum, err := b.sum()
	if err != nil {
		return Image{}, fmt.Errorf("work out what the node image is made from: %w", err)
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
		all = all[len(all)-1:] // It was built, or came with a file: the engine lacks it.
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
		return fmt.Errorf("load node image into %s: it took the archive, but has no %s", b.engineName(), img.Ref)
	}
	return errors.Join(b.store.KeepOnly(b.kind(), img.Inputs), b.store.Sweep())
}

// kind is what node images are called in the store.
func (b *builder) kind() string { return "image-" + b.rel.Kubernetes }

// steps are what a build does, in order.
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
	return append(all, b.lastSteps(img, &p)...), nil
}

// lastSteps put together what was built.
func (b *builder) lastSteps(img Image, p *parts) []steps.Step {
	archive := filepath.Join(b.store.Path(b.kind(), img.Inputs), archiveName)
	return []steps.Step{
		{
			Name: "assemble image", About: time.Minute,
			There: func() bool { return b.store.Has(b.kind(), img.Inputs) },
			Do: func(ctx context.Context) error {
				work := func(ctx context.Context, dir string) (err error) {
					if p.kindDir, err = b.kindSource(ctx); err != nil {
						return err
					}
					return b.assemble(ctx, *p, img.Ref, dir)
				}
				_, _, err := b.store.Produce(ctx, b.kind(), img.Inputs, work)
				return err
			},
		},
		{
			Name: "load image into " + b.engineName(), About: time.Minute,
			There: func() bool { return false },
			Do: func(ctx context.Context) error {
				if err := b.engine(ctx, io.Discard, "load", "-i", archive); err != nil {
					return fmt.Errorf("load node image into %s: %w", b.engineName(), err)
				}
				return nil
			},
		},
	}
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
