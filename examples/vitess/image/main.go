// Command image builds Vitess from its Go module and puts it into an image of MySQL:
//
//	image MYSQL.tar OUT.tar
//
// MYSQL.tar is an archive with mysqld, mysql and mysqladmin under /usr, as `ctr images export` writes it.
package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// What is built, and the name of the image.
const (
	module  = "vitess.io/vitess"
	version = "v0.24.0"
	tag     = "localhost/vitess:" + version
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: image MYSQL.tar OUT.tar")
		os.Exit(254)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := write(ctx, os.Args[1], os.Args[2])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, tag)
}

func write(ctx context.Context, base, out string) error {
	dir, err := os.MkdirTemp("", "vitess-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // In the temporary directory.
	var layer bytes.Buffer
	files := tar.NewWriter(&layer)
	for _, program := range []string{"mysqlctld", "vttablet", "vtorc", "vtctldclient"} {
		if err := build(ctx, dir, program); err != nil {
			return fmt.Errorf("build %s: %w", program, err)
		}
		text, err := os.ReadFile(filepath.Join(dir, program))
		if err != nil {
			return err
		}
		header := &tar.Header{Name: "usr/bin/" + program, Mode: 0o755, Size: int64(len(text)), Format: tar.FormatPAX}
		if err := files.WriteHeader(header); err != nil {
			return err
		}
		if _, err := files.Write(text); err != nil {
			return err
		}
	}
	if err := files.Close(); err != nil {
		return err
	}
	image, err := tarball.ImageFromPath(base, nil)
	if err != nil {
		return fmt.Errorf("read %s: %w", base, err)
	}
	added, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layer.Bytes())), nil
	})
	if err != nil {
		return fmt.Errorf("make layer: %w", err)
	}
	if image, err = mutate.AppendLayers(image, added); err != nil {
		return fmt.Errorf("add layer: %w", err)
	}
	named, err := name.NewTag(tag)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(out, named, image)
}

// build builds a program of the module into dir, in a module of its own there.
func build(ctx context.Context, dir, program string) error {
	run := func(args ...string) error {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=mod", "GOWORK=off")
		return cmd.Run()
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		if err := run("mod", "init", "image"); err != nil {
			return err
		}
		if err := run("get", module+"@"+version); err != nil {
			return err
		}
	}
	return run("build", "-trimpath", "-ldflags=-s -w", "-o", program, module+"/go/cmd/"+program)
}
