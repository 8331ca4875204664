package gobuild

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"

	"github.com/seatrial/seatrial/tools/offline/proc"
)

// pinSuffix is what every pinned file carries at its end: a directory with a go.mod cannot be embedded.
const pinSuffix = ".txt"

// PinFiles returns the files of the pinned module in that directory under their real names, go.mod and go.sum among
// them.
func PinFiles(pins fs.FS, dir string) (map[string][]byte, error) {
	files := make(map[string][]byte)
	err := fs.WalkDir(pins, dir, func(p string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(pins, p)
		if err != nil {
			return err
		}
		files[strings.TrimSuffix(strings.TrimPrefix(p, dir+"/"), pinSuffix)] = data
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read pinned module %q: %w", dir, err)
	}
	return files, nil
}

// Pin is a module to be pinned.
type Pin struct {
	// Name names it in errors and is the end of the pinned module's own path.
	Name string
	// Path and Version are the Go module that is pinned.
	Path, Version string
	// Packages are the import paths of the programs wanted of it; without any, the module is only downloaded. Those
	// that begin with "./" are packages among Sources.
	Packages []string
	// Sources are files of our own that are compiled in the pinned module, by slash-separated path.
	Sources map[string][]byte
}

// WritePin makes the pinned module in dir, with the go command: a go.mod that requires exactly its version and
// everything beneath it, and a go.sum. A pin that is there already is left alone; remove the directory to make it
// again.
func WritePin(ctx context.Context, m Pin, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "go.mod"+pinSuffix)); err == nil {
		return nil
	}
	if err := writePin(ctx, m, dir); err != nil {
		return fmt.Errorf("pin %s: %w", m.Name, err)
	}
	return nil
}

func writePin(ctx context.Context, m Pin, dir string) error {
	work, err := os.MkdirTemp("", "seatrial-pin-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }() // In the temporary directory; nothing depends on its removal.
	upstream, err := upstreamMod(ctx, m, work)
	if err != nil {
		return err
	}
	files := make(map[string][]byte)
	maps.Copy(files, m.Sources)
	if files["go.mod"], err = pinnedMod(m, upstream); err != nil {
		return err
	}
	if err := writeFiles(work, files); err != nil {
		return err
	}
	if err := fillSums(ctx, m, work); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(work, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name+pinSuffix), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// fillSums lets the go command complete go.mod and write go.sum.
func fillSums(ctx context.Context, m Pin, work string) error {
	args := []string{"go", "mod", "tidy"}
	if len(m.Packages) == 0 {
		args = []string{"go", "mod", "download", "-json", m.Path}
	}
	env := []string{"GOFLAGS=-mod=mod", "GOWORK=off"}
	return proc.Exec{}.Run(ctx, proc.Command{Args: args, Dir: work, Env: env})
}

// upstreamMod reads the go.mod of the module itself.
func upstreamMod(ctx context.Context, m Pin, work string) ([]byte, error) {
	out, err := proc.Output(ctx, proc.Exec{}, proc.Command{
		Args: []string{"go", "mod", "download", "-json", m.Path + "@" + m.Version},
		Dir:  work, Env: []string{"GOWORK=off", "GOFLAGS=-mod=mod"},
	})
	if err != nil {
		return nil, err
	}
	var module struct{ GoMod string }
	if err := json.Unmarshal([]byte(out), &module); err != nil {
		return nil, fmt.Errorf("read what go mod download printed: %w", err)
	}
	return os.ReadFile(module.GoMod)
}

// pinnedMod derives the go.mod of the pinned module from the module's own: the same Go version and godebug
// settings, its replacements (those of a directory in its repository become the module published from there), a
// requirement of the module, and a tool line for each of its programs so that nothing they need is dropped.
func pinnedMod(m Pin, upstream []byte) ([]byte, error) {
	up, err := modfile.ParseLax("go.mod", upstream, nil)
	if err != nil {
		return nil, fmt.Errorf("parse go.mod of %s: %w", m.Path, err)
	}
	// ParseLax drops what only the main module's go.mod is allowed to say, which is what is wanted here.
	full, err := modfile.Parse("go.mod", upstream, nil)
	if err != nil {
		return nil, fmt.Errorf("parse go.mod of %s: %w", m.Path, err)
	}
	out := new(modfile.File)
	if err := out.AddModuleStmt("seatrial.invalid/" + m.Name); err != nil {
		return nil, err
	}
	if up.Go != nil {
		if err := out.AddGoStmt(up.Go.Version); err != nil {
			return nil, err
		}
	}
	for _, g := range full.Godebug {
		if err := out.AddGodebug(g.Key, g.Value); err != nil {
			return nil, err
		}
	}
	if err := out.AddRequire(m.Path, m.Version); err != nil {
		return nil, err
	}
	for _, pkg := range m.Packages {
		if strings.HasPrefix(pkg, "./") {
			continue
		}
		if err := out.AddTool(pkg); err != nil {
			return nil, err
		}
	}
	for _, rep := range full.Replace {
		to, version := rep.New.Path, rep.New.Version
		if version == "" {
			to, version = rep.Old.Path, publishedVersion(m.Version, rep.New.Path)
		}
		if version == "" {
			continue
		}
		if err := out.AddReplace(rep.Old.Path, rep.Old.Version, to, version); err != nil {
			return nil, err
		}
	}
	out.Cleanup()
	return out.Format()
}

// publishedVersion is the version under which a module kept in a directory of the module's repository is
// published, or "" when that is not known: Kubernetes v1.X.Y publishes its staging directory as v0.X.Y, and a
// module that lies beside the module's in one repository has the module's own version, which its
// requirements name already.
func publishedVersion(version, dir string) string {
	if !strings.HasPrefix(path.Clean(dir), "staging/src/") {
		return ""
	}
	rest, ok := strings.CutPrefix(version, "v1.")
	if !ok {
		return ""
	}
	return "v0." + rest
}
