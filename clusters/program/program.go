// Package program finds the programs of this module that run on nodes or beside the harness. Its promise: the path that
// it returns is an executable file. A released seatrial carries the programs and compiles nothing.
package program

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
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
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/clusters/durable"
)

// module is the path that all programs' import paths begin with.
const module = "github.com/seatrial/seatrial/"

// Program is a program of this module. The Makefile builds those that a release carries (PROGRAMS).
type Program struct {
	Name     string // Of its file, beside another program of ours.
	Source   string // The import path of its package main.
	Variable string // The environment variable that holds its path.
}

// Agent observes a node and runs what the harness needs there.
func Agent() Program { return Program{"seatrial-agent", module + "tools/agent", "SEATRIAL_AGENT"} }

// Disk is the CSI driver of the shared disks.
func Disk() Program {
	return Program{"seatrial-disk", module + "fixtures/shareddisk/driver", "SEATRIAL_DISK"}
}

// EngineCheck shows, in a container of its own, that a container engine runs privileged containers.
func EngineCheck() Program {
	return Program{"seatrial-enginecheck", module + "tools/offline/engine/enginecheck", "SEATRIAL_ENGINECHECK"}
}

// MySQLStart is the entry point of the database image.
func MySQLStart() Program {
	return Program{"seatrial-mysql-start", module + "fixtures/mysql/start", "SEATRIAL_MYSQL_START"}
}

// Offline makes what a host lacks: engine and images.
func Offline() Program {
	return Program{"seatrial-offline", module + "tools/offline", "SEATRIAL_OFFLINE"}
}

// RuncWrap wraps the OCI runtime on a host that cannot grant every capability.
func RuncWrap() Program {
	return Program{"seatrial-runcwrap", module + "tools/offline/engine/runcwrap", "SEATRIAL_RUNCWRAP"}
}

// Seatrial is the command line.
func Seatrial() Program { return Program{"seatrial", module + "tools/seatrial", "SEATRIAL_PROGRAM"} }

// Find returns the path of the program: that in $Variable, else that beside the running program, else that which the
// running program carries, else that which the go command builds from the module at hand, or installs from the module
// proxy if `go install` made the running program. A carried or built program is
// linked statically and kept in the user's cache directory under its own hash. Nodes must have this machine's
// architecture.
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
	if carried != "" {
		return p.place(carried)
	}
	path, err := p.build(ctx, log)
	if err != nil {
		return "", fmt.Errorf("find %s: $%s is not set, there is none at %q, this build carries none (a release does) "+
			"and it could not be built: %w; in the source tree, build it with 'CGO_ENABLED=0 go build %s' and set $%s",
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

// cacheDir returns our directory below the user's cache directory.
func cacheDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "seatrial")
	return dir, os.MkdirAll(dir, 0o755)
}

// place unpacks all programs of an archive into one directory with its hash in the name, and returns the path of this
// one. Each program finds the others beside itself.
func (p Program) place(archive string) (path string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("place %s, which seatrial carries: %w", p.Name, err)
		}
	}()
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(archive))
	dir := filepath.Join(cache, "programs-"+hex.EncodeToString(sum[:8]))
	path = filepath.Join(dir, p.Name)
	if executable(path) == nil {
		return path, nil
	}
	fresh, err := os.MkdirTemp(cache, "programs-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(fresh)) }()
	if err := unpack(archive, fresh); err != nil {
		return "", err
	}
	// If another process is first, its directory stays, with the same files.
	moved := os.Rename(fresh, dir)
	if err := executable(path); err != nil {
		return "", fmt.Errorf("%w; delete %q if it is there", errors.Join(moved, err), dir)
	}
	return path, nil
}

// unpack writes the files of a tar.gz into dir, durably: a crash must not leave half a program under its hash.
func unpack(archive, dir string) error {
	compressed, err := gzip.NewReader(strings.NewReader(archive))
	if err != nil {
		return err
	}
	files := tar.NewReader(compressed)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return errors.Join(os.Chmod(dir, 0o755), durable.SyncDir(dir))
		}
		if err != nil {
			return err
		}
		f, err := os.OpenFile(filepath.Join(dir, filepath.Base(header.Name)), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, files)
		if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
			return err
		}
	}
}

// released returns the version by which `go install` made the running program, or "": a build in a checkout has its
// commit, and is built from the tree.
func released() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Sum == "" || info.Main.Path+"/" != module {
		return "" // Only a module from a proxy has a checksum.
	}
	return info.Main.Version
}

// build builds the program; a second build takes a second, by the go command's cache. The program does not hold the
// commit, so that its hash, and with it the database image, changes only with the program.
func (p Program) build(ctx context.Context, log *slog.Logger) (path string, err error) {
	begin := time.Now()
	dir, err := cacheDir()
	if err != nil {
		return "", err
	}
	fresh, err := os.MkdirTemp(dir, p.Name+"-build-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(fresh)) }()
	built := filepath.Join(fresh, p.Name)
	log.Info("building a program for the nodes", "package", p.Source)
	cmd := exec.CommandContext(ctx,
		"go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", built, p.Source)
	if v := released(); v != "" {
		built = filepath.Join(fresh, filepath.Base(p.Source))
		cmd = exec.CommandContext(ctx, "go", "install", "-trimpath", "-ldflags=-s -w", p.Source+"@"+v)
	}
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOWORK=off", "GOBIN="+fresh)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(said.String()))
	}
	text, err := os.ReadFile(built)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	path = filepath.Join(dir, p.Name+"-"+hex.EncodeToString(sum[:8]))
	unlock, err := durable.Lock(filepath.Join(dir, "builds.lock"), unix.LOCK_EX) // Nobody forgets what is placed now.
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := os.Rename(built, path); err != nil {
		return "", err
	}
	if err := p.forget(dir, begin.Add(-unused)); err != nil {
		log.Warn("an old build stays in the cache", "error", err)
	}
	log.Info("built a program for the nodes", "path", path, "duration", time.Since(begin).Round(time.Millisecond))
	return path, nil
}

// unused is how long a build that no run has made again stays in the cache.
const unused = 7 * 24 * time.Hour

// forget deletes builds of the program from before t.
func (p Program) forget(dir string, t time.Time) error {
	builds, err := filepath.Glob(filepath.Join(dir, p.Name+"-"+strings.Repeat("[0-9a-f]", 16)))
	for _, build := range builds {
		if info, statErr := os.Stat(build); statErr == nil && info.ModTime().Before(t) {
			err = errors.Join(err, os.Remove(build))
		}
	}
	return err
}
