package gobuild

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"

	"github.com/seatrial/seatrial/tools/offline/proc"
)

// WritePins writes the pinned modules of components below dir, with the go command: a go.mod that requires exactly the
// component's version and everything beneath it, and a go.sum. Own has the sources of our own packages. Pins that exist
// are left alone; remove the directory of one to make it again.
func WritePins(ctx context.Context, dir string, own fs.FS, all []Component) error {
	for _, c := range all {
		to := filepath.Join(dir, c.PinName())
		if _, err := os.Stat(filepath.Join(to, "go.mod"+pinSuffix)); err == nil || c.Path == "" {
			continue // Without a path, it is compiled in another component's pinned module.
		}
		files := make(map[string][]byte)
		for _, guest := range all {
			// With the sources of all guests, nothing they need is dropped.
			if guest.PinName() == c.PinName() {
				if err := guest.addOwn(files, own); err != nil {
					return err
				}
			}
		}
		if err := writePin(ctx, c, files, to); err != nil {
			return fmt.Errorf("pin %s: %w", c.Title(), err)
		}
	}
	return nil
}

func writePin(ctx context.Context, c Component, files map[string][]byte, dir string) error {
	work, err := os.MkdirTemp("", "seatrial-pin-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }() // In the temporary directory; nothing depends on its removal.
	upstream, err := Download(ctx, proc.Exec{}, work, c.Path+"@"+c.Version)
	if err != nil {
		return err
	}
	theirs, err := os.ReadFile(upstream.GoMod)
	if err != nil {
		return err
	}
	if files["go.mod"], err = pinnedMod(c, theirs); err != nil {
		return err
	}
	if err := writeFiles(work, files); err != nil {
		return err
	}
	// The go command completes go.mod and writes go.sum.
	if len(c.Packages) == 0 {
		_, err = Download(ctx, proc.Exec{}, work, c.Path)
	} else {
		err = proc.Exec{}.Run(ctx, proc.Command{Args: []string{"go", "mod", "tidy"}, Dir: work, Env: modEnv()})
	}
	if err != nil {
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

// modEnv lets the go command change go.mod and go.sum.
func modEnv() []string { return []string{"GOFLAGS=-mod=mod", "GOWORK=off"} }

// Downloaded is a Go module in the module cache.
type Downloaded struct{ GoMod, Dir, Version, Error string }

// Download lets the go command download a Go module, PATH or PATH@VERSION, in the module in dir, and check its sums.
func Download(ctx context.Context, r proc.Runner, dir, module string) (Downloaded, error) {
	var d Downloaded
	var out bytes.Buffer
	err := r.Run(ctx, proc.Command{
		Args: []string{"go", "mod", "download", "-json", module}, Dir: dir, Env: modEnv(), Stdout: &out,
	})
	// If it fails, what it prints says why.
	if decodeErr := json.Unmarshal(out.Bytes(), &d); err == nil && decodeErr != nil {
		err = fmt.Errorf("read what go mod download printed: %w", decodeErr)
	}
	if err != nil && d.Error != "" {
		err = fmt.Errorf("%w: %s", err, d.Error)
	}
	return d, err
}

// pinnedMod derives the go.mod of the pinned module from the module's own: the same Go version and godebug
// settings, its replacements (those of a directory in its repository become the module published from there), a
// requirement of the module, and a tool line for each of its programs so that nothing they need is dropped.
func pinnedMod(c Component, upstream []byte) ([]byte, error) {
	up, err := modfile.Parse("go.mod", upstream, nil)
	if err != nil {
		return nil, fmt.Errorf("parse go.mod of %s: %w", c.Path, err)
	}
	out := new(modfile.File)
	if err := out.AddModuleStmt("seatrial.invalid/" + c.Name); err != nil {
		return nil, err
	}
	if up.Go != nil {
		if err := out.AddGoStmt(up.Go.Version); err != nil {
			return nil, err
		}
	}
	for _, g := range up.Godebug {
		if err := out.AddGodebug(g.Key, g.Value); err != nil {
			return nil, err
		}
	}
	if err := out.AddRequire(c.Path, c.Version); err != nil {
		return nil, err
	}
	for _, pkg := range c.Packages {
		if strings.HasPrefix(pkg, "./") {
			continue
		}
		if err := out.AddTool(pkg); err != nil {
			return nil, err
		}
	}
	for _, rep := range up.Replace {
		to, version := rep.New.Path, rep.New.Version
		if version == "" {
			to, version = rep.Old.Path, publishedVersion(c.Version, rep.New.Path)
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

// publishedVersion returns the version that a module in a directory of a repository at that version is published as,
// "" if unknown: Kubernetes v1.X.Y publishes its staging directory as v0.X.Y. A module beside another in one repository
// has the version that the requirements name.
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
