package engine

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// sources are the two programs that run outside this process, and what they import. They are carried along as source so
// that an installed seatrial can build them anywhere: they need the Go compiler and nothing to download.
//
//go:embed enginecheck/*.go ociwrap/*.go runcwrap/*.go
var sources embed.FS

// modulePath is the path that the programs' imports begin with.
const modulePath = "github.com/seatrial/seatrial"

// program is one of the two, with the string variables that are set when it is linked.
type program struct {
	name string
	vars map[string]string
}

// build compiles a program, static, into dir and returns its path, which has a hash of all that went into it: what is
// there already is not built again.
func build(ctx context.Context, machine Machine, dir string, program program) (string, error) {
	files, sum, err := sourceOf(program)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", program.name, err)
	}
	path := filepath.Join(dir, program.name+"-"+sum)
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
		return path, nil
	}
	compiler, err := machine.LookPath("go")
	if err != nil {
		return "", fmt.Errorf("build %s: %w; fix: install Go and have it in PATH", program.name, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("build %s: %w", program.name, err)
	}
	work, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return "", fmt.Errorf("build %s: %w", program.name, err)
	}
	defer func() { _ = os.RemoveAll(work) }() // Below the state directory; nothing depends on its removal.
	root := filepath.Join(work, "tools", "offline", "engine")
	files["../../../go.mod"] = []byte("module " + modulePath + "\n\ngo 1.24\n")
	for name, text := range files {
		to := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return "", fmt.Errorf("build %s: %w", program.name, err)
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return "", fmt.Errorf("build %s: %w", program.name, err)
		}
	}
	made := filepath.Join(work, program.name)
	env := []string{"CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOPROXY=off", "GOTOOLCHAIN=local", "GOOS=linux"}
	_, err = machine.RunWith(ctx, nil, env, compiler, "build", "-C", root, "-trimpath",
		"-ldflags", linkFlags(program), "-o", made, "./"+program.name)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", program.name, err)
	}
	if err := os.Rename(made, path); err != nil {
		return "", fmt.Errorf("build %s: %w", program.name, err)
	}
	return path, nil
}

// sourceOf returns the program's files by their path below this package, and the first 12 hex digits of their hash.
func sourceOf(program program) (map[string][]byte, string, error) {
	files := map[string][]byte{}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\n", linkFlags(program))
	err := fs.WalkDir(sources, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") {
			return err
		}
		if dir := filepath.Dir(path); dir != program.name && dir != "ociwrap" {
			return nil
		}
		text, err := sources.ReadFile(path)
		if err != nil {
			return err
		}
		files[path] = text
		fmt.Fprintf(hash, "%s %d\n%s\n", path, len(text), text)
		return nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("read its source: %w", err)
	}
	return files, hex.EncodeToString(hash.Sum(nil))[:12], nil
}

func linkFlags(program program) string {
	flags := "-s -w"
	for _, name := range sortedKeys(program.vars) {
		flags += " -X main." + name + "=" + program.vars[name]
	}
	return flags
}
