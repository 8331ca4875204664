package sidecars

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"runtime"
	"time"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/tools/offline/gobuild"
	"github.com/seatrial/seatrial/tools/offline/proc"
	"github.com/seatrial/seatrial/tools/offline/store"
)

// heartbeat is how often a compilation that goes on says so.
const heartbeat = 30 * time.Second

// Options say where results are kept, and who hears of the work.
type Options struct {
	// CacheDir is the directory of the store that results are kept in; empty means that of store.Default.
	CacheDir string
	// Log hears of what is rarely of interest; nil means nothing is logged.
	Log *slog.Logger
	// Progress hears, a line each, of every compilation: when it starts, at least every 30 s while it goes on, and when
	// it ends. It hears nothing when all is there. Nil means silence.
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
	for _, want := range []struct {
		sidecar sidecar
		path    *string
	}{{attacher(), &programs.Attacher}, {provisioner(), &programs.Provisioner}, {resizer(), &programs.Resizer}} {
		path, err := want.sidecar.build(ctx, b, o)
		if err != nil {
			return Programs{}, fmt.Errorf("make sidecar %s: %w", want.sidecar.title(), err)
		}
		*want.path = path
		programs.Versions[want.sidecar.name] = want.sidecar.version
	}
	return programs, nil
}

// build compiles the sidecar unless it is there, and says so while it does.
func (s sidecar) build(ctx context.Context, b gobuild.Builder, o Options) (path string, err error) {
	m, err := s.module()
	if err != nil {
		return "", err
	}
	if !b.Has(m) {
		begin := time.Now()
		fmt.Fprintf(o.Progress, "sidecar %s: compiling (about %.0f min on two idle cores)\n",
			s.title(), s.cold.Minutes())
		quiet := beat(func() {
			fmt.Fprintf(o.Progress, "sidecar %s: %s so far\n", s.title(), time.Since(begin).Round(time.Second))
		})
		defer func() {
			quiet()
			fmt.Fprintf(o.Progress, "sidecar %s: %s after %s\n", s.title(),
				map[bool]string{true: "done", false: "failed"}[err == nil], time.Since(begin).Round(time.Second))
		}()
	}
	result, err := b.Build(ctx, m)
	if err != nil {
		return "", err
	}
	o.Log.Debug("sidecar is there", "name", s.title(), "dir", result.Dir, "reused", result.Reused)
	return filepath.Join(result.Dir, s.program), nil
}

// beat calls say every so often until the function it returns is called, which waits for the last call to end.
func beat(say func()) (quiet func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(heartbeat)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				say()
			case <-stop:
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}
