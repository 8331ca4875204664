// Package program finds the programs of this module that run on nodes, or builds them. Its promise: what it returns is
// there and can be executed.
package program

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Program is a program of this module that runs on nodes.
type Program struct {
	// Name is the file's name where it lies beside another program of ours.
	Name string
	// Source is the import path of its package main.
	Source string
	// Variable names the environment variable that says where it is.
	Variable string
}

// Agent is the one that observes a node and carries out what the harness wants there.
func Agent() Program {
	return Program{
		Name: "seatrial-agent", Source: "github.com/seatrial/seatrial/tools/agent", Variable: "SEATRIAL_AGENT",
	}
}

// Find returns the path of the program: the one that $Variable names, else the one beside the running program, else
// one that it builds from the module at hand with the go command. A built one is linked statically and kept in the
// user's cache directory under its own hash. The program must be of the nodes' architecture, which is taken to be this
// machine's.
func (p Program) Find(ctx context.Context, log *slog.Logger) (string, error) {
	if path := os.Getenv(p.Variable); path != "" {
		if err := executable(path); err != nil {
			return "", fmt.Errorf("find %s by $%s: %w", p.Name, p.Variable, err)
		}
		return path, nil
	}
	var beside string
	if self, err := os.Executable(); err == nil {
		beside = filepath.Join(filepath.Dir(self), p.Name)
		if executable(beside) == nil {
			return beside, nil
		}
	}
	path, err := p.build(ctx, log)
	if err != nil {
		return "", fmt.Errorf("find %s: $%s is not set, there is none at %q, and it could not be built: %w; "+
			"build it with 'CGO_ENABLED=0 go build %s' and set $%s",
			p.Name, p.Variable, beside, err, p.Source, p.Variable)
	}
	return path, nil
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%q is not a file", path)
	case info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%q is not executable", path)
	}
	return nil
}

// build builds the program. The go command's own cache makes a second build a matter of a second.
func (p Program) build(ctx context.Context, log *slog.Logger) (path string, err error) {
	begin := time.Now()
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "seatrial")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	fresh, err := os.MkdirTemp(dir, p.Name+"-build-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(fresh)) }()
	built := filepath.Join(fresh, p.Name)
	log.Info("building a program for the nodes", "package", p.Source)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", built, p.Source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go build %s: %w: %s", p.Source, err, strings.TrimSpace(said.String()))
	}
	sum, err := hashOf(built)
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, p.Name+"-"+sum)
	if err := os.Rename(built, path); err != nil {
		return "", err
	}
	log.Info("built a program for the nodes", "path", path, "duration", time.Since(begin).Round(time.Millisecond))
	return path, nil
}

// hashOf returns the first 16 hexadecimal digits of the file's SHA-256.
func hashOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	_, err = io.Copy(hash, file)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)[:8]), nil
}
