// Package database makes the database image on hosts that have no container registry: MySQL from Debian packages, cut
// down to what a server and its checks need, with the start program as entry point. The same inputs never build
// twice.
package database

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/tools/offline/layers"
	"github.com/seatrial/seatrial/tools/offline/proc"
	"github.com/seatrial/seatrial/tools/offline/store"
)

// recipe is the version of what this package makes of its inputs; a change of the files it writes needs a new one.
const recipe = "3"

// The user the server runs as. The number is that of the published image.
const (
	UID = 999
	GID = 999
)

// startPath is where the image has the start program.
const startPath = "/usr/bin/seatrial-mysql-start"

// startPackage is the start program's import path.
const startPackage = "github.com/seatrial/seatrial/fixtures/mysql/start"

// Repository is the name of the images this package makes, without a tag. They are never on a registry: a node that
// does not have the image must not go looking for it elsewhere.
const Repository = "localhost/seatrial/mysql"

// Options say where and from what the image is made.
type Options struct {
	CacheDir  string // Of the store that results are kept in.
	ModuleDir string // A directory inside this module: the start program is compiled there. By default the current.
	Log       *slog.Logger
}

// Archive is the image in a docker archive, for `ctr images import` or `docker load`.
type Archive = offline.Database

// The files of a result in the store.
const (
	archiveFile  = "image.tar"
	describeFile = "image.json"
	layerFile    = "layer.tar"
	versionFile  = "version"
)

// Ensure returns the database image, made only when the cache does not have it for these inputs. Cold it takes about
// a minute and fetches Debian packages; otherwise under two seconds.
func Ensure(ctx context.Context, o Options) (Archive, error) {
	cache := store.Store{Dir: o.CacheDir}
	program, sum, err := compileStart(ctx, o)
	if err != nil {
		return Archive{}, err
	}
	// In the temporary directory; nothing depends on its removal.
	defer func() { _ = os.RemoveAll(filepath.Dir(program)) }()
	base, err := debianBase(ctx, cache, o.Log)
	if err != nil {
		return Archive{}, err
	}
	var address store.Address
	address.AddString("recipe", recipe)
	address.AddString("base", base.sum)
	address.AddString("start", sum)
	dir, reused, err := cache.Produce(ctx, "mysql-image", address.Sum(), func(_ context.Context, dir string) error {
		return assemble(dir, base, program)
	})
	if err != nil {
		return Archive{}, fmt.Errorf("make database image: %w", err)
	}
	data, err := os.ReadFile(filepath.Join(dir, describeFile))
	if err != nil {
		return Archive{}, fmt.Errorf("read database image: %w", err)
	}
	var a Archive
	if err := json.Unmarshal(data, &a); err != nil {
		return Archive{}, fmt.Errorf("decode %q: %w", filepath.Join(dir, describeFile), err)
	}
	a.Path = filepath.Join(dir, archiveFile)
	o.Log.Info("database image is there", "ref", a.Ref, "MiB", a.Bytes>>20, "reused", reused)
	return a, nil
}

// compileStart compiles the start program and returns its path and digest. Go's own build cache makes it quick.
func compileStart(ctx context.Context, o Options) (path, sum string, err error) {
	dir, err := os.MkdirTemp("", "seatrial-mysql-start-")
	if err != nil {
		return "", "", fmt.Errorf("compile start program: %w", err)
	}
	path = filepath.Join(dir, "start")
	err = proc.Exec{}.Run(ctx, proc.Command{
		Args: []string{"go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", path, startPackage},
		Dir:  o.ModuleDir,
		Env:  []string{"CGO_ENABLED=0", "GOOS=linux", "GOWORK=off"},
	})
	if err == nil {
		sum, err = digestFile(path)
	}
	if err != nil {
		return "", "", errors.Join(fmt.Errorf("compile start program: %w", err), os.RemoveAll(dir))
	}
	return path, sum, nil
}

func digestFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("digest file: %w", err)
	}
	defer func() { _ = f.Close() }() // Reads only.
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("digest %q: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// base is what the start program's layer is put on: a layer with the server, in a file.
type base struct {
	layer, version, sum string
}

// versionVariable is the environment variable in which the image says its MySQL's version.
const versionVariable = "MYSQL_VERSION="

func debianBase(ctx context.Context, cache store.Store, log *slog.Logger) (base, error) {
	var address store.Address
	address.AddString("recipe", recipe)
	address.AddString("root", rootSpec().Sum(architecture()))
	address.AddString("wanted", strings.Join(wanted(), "\n"))
	sum := address.Sum()
	dir, _, err := cache.Produce(ctx, "mysql-base", sum, func(ctx context.Context, dir string) error {
		log.Info("making the database's root file system from Debian packages, about a minute",
			"suite", rootSpec().Suite)
		return makeBase(ctx, cache, dir)
	})
	if err != nil {
		return base{}, fmt.Errorf("make root file system of the database image: %w", err)
	}
	version, err := os.ReadFile(filepath.Join(dir, versionFile))
	if err != nil {
		return base{}, fmt.Errorf("read version of MySQL: %w", err)
	}
	return base{filepath.Join(dir, layerFile), string(version), sum}, nil
}

// assemble puts the start program on the base and writes the archive and its description into dir.
func assemble(dir string, b base, program string) error {
	startLayer := filepath.Join(dir, "start.tar")
	start := layers.File{Name: strings.TrimPrefix(startPath, "/"), Mode: 0o755, Path: program}
	if err := layers.WriteFile(startLayer, []layers.File{start}); err != nil {
		return err
	}
	defer func() { _ = os.Remove(startLayer) }() // It is in the archive too.
	img := empty.Image
	for _, file := range []string{b.layer, startLayer} {
		layer, err := tarball.LayerFromFile(file, tarball.WithCompressionLevel(gzip.BestSpeed))
		if err != nil {
			return fmt.Errorf("read layer of the database image: %w", err)
		}
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			return fmt.Errorf("append layer of the database image: %w", err)
		}
	}
	img, err := configure(img, b.version)
	if err != nil {
		return err
	}
	id, err := img.ConfigName()
	if err != nil {
		return fmt.Errorf("digest image: %w", err)
	}
	ref := fmt.Sprintf("%s:%s-%s", Repository, b.version, id.Hex[:12])
	a := Archive{Digest: id.String(), Version: b.version, Ref: ref}
	tag, err := name.NewTag(ref)
	if err != nil {
		return fmt.Errorf("name image: %w", err)
	}
	path := filepath.Join(dir, archiveFile)
	if err := tarball.WriteToFile(path, tag, img); err != nil {
		return fmt.Errorf("write image archive: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("write image archive: %w", err)
	}
	a.Bytes = info.Size()
	data, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return fmt.Errorf("describe image: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, describeFile), append(data, '\n'), 0o644)
}

func configure(img v1.Image, version string) (v1.Image, error) {
	file, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("configure image: %w", err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", architecture()
	file.Config.Entrypoint = []string{startPath, "/var/lib/mysql"}
	file.Config.Cmd = nil
	file.Config.User = fmt.Sprintf("%d:%d", UID, GID)
	file.Config.WorkingDir = "/"
	file.Config.Env = []string{"PATH=/usr/sbin:/usr/bin", versionVariable + version}
	file.Config.Labels = map[string]string{"org.opencontainers.image.version": version}
	img, err = mutate.ConfigFile(img, file)
	if err != nil {
		return nil, fmt.Errorf("configure image: %w", err)
	}
	return img, nil
}

var versionRule = regexp.MustCompile(`\b(\d+\.\d+\.\d+)`)

// parseVersion takes MySQL's version out of a longer text.
func parseVersion(text string) (string, error) {
	found := versionRule.FindStringSubmatch(text)
	if found == nil {
		return "", fmt.Errorf("no version like 9.7.4 in %q", text)
	}
	return found[1], nil
}
