// Package database makes the database image on hosts that have no container registry: MySQL from Debian packages, cut
// down to what a server and its checks need, with the start program as entry point. The same inputs never build
// twice.
package database

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
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
	CacheDir string // Of the store.
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

// inputs returns the start program and the digest of everything the image is made from.
func inputs(ctx context.Context, o Options) (start, sum string, err error) {
	if start, err = program.MySQLStart().Find(ctx, o.Log); err != nil {
		return "", "", err
	}
	digest, err := store.Digest(start)
	if err != nil {
		return "", "", err
	}
	var address store.Address
	address.AddString("recipe", recipe)
	address.AddString("base", baseSum())
	address.AddString("start", digest)
	return start, address.Sum(), nil
}

// Dir returns the directory of the database image in the store, whether or not it exists.
func Dir(ctx context.Context, o Options) (string, error) {
	_, sum, err := inputs(ctx, o)
	return store.Store{Dir: o.CacheDir}.Path(resultKind, sum), err
}

// Ensure returns the database image, and makes it if the store has none of these inputs: about a minute and a download
// of Debian packages with nothing cached, otherwise under two seconds.
func Ensure(ctx context.Context, o Options) (Archive, error) {
	cache := store.Store{Dir: o.CacheDir}
	start, sum, err := inputs(ctx, o)
	if err != nil {
		return Archive{}, err
	}
	dir, reused, err := cache.Produce(ctx, resultKind, sum, func(ctx context.Context, dir string) error {
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
	var address store.Address
	address.AddString("recipe", recipe)
	address.AddString("root", rootSpec().Sum(runtime.GOARCH))
	address.AddString("wanted", strings.Join(wanted(), "\n"))
	return address.Sum()
}

// assemble adds the start program to the base, a directory with layer and version, and writes the archive and its
// description into dir.
func assemble(dir, base, startProgram string) error {
	version, err := os.ReadFile(filepath.Join(base, versionFile))
	if err != nil {
		return fmt.Errorf("read version of MySQL: %w", err)
	}
	startLayer := filepath.Join(dir, "start.tar")
	start := layers.File{Name: strings.TrimPrefix(startPath, "/"), Mode: 0o755, Path: startProgram}
	if err := layers.WriteFile(startLayer, []layers.File{start}); err != nil {
		return err
	}
	defer func() { _ = os.Remove(startLayer) }() // It is in the archive too.
	img := empty.Image
	for _, file := range []string{filepath.Join(base, layerFile), startLayer} {
		layer, err := tarball.LayerFromFile(file, tarball.WithCompressionLevel(gzip.BestSpeed))
		if err != nil {
			return fmt.Errorf("read layer: %w", err)
		}
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			return fmt.Errorf("append layer: %w", err)
		}
	}
	if img, err = configure(img, string(version)); err != nil {
		return err
	}
	id, err := img.ConfigName()
	if err != nil {
		return fmt.Errorf("digest image: %w", err)
	}
	a := Archive{
		Digest: id.String(), Version: string(version),
		Ref: fmt.Sprintf("%s:%s-%s", Repository, version, id.Hex[:12]),
	}
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

func configure(img v1.Image, version string) (v1.Image, error) {
	file, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("configure image: %w", err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Config.Entrypoint = []string{startPath, "/var/lib/mysql"}
	file.Config.Cmd = nil
	file.Config.User = fmt.Sprintf("%d:%d", UID, GID)
	file.Config.WorkingDir = "/"
	file.Config.Env = []string{"PATH=/usr/sbin:/usr/bin", "MYSQL_VERSION=" + version}
	file.Config.Labels = map[string]string{"org.opencontainers.image.version": version}
	img, err = mutate.ConfigFile(img, file)
	if err != nil {
		return nil, fmt.Errorf("configure image: %w", err)
	}
	return img, nil
}
