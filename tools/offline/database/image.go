// Package database makes the database image: MySQL from Debian packages, cut down to what a server and its checks need,
// or a published image of MySQL; either with the start program as entry point. The same inputs never build twice.
package database

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/clusters/program"
	"github.com/seatrial/seatrial/tools/offline/layers"
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

// Repository is the name of the images this package makes, without a tag. They are never on a registry: a node that
// does not have the image must not go looking for it elsewhere.
const Repository = "localhost/seatrial/mysql"

// Options are those of Ensure and Dir.
type Options struct {
	CacheDir string    // Of the store.
	Image    string    // "build", "published", "auto" or "", or a reference of an image of MySQL in a registry.
	Progress io.Writer // Gets how far a pull is.
	Log      *slog.Logger
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

// resultKind is what database images are called in the store.
const resultKind = "mysql-image"

// inputs returns the start program, the published image by digest, "" if Debian packages are taken, and the digest of
// everything the image is made from.
func inputs(ctx context.Context, o Options) (start, from, sum string, err error) {
	if start, err = program.MySQLStart().Find(ctx, o.Log); err != nil {
		return "", "", "", err
	}
	digest, err := store.Digest(start)
	if err != nil {
		return "", "", "", err
	}
	sumOf := func(base string) string {
		return store.Inputs{"recipe": recipe, "base": base, "start": digest}.Sum()
	}
	built := sumOf(baseSum())
	if from, err = published(ctx, o, built); err != nil {
		return "", "", "", fmt.Errorf("make database image: %w", err)
	}
	if from == "" {
		return start, "", built, nil
	}
	return start, from, sumOf(from), nil
}

// Dir returns the directory of the database image in the store, whether or not it exists.
func Dir(ctx context.Context, o Options) (string, error) {
	_, _, sum, err := inputs(ctx, o)
	return store.Store{Dir: o.CacheDir}.Path(resultKind, sum), err
}

// Ensure returns the database image, and makes it if the store has none of these inputs: about a minute and a download
// of Debian packages, or of a published image, with nothing cached, otherwise under two seconds.
func Ensure(ctx context.Context, o Options) (Archive, error) {
	cache := store.Store{Dir: o.CacheDir}
	start, from, sum, err := inputs(ctx, o)
	if err != nil {
		return Archive{}, err
	}
	dir, reused, err := cache.Produce(ctx, resultKind, sum, func(ctx context.Context, dir string) error {
		if from != "" {
			return overlay(ctx, o, dir, from, start)
		}
		base, _, err := cache.Produce(ctx, "mysql-base", baseSum(), func(ctx context.Context, dir string) error {
			o.Log.Info("making the database's root file system from Debian packages, about a minute",
				"suite", rootSpec().Suite)
			return makeBase(ctx, cache, dir)
		})
		if err != nil {
			return fmt.Errorf("make its root file system: %w", err)
		}
		return assemble(dir, base, start)
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

// baseSum is the digest of what the base is made from.
func baseSum() string {
	return store.Inputs{
		"recipe": recipe, "root": rootSpec().Sum(runtime.GOARCH), "wanted": strings.Join(wanted(), "\n"),
	}.Sum()
}

// assemble makes the image of the base, a directory with layer and version.
func assemble(dir, base, startProgram string) error {
	version, err := os.ReadFile(filepath.Join(base, versionFile))
	if err != nil {
		return fmt.Errorf("read version of MySQL: %w", err)
	}
	layer, err := tarball.LayerFromFile(filepath.Join(base, layerFile), tarball.WithCompressionLevel(gzip.BestSpeed))
	if err != nil {
		return fmt.Errorf("read layer: %w", err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return fmt.Errorf("append layer: %w", err)
	}
	return write(dir, img, startProgram, Archive{Version: string(version)}, "PATH=/usr/sbin:/usr/bin")
}

// write adds the start program to an image with the server, and writes the archive and its description into dir.
func write(dir string, img v1.Image, startProgram string, a Archive, env ...string) error {
	startLayer := filepath.Join(dir, "start.tar")
	start := layers.File{Name: strings.TrimPrefix(startPath, "/"), Mode: 0o755, Path: startProgram}
	if err := layers.WriteFile(startLayer, []layers.File{start}); err != nil {
		return err
	}
	defer func() { _ = os.Remove(startLayer) }() // It is in the archive too.
	layer, err := tarball.LayerFromFile(startLayer, tarball.WithCompressionLevel(gzip.BestSpeed))
	if err != nil {
		return fmt.Errorf("read layer: %w", err)
	}
	if img, err = mutate.AppendLayers(img, layer); err != nil {
		return fmt.Errorf("append layer: %w", err)
	}
	if img, err = configure(img, a.Version, env); err != nil {
		return err
	}
	id, err := img.ConfigName()
	if err != nil {
		return fmt.Errorf("digest image: %w", err)
	}
	a.Digest, a.Ref = id.String(), fmt.Sprintf("%s:%s-%s", Repository, a.Version, id.Hex[:12])
	tag, err := name.NewTag(a.Ref)
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

func configure(img v1.Image, version string, env []string) (v1.Image, error) {
	file, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("configure image: %w", err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Config = v1.Config{
		Entrypoint: []string{startPath, "/var/lib/mysql"}, User: fmt.Sprintf("%d:%d", UID, GID), WorkingDir: "/",
		Env:    append(env, "MYSQL_VERSION="+version),
		Labels: map[string]string{"org.opencontainers.image.version": version},
	}
	img, err = mutate.ConfigFile(img, file)
	if err != nil {
		return nil, fmt.Errorf("configure image: %w", err)
	}
	return img, nil
}
