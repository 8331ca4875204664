package database

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/seatrial/seatrial/tools/offline/layers"
	"github.com/seatrial/seatrial/tools/offline/store"
)

// rootOf writes a root file system with the given files; a value that begins with "->" is a link.
func rootOf(t *testing.T, files map[string]string) *layers.Root {
	t.Helper()
	path := filepath.Join(t.TempDir(), "root.tar")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	out := tar.NewWriter(f)
	write := func(h tar.Header, text string) {
		h.Name, h.ModTime, h.Uid, h.Size = "./"+h.Name, time.Now(), 7, int64(len(text))
		if err := out.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(out, text); err != nil {
			t.Fatal(err)
		}
	}
	made := map[string]bool{".": true}
	for name, text := range files {
		for dir := filepath.Dir(name); !made[dir]; dir = filepath.Dir(dir) {
			made[dir] = true
			write(tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}, "")
		}
		if target, ok := strings.CutPrefix(text, "->"); ok {
			write(tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}, "")
			continue
		}
		write(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o4755}, text)
	}
	if err := errors.Join(out.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	r, err := layers.OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func TestBaseFiles(t *testing.T) {
	r := rootOf(t, map[string]string{
		"lib": "->usr/lib", "usr/sbin/mysqld": "no ELF", "usr/share/a/one": "1", "usr/share/a/b/two": "2",
		"usr/share/other": "not wanted", "usr/lib/libx.so": "->libx.so.1", "usr/lib/libx.so.1": "x",
		"usr/bin/broken": "->/nowhere", "usr/bin/absolute": "->/lib/libx.so", "usr/share/a-b/sister": "not wanted",
	})
	files, err := baseFiles(r, []string{"usr/sbin/mysqld", "usr/share/a/*", "usr/bin/absolute"})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]layers.File{}
	var ofRoot []string
	for _, f := range files {
		if got[f.Name] = f; strings.HasPrefix(f.Name, "usr/") && !f.Dir {
			ofRoot = append(ofRoot, f.Name)
		}
	}
	if len(got) != len(files) {
		t.Errorf("a file is there twice: %d names of %d files", len(got), len(files))
	}
	want := []string{
		"usr/bin/absolute", "usr/lib/libx.so", "usr/lib/libx.so.1", "usr/sbin/mysqld",
		"usr/share/a/b/two", "usr/share/a/one",
	}
	if diff := cmp.Diff(want, ofRoot); diff != "" {
		t.Errorf("chosen files (-want +got):\n%s", diff)
	}
	if mode := got["usr/sbin/mysqld"].Mode; mode != 0o755 {
		t.Errorf("mysqld has mode %o, want 755 without setuid", mode)
	}
	if tmp := got["tmp"]; !tmp.Dir || tmp.Mode != 0o1777 {
		t.Errorf("tmp is %+v, want a directory of mode 1777", tmp)
	}
	if got["lib"].Link != "usr/lib" || got["lib64"].Link != "usr/lib64" || !got["var/lib/mysql"].Dir {
		t.Errorf("links %+v, %+v; directory %+v", got["lib"], got["lib64"], got["var/lib/mysql"])
	}
	if err := layers.Write(io.Discard, files); err != nil {
		t.Error(err)
	}
	for _, missing := range []string{"usr/sbin/mysqlx", "usr/share/none/*", "usr/bin/broken"} {
		if _, err := baseFiles(r, []string{missing}); err == nil {
			t.Errorf("baseFiles(%q) found it", missing)
		}
	}
}

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]string{
		"9.7.4-2) unstable": "9.7.4", "9.4.0-1.el9": "9.4.0", "8.4.10": "8.4.10", "9.7": "", "": "", "unstable": "",
	} {
		got, err := parseVersion(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("parseVersion(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestPackageVersion(t *testing.T) {
	const status = "Package: other\nVersion: 1.2.3\n\nPackage: mysql-server-core\nVersion: 9.7.4-2\n\nPackage: odd\n"
	if got, err := packageVersion([]byte(status), "mysql-server-core"); got != "9.7.4" || err != nil {
		t.Errorf("version %q, %v; want 9.7.4", got, err)
	}
	for _, name := range []string{"odd", "absent"} {
		if got, err := packageVersion([]byte(status), name); err == nil {
			t.Errorf("version of %s is %q, want an error", name, got)
		}
	}
}

func TestImageGetsTheStartProgram(t *testing.T) {
	dir, base := t.TempDir(), t.TempDir()
	program := filepath.Join(base, "start")
	server := layers.File{Name: "usr/sbin/mysqld", Mode: 0o755, Data: []byte("server")}
	if err := errors.Join(
		layers.WriteFile(filepath.Join(base, layerFile), []layers.File{server}),
		os.WriteFile(filepath.Join(base, versionFile), []byte("9.4.0"), 0o600),
		os.WriteFile(program, []byte("program"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	if err := assemble(dir, base, program); err != nil {
		t.Fatal(err)
	}
	img, err := tarball.ImageFromPath(filepath.Join(dir, archiveFile), nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{startPath, "/var/lib/mysql"}, config.Config.Entrypoint); diff != "" {
		t.Errorf("entry point (-want +got):\n%s", diff)
	}
	if config.Config.Cmd != nil || config.Config.User != "999:999" || len(config.RootFS.DiffIDs) != 2 {
		t.Errorf("configuration %+v", config.Config)
	}
}

// TestPublished lays the start program over an image on a registry of this host. A tag is looked up once; digest and
// image are the same again when the registry is gone.
func TestPublished(t *testing.T) {
	start := filepath.Join(t.TempDir(), "start")
	if err := os.WriteFile(start, []byte("start"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SEATRIAL_MYSQL_START", start)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	at := strings.TrimPrefix(server.URL, "http://") + "/mysql"
	digests := map[string]string{}
	for tag, version := range map[string]string{"9": "9.5.0-1.el9", "8.4": "8.4.7-1.el9", "8.0": "8.0.44", "none": ""} {
		img, err := random.Image(4<<20, 3)
		if err != nil {
			t.Fatal(err)
		}
		img, err = mutate.Config(img, v1.Config{
			Env: []string{"PATH=/opt/bin", "MYSQL_VERSION=" + version}, Entrypoint: []string{"docker-entrypoint.sh"},
			Cmd: []string{"mysqld"}, Volumes: map[string]struct{}{"/var/lib/mysql": {}},
		})
		if err != nil {
			t.Fatal(err)
		}
		ref, err := name.ParseReference(at + ":" + tag)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, img); err != nil {
			t.Fatal(err)
		}
		digest, err := img.Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests[tag] = at + "@" + digest.String()
	}
	var said bytes.Buffer
	o := Options{CacheDir: t.TempDir(), Progress: &said, Log: slog.New(slog.DiscardHandler)}
	for image, want := range map[string]string{
		at + ":9": "9.5.0", digests["8.4"]: "8.4.7", at + ":8.0": "8.4 or later", at + ":none": "8.4 or later",
		at + ":gone": "MANIFEST_UNKNOWN",
	} {
		o.Image = image
		made, err := Ensure(t.Context(), o)
		if made.Version != want && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %+v, %v; want %s", image, made, err, want)
		}
	}
	if want := "pull " + digests["9"] + ": 12 of 12 MiB\n"; !strings.Contains(said.String(), want) {
		t.Errorf("said nothing like %q:\n%s", want, &said)
	}
	server.Close()
	o.Image = at + ":9"
	made, err := Ensure(t.Context(), o)
	if err != nil || made.Source != digests["9"] {
		t.Fatalf("%+v, %v; want that of %s, without a registry", made, err, digests["9"])
	}
	img, err := tarball.ImageFromPath(made.Path, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	want := v1.Config{
		Entrypoint: []string{startPath, "/var/lib/mysql"}, User: "999:999", WorkingDir: "/",
		Env:    []string{"PATH=/opt/bin", "MYSQL_VERSION=9.5.0"},
		Labels: map[string]string{"org.opencontainers.image.version": "9.5.0"},
	}
	if diff := cmp.Diff(want, config.Config); diff != "" || len(config.RootFS.DiffIDs) != 4 {
		t.Errorf("%d layers, configuration (-want +got):\n%s", len(config.RootFS.DiffIDs), diff)
	}
}

func TestRealImageIsBuiltOnce(t *testing.T) {
	if os.Getenv("SEATRIAL_E2E") != "1" {
		t.Skip("NOT RUN: fetches Debian packages as root; set SEATRIAL_E2E=1")
	}
	cache, err := store.Default()
	if err != nil {
		t.Fatal(err)
	}
	options := Options{CacheDir: cache.Dir, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	first, err := Ensure(context.Background(), options)
	if err != nil {
		t.Fatal(err)
	}
	made, err := os.Stat(first.Path)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	second, err := Ensure(context.Background(), options)
	if err != nil || second != first {
		t.Fatalf("second time: %+v, %v; want %s again", second, err, first.Digest)
	}
	if again, err := os.Stat(second.Path); err != nil || !again.ModTime().Equal(made.ModTime()) {
		t.Errorf("the archive was written again: %v", err)
	}
	t.Logf("%s: %d MiB, second time %s", first.Ref, first.Bytes>>20, time.Since(begin))
	img, err := tarball.ImageFromPath(second.Path, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil || !slices.Equal(config.Config.Entrypoint, []string{startPath, "/var/lib/mysql"}) {
		t.Errorf("entry point %v, %v", config, err)
	}
}
