package offline

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// script takes the place of the program offline.
func script(t *testing.T, text string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "seatrial-offline")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SEATRIAL_OFFLINE", path)
}

func TestAnswers(t *testing.T) {
	script(t, `echo "$*" >&2; echo '{"images": {"node": "n:1", "database": {"ref": "d:1"}}}'`)
	var said bytes.Buffer
	tool := Tool{CacheDir: "/c", Database: "mysql:9", Progress: &said}
	images, err := tool.EnsureImages(t.Context(), "/bin/docker", "v1.37.0", "build")
	if err != nil || images.Node != "n:1" || images.Database.Ref != "d:1" {
		t.Errorf("%+v, %v", images, err)
	}
	const call = "images --engine=/bin/docker --kubernetes-version=v1.37.0 --source=build " +
		"--database=mysql:9 --cache=/c\n"
	if said.String() != call {
		t.Errorf("called with %q, want %q", &said, call)
	}
	if _, err := (Tool{}).FindEngine(t.Context()); err == nil || !strings.Contains(err.Error(), "named none") {
		t.Errorf("an answer without an engine: %v", err)
	}
}

func TestErrorsArePassedOn(t *testing.T) {
	script(t, `echo '{"error": "text", "notFound": {"found": "docker: not installed", "fix": "make one"}}'; exit 255`)
	_, err := Tool{}.FindEngine(t.Context())
	var missing *NotFoundError
	if !errors.As(err, &missing) || missing.Found != "docker: not installed" || missing.Fix != "make one" {
		t.Errorf("no engine: %v", err)
	}
	script(t, `echo '{"error": "make sidecars: no compiler"}'; exit 255`)
	if _, err := (Tool{}).EnsureSidecars(t.Context()); err == nil || err.Error() != "make sidecars: no compiler" {
		t.Errorf("an error that was told: %v", err)
	}
	for _, text := range []string{"exit 1", "echo '{}'; exit 1", "echo no; exit 0"} {
		script(t, text)
		if err := (Tool{}).CleanEngine(t.Context()); err == nil || !strings.Contains(err.Error(), "clean") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestAnEndedContextInterruptsTheProgram(t *testing.T) {
	dir := t.TempDir()
	script(t, `trap 'echo > `+dir+`/interrupted; exit 1' INT; echo > `+dir+`/started; while :; do sleep 0.05; done`)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(dir, "started")); err == nil {
				cancel()
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	_, err := Tool{}.EnsureDatabase(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "interrupted")); err != nil {
		t.Errorf("the program was not interrupted: %v", err)
	}
}

func TestValidateImages(t *testing.T) {
	for _, good := range [][2]string{{"", ""}, {"v1.37.0", "auto"}, {"v1.36.3", "published"}, {"", "build"},
		{"v1.36.1", "kindest/node:v1.36.1"}} {
		if err := ValidateImages(good[0], good[1]); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range [][2]string{{"v1.20.0", ""}, {"1.37.0", ""}, {"", "cloud"},
		{"1.x", "kindest/node:v1.36.1"}, {"", "kindest/node:v1:2"}} {
		if err := ValidateImages(bad[0], bad[1]); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestTaggedVersion(t *testing.T) {
	for image, want := range map[string]string{
		"kindest/node:v1.36.1@sha256:abc": "v1.36.1", "host:5000/node:v1.37.0-rc.1": "v1.37.0-rc.1",
		"kindest/node": "", "kindest/node:latest": "", "kindest/node@sha256:abc": "", "host:5000/node": "", "auto": "",
	} {
		if got := TaggedVersion(image); got != want {
			t.Errorf("%s: %q, want %q", image, got, want)
		}
	}
}
