package nodeimage

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"

	"github.com/seatrial/seatrial/clusters/nodeimage/proc"
)

// Pin writes the pinned modules of a Kubernetes version below pinsDir: for each component a go.mod that requires
// exactly its version and everything beneath it, and a go.sum, both made by the go command. Pins that are there
// already are left alone; remove the directory to make one again.
func Pin(ctx context.Context, version, pinsDir string) error {
	r, err := releaseOf(version)
	if err != nil {
		return err
	}
	all := append(components(r), filesOnly()...)
	for _, c := range all {
		if c.Pin != "" && c.Module == "" {
			continue // It is compiled in another component's pinned module.
		}
		dir := filepath.Join(pinsDir, c.pin())
		if _, err := os.Stat(filepath.Join(dir, "go.mod.txt")); err == nil {
			continue
		}
		if err := pinOne(ctx, c, guests(all, c), dir); err != nil {
			return fmt.Errorf("pin component %s: %w", c.Name, err)
		}
	}
	return nil
}

// guests are the components that are compiled in the pinned module of c, c among them.
func guests(all []Component, c Component) []Component {
	return slices.DeleteFunc(slices.Clone(all), func(g Component) bool { return g.pin() != c.pin() })
}

// pinOne makes the pinned module of one component.
func pinOne(ctx context.Context, c Component, guests []Component, dir string) error {
	work, err := os.MkdirTemp("", "seatrial-pin-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }() // In the temporary directory; nothing depends on its removal.
	upstream, err := upstreamMod(ctx, c, work)
	if err != nil {
		return err
	}
	files := make(map[string][]byte)
	for _, guest := range guests {
		for _, pkg := range guest.Packages {
			if own, ok := strings.CutPrefix(pkg, "./"); ok {
				if err := addOwn(files, own); err != nil {
					return err
				}
			}
		}
	}
	if files["go.mod"], err = pinnedMod(c, upstream); err != nil {
		return err
	}
	for name, data := range files {
		p := filepath.Join(work, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(p, data, 0o644); err != nil {
			return err
		}
	}
	if err := fillSums(ctx, c, work); err != nil {
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
		if err := os.WriteFile(filepath.Join(dir, name+".txt"), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// fillSums lets the go command complete go.mod and write go.sum.
func fillSums(ctx context.Context, c Component, work string) error {
	args := []string{"go", "mod", "tidy"}
	if len(c.Packages) == 0 {
		args = []string{"go", "mod", "download", "-json", c.Module}
	}
	env := []string{"GOFLAGS=-mod=mod", "GOWORK=off"}
	return proc.Exec{}.Run(ctx, proc.Command{Args: args, Dir: work, Env: env})
}

// upstreamMod reads the go.mod of the component's own module.
func upstreamMod(ctx context.Context, c Component, work string) ([]byte, error) {
	out, err := proc.Output(ctx, proc.Exec{}, proc.Command{
		Args: []string{"go", "mod", "download", "-json", c.Module + "@" + c.Version},
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

// pinnedMod derives the go.mod of the pinned module from the component's own: the same Go version and godebug
// settings, its replacements (those of a directory in its repository become the module published from there), a
// requirement of the component, and a tool line for each of its programs so that nothing they need is dropped.
func pinnedMod(c Component, upstream []byte) ([]byte, error) {
	up, err := modfile.ParseLax("go.mod", upstream, nil)
	if err != nil {
		return nil, fmt.Errorf("parse go.mod of %s: %w", c.Module, err)
	}
	// ParseLax drops what only the main module's go.mod is allowed to say, which is what is wanted here.
	full, err := modfile.Parse("go.mod", upstream, nil)
	if err != nil {
		return nil, fmt.Errorf("parse go.mod of %s: %w", c.Module, err)
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
	for _, g := range full.Godebug {
		if err := out.AddGodebug(g.Key, g.Value); err != nil {
			return nil, err
		}
	}
	if err := out.AddRequire(c.Module, c.Version); err != nil {
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
	for _, rep := range full.Replace {
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

// publishedVersion is the version under which a module kept in a directory of the component's repository is
// published, or "" when that is not known: Kubernetes v1.X.Y publishes its staging directory as v0.X.Y, and a
// module that lies beside the component's in one repository has the component's own version, which its
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
