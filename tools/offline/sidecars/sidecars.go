package sidecars

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"runtime"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/tools/offline/gobuild"
	"github.com/seatrial/seatrial/tools/offline/proc"
	"github.com/seatrial/seatrial/tools/offline/steps"
	"github.com/seatrial/seatrial/tools/offline/store"
)

// Options say where results are kept, and who hears of the work.
type Options struct {
	// CacheDir is the directory of the store that results are kept in; empty means that of store.Default.
	CacheDir string
	// Log hears of what is rarely of interest; nil means nothing is logged.
	Log *slog.Logger
	// Progress hears, a line each, of every compilation: when it starts, every 20 s while it goes on, and when it
	// ends. It hears nothing when all is there. Nil means silence.
	Progress io.Writer
}

// Programs are the sidecars, linked statically, for nodes of this machine's architecture.
type Programs = offline.Sidecars

// Ensure returns the sidecars, and compiles those that the cache does not have: about eight minutes for all on two idle
// cores with nothing cached. An interrupted call goes on with the sidecar where it stopped.
func Ensure(ctx context.Context, o Options) (Programs, error) {
	goVersion, err := gobuild.GoVersion(ctx, proc.Exec{})
	if err != nil {
		return Programs{}, fmt.Errorf("make sidecars: %w", err)
	}
	keep := store.Store{Dir: o.CacheDir}
	if o.CacheDir == "" {
		if keep, err = store.Default(); err != nil {
			return Programs{}, fmt.Errorf("make sidecars: %w", err)
		}
	}
	return ensure(ctx, o, gobuild.Builder{Store: keep, Runner: proc.Exec{}, GoVersion: goVersion, Arch: runtime.GOARCH})
}

func ensure(ctx context.Context, o Options, b gobuild.Builder) (Programs, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
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
				result, err := b.Build(ctx, m)
				if err != nil {
					return fmt.Errorf("make sidecar %s: %w", s.title(), err)
				}
				o.Log.Debug("sidecar is there", "name", s.title(), "dir", result.Dir, "reused", result.Reused)
				*paths[i] = filepath.Join(result.Dir, s.program)
				return nil
			},
		})
	}
	if !missing {
		o.Progress = io.Discard
	}
	return programs, steps.Run(ctx, o.Progress, "sidecar", todo)
}
