// Package gobuild pins Go modules that are compiled without being dependencies of this module, and compiles them into a
// store: a go.mod and a go.sum for each, kept beside the sources, say exactly what a program is made from, and the same
// sources, pins, flags and Go are never compiled twice.
package gobuild

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/seatrial/seatrial/tools/offline/proc"
	"github.com/seatrial/seatrial/tools/offline/store"
)

// Builder compiles modules with the Go on this host.
type Builder struct {
	Store  store.Store
	Runner proc.Runner
	// GoVersion is the version of Go in the addresses of results.
	GoVersion string
	// Arch is the GOARCH to compile for.
	Arch string
}

// New returns a builder for this machine's architecture. The version of Go in its addresses is the one that this
// program was built with: a host without the go command finds what another host has built, and only Build needs it.
func New(keep store.Store, r proc.Runner) Builder {
	return Builder{Store: keep, Runner: r, GoVersion: runtime.Version(), Arch: runtime.GOARCH}
}

// NeedGo returns an error where there is no go command.
func NeedGo(ctx context.Context, r proc.Runner) error {
	if _, err := proc.Output(ctx, r, proc.Command{Args: []string{"go", "env", "GOVERSION"}}); err != nil {
		return fmt.Errorf("ask go for its version: %w; fix: install Go and have it in PATH, or bring the images of a "+
			"host that has it (`seatrial setup --save FILE` there, `seatrial setup --load FILE` here)", err)
	}
	return nil
}

// Sum returns the digest of what the module's programs would be made from.
func (b Builder) Sum(m Module) string { return m.address(b.GoVersion, b.Arch) }

// Has tells whether the module's programs are in the store.
func (b Builder) Has(m Module) bool { return b.Store.Has(m.Name, b.Sum(m)) }

// Build returns the directory of the module's programs, compiling them only when the store does not have them. An error
// names the module and the log; what other modules were compiled into stays, so the same call goes on where it stopped.
func (b Builder) Build(ctx context.Context, m Module) (string, error) {
	dir, _, err := b.Store.Produce(ctx, m.Name, b.Sum(m), func(ctx context.Context, dir string) error {
		return b.compile(ctx, m, dir)
	})
	return dir, err
}

func (b Builder) compile(ctx context.Context, m Module, outDir string) error {
	work, err := os.MkdirTemp("", "seatrial-"+m.Name+"-")
	if err != nil {
		return fmt.Errorf("make work directory of component %s: %w", m.Name, err)
	}
	defer func() { _ = os.RemoveAll(work) }() // In the temporary directory; nothing depends on its removal.
	if err := writeFiles(work, m.Files); err != nil {
		return fmt.Errorf("write sources of component %s: %w", m.Name, err)
	}
	log, err := b.Store.Log(m.Name)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // A log for people; what matters is in the error.
	args := m.args(outDir)
	fmt.Fprintf(log, "%q\n", args)
	err = b.Runner.Run(ctx, proc.Command{Args: args, Dir: work, Env: m.env(b.Arch), Stdout: log, Stderr: log})
	if err != nil {
		return fmt.Errorf("build component %s (log: %s; the same command resumes): %w", m.Name, log.Name(), err)
	}
	for _, program := range m.programs() {
		if _, err := os.Stat(filepath.Join(outDir, program)); err != nil {
			return fmt.Errorf("build component %s (log: %s): no program %s came out of it", m.Name, log.Name(), program)
		}
	}
	return nil
}

// writeFiles writes files by slash-separated path below dir.
func writeFiles(dir string, files map[string][]byte) error {
	for name, data := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
