// Package sidecars makes the programs that a CSI driver is run with: external-attacher and external-provisioner, out of
// their published images, or from their Go modules, exactly as pinned.
package sidecars

import (
	"archive/tar"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/tools/offline/gobuild"
	"github.com/seatrial/seatrial/tools/offline/proc"
	"github.com/seatrial/seatrial/tools/offline/registry"
	"github.com/seatrial/seatrial/tools/offline/steps"
	"github.com/seatrial/seatrial/tools/offline/store"
)

//go:embed pins
var pinFiles embed.FS

// sidecars lists the programs of kubernetes-csi.
func sidecars() []gobuild.Component {
	const modules = "github.com/kubernetes-csi/"
	one := func(name, major, version, program string, cold time.Duration) gobuild.Component {
		path := modules + name + "/" + major
		return gobuild.Component{Path: path, Version: version, Cold: cold, Module: gobuild.Module{
			Name: name, Packages: []string{path + "/cmd/" + program},
			Variables: map[string]string{"main.version": version},
		}}
	}
	return []gobuild.Component{
		one("external-attacher", "v4", "v4.13.0", "csi-attacher", 4*time.Minute),
		one("external-provisioner", "v6", "v6.3.0", "csi-provisioner", 3*time.Minute),
	}
}

// Pin writes the pinned modules of the sidecars below pinsDir, as gobuild.WritePins does.
func Pin(ctx context.Context, pinsDir string) error {
	return gobuild.WritePins(ctx, pinsDir, nil, sidecars())
}

// Ensure returns the sidecars, linked statically for this machine's architecture, and pulls those that the store in
// cacheDir lacks. Without a registry it compiles them: about seven minutes for all on two idle cores with nothing
// cached. An interrupted call resumes with the sidecar where it stopped. Progress gets a line when work starts and when
// it ends.
func Ensure(ctx context.Context, cacheDir string, progress io.Writer) (offline.Sidecars, error) {
	return ensure(ctx, gobuild.New(store.Store{Dir: cacheDir}, proc.Exec{}), published, progress)
}

// Dirs returns the directories of the sidecars in the store, whether or not they exist.
func Dirs(cacheDir string) ([]string, error) {
	b := gobuild.New(store.Store{Dir: cacheDir}, proc.Exec{})
	var dirs []string
	for _, s := range sidecars() {
		m, err := s.Load(pinFiles, nil)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, b.Store.Path(m.Name, b.Sum(m)))
	}
	return dirs, nil
}

// published is where kubernetes-csi publishes its images, each with the program at the top.
const published = "registry.k8s.io/sig-storage"

func ensure(
	ctx context.Context, b gobuild.Builder, registries string, progress io.Writer,
) (offline.Sidecars, error) {
	programs := offline.Sidecars{Versions: map[string]string{}}
	paths := []*string{&programs.Attacher, &programs.Provisioner}
	var todo []steps.Step
	var unreachable error
	missing := false
	for i, s := range sidecars() {
		m, err := s.Load(pinFiles, nil)
		if err != nil {
			return offline.Sidecars{}, err
		}
		programs.Versions[s.Name] = s.Version
		missing = missing || !b.Has(m)
		todo = append(todo, steps.Step{
			Name: "compile " + s.Title(), About: s.Cold, There: func() bool { return b.Has(m) },
			Do: func(ctx context.Context) error {
				dir, err := b.Build(ctx, m)
				if err != nil {
					return fmt.Errorf("make sidecar %s: %w", s.Title(), err)
				}
				*paths[i] = filepath.Join(dir, path.Base(s.Packages[0]))
				return nil
			},
		})
		if b.Has(m) || unreachable != nil {
			continue
		}
		unreachable = take(ctx, b, m, registries, path.Base(s.Packages[0])+":"+s.Version, progress)
		if ctx.Err() != nil {
			return offline.Sidecars{}, context.Cause(ctx)
		}
	}
	switch {
	case unreachable != nil:
		if err := gobuild.NeedGo(ctx, b.Runner); err != nil {
			return offline.Sidecars{}, fmt.Errorf("make sidecars: %w", errors.Join(unreachable, err))
		}
		fmt.Fprintf(progress, "no published sidecars, so they are compiled: %v\n", unreachable)
	case !missing:
		progress = io.Discard
	}
	return programs, steps.Run(ctx, progress, "sidecar", todo)
}

// take puts the program of a published image where the compiled one would be: the same version of it.
func take(
	ctx context.Context, b gobuild.Builder, m gobuild.Module, registries, image string, progress io.Writer,
) error {
	program, _, _ := strings.Cut(image, ":")
	_, _, err := b.Store.Produce(ctx, m.Name, b.Sum(m), func(ctx context.Context, dir string) error {
		return registry.Use(ctx, registries+"/"+image, progress, func(digest string, img v1.Image) error {
			fmt.Fprintf(progress, "take %s out of %s\n", program, digest)
			files := mutate.Extract(img)
			defer files.Close() //nolint:errcheck // It is only read.
			for in := tar.NewReader(files); ; {
				header, err := in.Next()
				if err != nil {
					return fmt.Errorf("find %s in the image: %w", program, err)
				}
				if path.Clean("/"+header.Name) != "/"+program || header.Typeflag != tar.TypeReg {
					continue
				}
				out, err := os.OpenFile(filepath.Join(dir, program), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
				if err != nil {
					return err
				}
				_, err = io.Copy(out, in)
				return errors.Join(err, out.Sync(), out.Close())
			}
		})
	})
	return err
}
