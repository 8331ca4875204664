package agentbin

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

// Variable names the environment variable that says where the agent is.
const Variable = "SEATRIAL_AGENT"

const (
	program = "seatrial-agent"
	source  = "github.com/seatrial/seatrial/tools/agent"
)

// Find returns the path of the agent: the one that $SEATRIAL_AGENT names, else the one beside the running program, else
// one that it builds from the module at hand with the go command. A built one is kept in the user's cache directory
// under its own hash. The agent must be of the nodes' architecture, which is taken to be this machine's.
func Find(ctx context.Context, log *slog.Logger) (string, error) {
	if path := os.Getenv(Variable); path != "" {
		if err := executable(path); err != nil {
			return "", fmt.Errorf("find agent by $%s: %w", Variable, err)
		}
		return path, nil
	}
	var beside string
	if self, err := os.Executable(); err == nil {
		beside = filepath.Join(filepath.Dir(self), program)
		if executable(beside) == nil {
			return beside, nil
		}
	}
	path, err := build(ctx, log)
	if err != nil {
		return "", fmt.Errorf("find agent: $%s is not set, there is none at %q, and it could not be built: %w; "+
			"build it with 'CGO_ENABLED=0 go build %s' and set $%s", Variable, beside, err, source, Variable)
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

// build builds the agent. The go command's own cache makes a second build a matter of a second.
func build(ctx context.Context, log *slog.Logger) (path string, err error) {
	begin := time.Now()
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "seatrial")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	fresh, err := os.MkdirTemp(dir, "agent-build-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(fresh)) }()
	built := filepath.Join(fresh, program)
	log.Info("building the agent", "package", source)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", built, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go build %s: %w: %s", source, err, strings.TrimSpace(said.String()))
	}
	name, err := hashedName(built)
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, name)
	if err := os.Rename(built, path); err != nil {
		return "", err
	}
	log.Info("built the agent", "path", path, "duration", time.Since(begin).Round(time.Millisecond))
	return path, nil
}

func hashedName(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	_, err = io.Copy(hash, file)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", err
	}
	return program + "-" + hex.EncodeToString(hash.Sum(nil)[:8]), nil
}
