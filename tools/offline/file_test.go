package main

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/clusters/offline"
)

// saved is a command with a cache that holds small files in place of all results, and what it has saved of them.
func saved(t *testing.T) (command, []string) {
	t.Helper()
	start := filepath.Join(t.TempDir(), "start")
	if err := os.WriteFile(start, []byte("start"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SEATRIAL_MYSQL_START", start)
	c := command{
		cache: t.TempDir(), engine: "docker", progress: io.Discard, log: slog.New(slog.DiscardHandler),
		file: filepath.Join(t.TempDir(), "images.tar"),
	}
	db := offline.Database{Digest: "sha256:1"}
	dirs, err := c.results(t.Context(), db)
	if err != nil || len(dirs) != 4 {
		t.Fatalf("results %q, %v", dirs, err)
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte(filepath.Base(dir)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeFile(t.Context(), c.file, offline.Images{Database: db}, dirs); err != nil {
		t.Fatal(err)
	}
	return c, dirs
}

// TestSavedIsRestored brings all results to another cache, one of which has some of them already.
func TestSavedIsRestored(t *testing.T) {
	c, dirs := saved(t)
	if err := os.RemoveAll(dirs[2]); err != nil {
		t.Fatal(err)
	}
	for _, cache := range []string{c.cache, t.TempDir()} {
		c.cache = cache
		if err := c.open(t.Context(), c.restoreAll); err != nil {
			t.Fatal(err)
		}
		for _, dir := range dirs {
			path := filepath.Join(cache, "results", filepath.Base(dir), "file")
			text, err := os.ReadFile(path)
			info, _ := os.Stat(path)
			if err != nil || string(text) != filepath.Base(dir) || info.Mode().Perm() != 0o755 {
				t.Errorf("%s: %q (%v)", path, text, err)
			}
		}
	}
}

// TestBadFileIsRefused: what is wrong is said, and no part of a damaged result is kept.
func TestBadFileIsRefused(t *testing.T) {
	c, dirs := saved(t)
	whole, err := os.ReadFile(c.file)
	if err != nil {
		t.Fatal(err)
	}
	c.cache = t.TempDir()
	damaged := bytes.Clone(whole)
	at := bytes.LastIndex(damaged, []byte(filepath.Base(dirs[3])))
	damaged[at] ^= 1
	for want, text := range map[string][]byte{
		"is not a file that": []byte("hello"), "is damaged": damaged,
		"is cut short":     whole[:at-1024],
		"another seatrial": bytes.Replace(whole, []byte("external-attacher-"), []byte("external-attached-"), 1),
	} {
		if err := os.WriteFile(c.file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		err := c.open(t.Context(), c.restoreAll)
		var bad *offline.BadFileError
		if !errors.As(err, &bad) || !strings.Contains(bad.Text, want) || !strings.Contains(bad.Text, c.file) {
			t.Errorf("got %v, want that it %s", err, want)
		}
	}
	left, err := filepath.Glob(filepath.Join(c.cache, "[ru]*", "image-*"))
	if diff := cmp.Diff([]string(nil), left); diff != "" || err != nil {
		t.Errorf("kept of the damaged result (-want +got):\n%s%v", diff, err)
	}
}
