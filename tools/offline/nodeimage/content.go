package nodeimage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/tools/offline/layers"
	"github.com/seatrial/seatrial/tools/offline/proc"
)

// containerdReady is how long containerd may take to answer.
const containerdReady = 30 * time.Second

// containerdTemplate enables the parts of containerd that keep images; all that need more of the host than a directory
// are off.
const containerdTemplate = `version = 3
root = %q
state = %q
disabled_plugins = [
  "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri",
  "io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri", "io.containerd.differ.v1.erofs",
  "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs",
  "io.containerd.snapshotter.v1.overlayfs",
]
[grpc]
  address = %q
[ttrpc]
  address = %q
`

// importImages runs the node's own containerd on an empty directory to import an archive of images, and returns the
// files of /var/lib/containerd that hold them.
func (b *builder) importImages(ctx context.Context, binDir, archive, rootDir string) (_ []layers.File, err error) {
	// Socket paths are short, so this is not below the cache.
	run, err := os.MkdirTemp("", "seatrial-ctd-")
	if err != nil {
		return nil, fmt.Errorf("start containerd: %w", err)
	}
	defer func() { _ = os.RemoveAll(run) }() // In the temporary directory; nothing depends on its removal.
	socket := filepath.Join(run, "c.sock")
	config := filepath.Join(run, "config.toml")
	text := fmt.Sprintf(containerdTemplate, rootDir, filepath.Join(run, "state"), socket, filepath.Join(run, "t.sock"))
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return nil, fmt.Errorf("configure containerd: %w", err)
	}
	serving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- b.run.Run(serving, proc.Command{Args: []string{filepath.Join(binDir, "containerd"), "-c", config}})
	}()
	defer func() {
		stop()
		if end := <-ended; end != nil && !errors.Is(end, context.Canceled) {
			err = errors.Join(err, fmt.Errorf("run containerd: %w", end))
		}
	}()
	ctr := func(args ...string) proc.Command {
		return proc.Command{Args: append([]string{filepath.Join(binDir, "ctr"), "--address", socket}, args...)}
	}
	if err := b.awaitContainerd(ctx, socket, ctr("version"), ended); err != nil {
		return nil, err
	}
	if err := b.run.Run(ctx, ctr("--namespace=k8s.io", "images", "import", "--local", "--all-platforms", "--no-unpack",
		"--label=io.cri-containerd.pinned=pinned", archive)); err != nil {
		return nil, fmt.Errorf("import images: %w", err)
	}
	return containerdFiles(rootDir)
}

// awaitContainerd waits until containerd answers.
func (b *builder) awaitContainerd(ctx context.Context, socket string, ask proc.Command, ended chan error) error {
	look := func(ctx context.Context) (bool, string, error) {
		select {
		case end := <-ended:
			ended <- end
			return false, "", await.Stop(fmt.Errorf("it ended: %w", end))
		default:
		}
		// Without a socket, the client would wait forever.
		if _, err := os.Stat(socket); err != nil {
			return false, "", err
		}
		err := b.run.Run(ctx, ask)
		return err == nil, "", err
	}
	return await.Until(ctx, "containerd to answer", 50*time.Millisecond, containerdReady, look)
}

// containerdFiles lists the files of containerd's directory that hold images: the blobs and the database. It reads
// none, so containerd may still run; it must have ended before they are read.
func containerdFiles(rootDir string) ([]layers.File, error) {
	files := []layers.File{
		{Name: "var/lib/containerd", Dir: true, Mode: 0o700},
		{Name: "var/lib/containerd/io.containerd.content.v1.content/ingest", Dir: true},
	}
	for _, part := range []string{"io.containerd.content.v1.content/blobs", "io.containerd.metadata.v1.bolt"} {
		top := filepath.Join(rootDir, filepath.FromSlash(part))
		err := filepath.WalkDir(top, func(p string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			rel, err := filepath.Rel(rootDir, p)
			files = append(files, layers.File{Name: "var/lib/containerd/" + filepath.ToSlash(rel), Path: p})
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("list imported images: %w", err)
		}
	}
	return files, nil
}

// withArch writes Debian's name of this architecture's library directory into paths.
func withArch(paths []string) []string {
	triplet := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[runtime.GOARCH]
	out := make([]string, 0, len(paths))
	for _, p := range paths {
		out = append(out, strings.ReplaceAll(p, "ARCH", triplet))
	}
	return out
}
