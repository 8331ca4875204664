// Package sidecars makes the programs that a CSI driver is run with: external-attacher, external-provisioner and
// external-resizer, from their Go modules, exactly as pinned.
package sidecars

import (
	"context"
	"embed"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"time"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/tools/offline/gobuild"
	"github.com/seatrial/seatrial/tools/offline/proc"
	"github.com/seatrial/seatrial/tools/offline/steps"
	"github.com/seatrial/seatrial/tools/offline/store"
)

//go:embed pins
var pinFiles embed.FS

// sidecar is a program of kubernetes-csi that is compiled from its Go module.
type sidecar struct {
	name, path, version string
	program             string // Below cmd/.
	// cold is about how long it takes on two idle cores with empty caches.
	cold time.Duration
}

func attacher() sidecar {
	return sidecar{"external-attacher", "github.com/kubernetes-csi/external-attacher/v4", "v4.13.0", "csi-attacher",
		4 * time.Minute}
}

func provisioner() sidecar {
	return sidecar{"external-provisioner", "github.com/kubernetes-csi/external-provisioner/v6", "v6.3.0",
		"csi-provisioner", 3 * time.Minute}
}

func resizer() sidecar {
	return sidecar{"external-resizer", "github.com/kubernetes-csi/external-resizer/v2", "v2.3.0", "csi-resizer",
		3 * time.Minute}
}

func all() []sidecar { return []sidecar{attacher(), provisioner(), resizer()} }

func (s sidecar) title() string      { return s.name + " " + s.version }
func (s sidecar) pin() string        { return s.name + "-" + s.version }
func (s sidecar) packages() []string { return []string{s.path + "/cmd/" + s.program} }

// module is what the compiler needs to know.
func (s sidecar) module() (gobuild.Module, error) {
	files, err := gobuild.PinFiles(pinFiles, path.Join("pins", s.pin()))
	if err != nil {
		return gobuild.Module{}, fmt.Errorf("read pins of %s: %w", s.title(), err)
	}
	return gobuild.Module{
		Name: s.name, Files: files, Packages: s.packages(), Variables: map[string]string{"main.version": s.version},
	}, nil
}

// Pin writes the pinned modules of the sidecars below pinsDir, as gobuild.WritePin does it: it is called when a version
// in this package is changed.
func Pin(ctx context.Context, pinsDir string) error {
	for _, s := range all() {
		m := gobuild.Pin{Name: s.name, Path: s.path, Version: s.version, Packages: s.packages()}
		if err := gobuild.WritePin(ctx, m, filepath.Join(pinsDir, s.pin())); err != nil {
			return err
		}
	}
	return nil
}

// Options say where results are kept, and who hears of the work.
type Options struct {
	// CacheDir is the directory of the store that results are kept in.
	CacheDir string
	// Progress hears, a line each, of every compilation: when it starts, every 20 s while it goes on, and when it
	// ends. It hears nothing when all is there.
	Progress io.Writer
}

// Programs are the sidecars, linked statically, for nodes of this machine's architecture.
type Programs = offline.Sidecars

// Ensure returns the sidecars, and compiles those that the cache does not have: about eight minutes for all on two idle
// cores with nothing cached. An interrupted call goes on with the sidecar where it stopped.
func Ensure(ctx context.Context, o Options) (Programs, error) {
	return ensure(ctx, o, gobuild.New(store.Store{Dir: o.CacheDir}, proc.Exec{}))
}

// Dirs returns where, in the store, the sidecars are or would be.
func Dirs(cacheDir string) ([]string, error) {
	b := gobuild.New(store.Store{Dir: cacheDir}, proc.Exec{})
	var dirs []string
	for _, s := range all() {
		m, err := s.module()
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, b.Store.Path(m.Name, b.Sum(m)))
	}
	return dirs, nil
}

func ensure(ctx context.Context, o Options, b gobuild.Builder) (Programs, error) {
	programs := Programs{Versions: map[string]string{}}
	paths := []*string{&programs.Attacher, &programs.Provisioner, &programs.Resizer}
	var todo []steps.Step
	missing := false
	for i, s := range all() {
		m, err := s.module()
		if err != nil {
			return Programs{}, err
		}
		programs.Versions[s.name] = s.version
		missing = missing || !b.Has(m)
		todo = append(todo, steps.Step{
			Name: "compile " + s.title(), About: s.cold, There: func() bool { return b.Has(m) },
			Do: func(ctx context.Context) error {
				dir, err := b.Build(ctx, m)
				if err != nil {
					return fmt.Errorf("make sidecar %s: %w", s.title(), err)
				}
				*paths[i] = filepath.Join(dir, s.program)
				return nil
			},
		})
	}
	if !missing {
		o.Progress = io.Discard
	} else if err := gobuild.NeedGo(ctx, b.Runner); err != nil {
		return Programs{}, fmt.Errorf("make sidecars: %w", err)
	}
	return programs, steps.Run(ctx, o.Progress, "sidecar", todo)
}
