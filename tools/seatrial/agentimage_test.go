package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	imageof "github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// TestAgentImage: the archive holds the named image, whose program is the agent, and is the same each time.
func TestAgentImage(t *testing.T) {
	dir := t.TempDir()
	var images, archives []string
	for _, file := range []string{filepath.Join(dir, "a.tar"), filepath.Join(dir, "b.tar")} {
		got := ask(t, "agent-image", file, "-o", "name")
		if got.code != 0 {
			t.Fatalf("exit code %d: %s", got.code, got.stderr)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		images, archives = append(images, strings.TrimSpace(got.stdout)), append(archives, string(text))
	}
	if images[0] != images[1] || archives[0] != archives[1] {
		t.Errorf("two archives differ: %s, %d bytes; %s, %d bytes", images[0], len(archives[0]), images[1],
			len(archives[1]))
	}
	tag, err := name.NewTag(images[0])
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(filepath.Join(dir, "a.tar"), &tag)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/seatrial-agent", "wait"}, config.Config.Entrypoint); diff != "" {
		t.Errorf("entry point (-want +got):\n%s", diff)
	}
	files := imageof.Extract(image)
	defer files.Close()
	in := tar.NewReader(files)
	entry, err := in.Next()
	if err != nil || entry.Name != "seatrial-agent" || entry.Mode != 0o755 {
		t.Fatalf("the image's file is %+v, %v", entry, err)
	}
	program := filepath.Join(dir, entry.Name)
	text, err := io.ReadAll(in)
	if err == nil {
		err = os.WriteFile(program, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	err = exec.CommandContext(t.Context(), program, "wait", "long").Run()
	if !errors.As(err, &exit) || exit.ExitCode() != 254 {
		t.Errorf("wait with an argument = %v", err)
	}
}
