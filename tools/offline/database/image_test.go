package database

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/seatrial/seatrial/tools/offline/nodeimage"
)

// archiveOf writes a root archive with the given files; a value that begins with "->" is a link.
func archiveOf(t *testing.T, files map[string]string) *root {
	t.Helper()
	path := filepath.Join(t.TempDir(), "root.tar")
	err := writeTo(path, func(w io.Writer) error {
		out := tar.NewWriter(w)
		for name, text := range files {
			header := &tar.Header{Typeflag: tar.TypeReg, Name: "./" + name, Mode: 0o4755, Size: int64(len(text))}
			header.ModTime, header.Uid = time.Now(), 7
			if target, ok := strings.CutPrefix(text, "->"); ok {
				header.Typeflag, header.Linkname, header.Size = tar.TypeSymlink, target, 0
				text = ""
			}
			if err := out.WriteHeader(header); err != nil {
				return err
			}
			if _, err := io.WriteString(out, text); err != nil {
				return err
			}
		}
		return out.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := openRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func TestSelectFiles(t *testing.T) {
	r := archiveOf(t, map[string]string{
		"usr/sbin/mysqld":      "no ELF",
		"usr/share/a/one":      "1",
		"usr/share/a/b/two":    "2",
		"usr/share/other":      "not wanted",
		"usr/lib/libx.so":      "->libx.so.1",
		"usr/lib/libx.so.1":    "x",
		"usr/bin/broken":       "->/nowhere",
		"usr/bin/absolute":     "->/lib/libx.so",
		"usr/share/a-b/sister": "not wanted",
	})
	got, err := r.selectFiles([]string{"usr/sbin/mysqld", "usr/share/a/", "usr/bin/absolute"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"usr/bin/absolute", "usr/lib/libx.so", "usr/lib/libx.so.1", "usr/sbin/mysqld",
		"usr/share/a/b/two", "usr/share/a/one",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("chosen files (-want +got):\n%s", diff)
	}
	for _, missing := range []string{"usr/sbin/mysqlx", "usr/share/none/", "usr/bin/broken"} {
		if _, err := r.selectFiles([]string{missing}); err == nil {
			t.Errorf("selectFiles(%q) found it", missing)
		}
	}
}

func TestBaseLayerIsTheSameBytesEveryTime(t *testing.T) {
	files := map[string]string{
		"usr/sbin/mysqld": "server", "usr/share/a/one": "1", "usr/lib/l": "->m", "usr/lib/m": "m",
	}
	var layers [2]bytes.Buffer
	for i := range layers {
		r := archiveOf(t, files)
		names, err := r.selectFiles([]string{"usr/sbin/mysqld", "usr/share/a/", "usr/lib/l"})
		if err != nil {
			t.Fatal(err)
		}
		if err := writeBase(&layers[i], r, names); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(layers[0].Bytes(), layers[1].Bytes()) {
		t.Error("two layers of the same files differ")
	}
	seen := map[string]*tar.Header{}
	for in := tar.NewReader(&layers[0]); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if seen[header.Name] != nil {
			t.Errorf("%q is in the layer twice", header.Name)
		}
		if header.Uid != 0 || header.ModTime.Unix() != 0 {
			t.Errorf("%q has owner %d and time %v", header.Name, header.Uid, header.ModTime)
		}
		seen[header.Name] = header
	}
	for _, name := range []string{"etc/passwd", "tmp/", "var/lib/mysql/", "usr/sbin/mysqld", "lib64"} {
		if seen[name] == nil {
			t.Errorf("the layer has no %q", name)
		}
	}
	if h := seen["usr/sbin/mysqld"]; h != nil && h.Mode != 0o755 {
		t.Errorf("mysqld has mode %o, want 755 without setuid", h.Mode)
	}
	if h := seen["tmp/"]; h != nil && h.Mode != 0o1777 {
		t.Errorf("tmp has mode %o, want 1777", h.Mode)
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
	r := archiveOf(t, map[string]string{"var/lib/dpkg/status": status})
	if got, err := r.packageVersion("mysql-server-core"); got != "9.7.4" || err != nil {
		t.Errorf("version %q, %v; want 9.7.4", got, err)
	}
	for _, name := range []string{"odd", "absent"} {
		if got, err := r.packageVersion(name); err == nil {
			t.Errorf("version of %s is %q, want an error", name, got)
		}
	}
}

func TestPublishedImageGetsTheStartProgram(t *testing.T) {
	dir := t.TempDir()
	published, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{Config: v1.Config{
		Env: []string{"PATH=/usr/bin", "MYSQL_VERSION=9.4.0-1.el9"}, Entrypoint: []string{"docker-entrypoint.sh"},
		Cmd: []string{"mysqld"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	archive, program := filepath.Join(dir, "published.tar"), filepath.Join(dir, "start")
	tag, err := name.NewTag("mysql:9.4.0")
	if err == nil {
		err = tarball.WriteToFile(archive, tag, published)
	}
	if err == nil {
		err = os.WriteFile(program, []byte("program"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := publishedBase(archive)
	if err != nil || b.version != "9.4.0" {
		t.Fatalf("base %+v, %v; want version 9.4.0", b, err)
	}
	if err := assemble(dir, b, program); err != nil {
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
	if config.Config.Cmd != nil || config.Config.User != "999:999" || len(config.RootFS.DiffIDs) != 1 {
		t.Errorf("configuration %+v", config.Config)
	}
}

func TestRealImageIsBuiltOnce(t *testing.T) {
	if os.Getenv("SEATRIAL_E2E") != "1" {
		t.Skip("NOT RUN: fetches Debian packages as root; set SEATRIAL_E2E=1")
	}
	dir, err := nodeimage.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	options := Options{CacheDir: dir, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
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
