package database

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/seatrial/seatrial/tools/offline/registry"
	"github.com/seatrial/seatrial/tools/offline/store"
)

// official is the image that "published" means.
const official = "mysql:9"

// published returns the published image to use, by digest, or "" if Debian packages are to be taken: with "auto", if
// the store has the image that is built, with the digest built, or if this host has apt.
func published(ctx context.Context, o Options, built string) (string, error) {
	ref := o.Image
	switch o.Image {
	case "build":
		return "", nil
	case "", "auto":
		_, err := exec.LookPath("apt-get")
		if err == nil || (store.Store{Dir: o.CacheDir}).Has(resultKind, built) {
			return "", nil
		}
		ref = official
	case "published":
		ref = official
	}
	named, err := name.ParseReference(ref)
	if err != nil {
		return "", err
	}
	if digest, ok := named.(name.Digest); ok {
		return digest.Name(), nil
	}
	// A tag is looked up once: later runs use the same image, without a registry.
	tag := store.Inputs{"tag": named.Name()}
	dir, _, err := store.Store{Dir: o.CacheDir}.Produce(ctx, "mysql-tag", tag.Sum(),
		func(ctx context.Context, dir string) error {
			return registry.Use(ctx, ref, o.Progress, func(digest string, _ v1.Image) error {
				return os.WriteFile(filepath.Join(dir, "digest"), []byte(digest), 0o644)
			})
		})
	if err != nil {
		return "", err
	}
	digest, err := os.ReadFile(filepath.Join(dir, "digest"))
	return string(digest), err
}

// overlay makes the image of a published one.
func overlay(ctx context.Context, o Options, dir, from, start string) error {
	return registry.Use(ctx, from, o.Progress, func(_ string, img v1.Image) error {
		file, err := img.ConfigFile()
		if err != nil {
			return err
		}
		a := Archive{Source: from}
		path := "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
		for _, variable := range file.Config.Env {
			switch key, value, _ := strings.Cut(variable, "="); key {
			case "PATH":
				path = variable
			case "MYSQL_VERSION":
				a.Version = versionRule.FindString(value)
			}
		}
		if !supported(a.Version) {
			return fmt.Errorf("it is no image of MySQL 8.4 or later: its MYSQL_VERSION is %q", a.Version)
		}
		return write(dir, img, start, a, path)
	})
}

// supported reports whether the start program and the options of the StatefulSet are those of this version.
func supported(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, errMajor := strconv.Atoi(major)
	b, errMinor := strconv.Atoi(minor)
	return errMajor == nil && errMinor == nil && (a > 8 || a == 8 && b >= 4)
}
