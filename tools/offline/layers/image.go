package layers

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Image makes an image of layers. The media types are OCI's when oci is set, and Docker's otherwise.
func Image(config v1.Config, oci bool, parts ...v1.Layer) (v1.Image, error) {
	img := empty.Image
	if oci {
		img = mutate.MediaType(img, types.OCIManifestSchema1)
		img = mutate.ConfigMediaType(img, types.OCIConfigJSON)
	}
	adds := make([]mutate.Addendum, 0, len(parts))
	for _, l := range parts {
		media, err := l.MediaType()
		if err != nil {
			return nil, err
		}
		adds = append(adds, mutate.Addendum{Layer: l, MediaType: media})
	}
	img, err := mutate.Append(img, adds...)
	if err != nil {
		return nil, fmt.Errorf("append layers: %w", err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read image configuration: %w", err)
	}
	file = file.DeepCopy()
	file.Config, file.OS, file.Architecture = config, "linux", runtime.GOARCH
	file.Created = v1.Time{Time: epoch()}
	file.RootFS.Type = "layers"
	img, err = mutate.ConfigFile(img, file)
	if err != nil {
		return nil, fmt.Errorf("configure image: %w", err)
	}
	return img, nil
}

// WriteProgram writes an image that holds one program, as an archive that docker, containerd and kind load. The first
// word of the entry point is where the program is in the image.
func WriteProgram(w io.Writer, tag, program string, entry ...string) error {
	fail := func(err error) error { return fmt.Errorf("make image %s: %w", tag, err) }
	dir, err := os.MkdirTemp("", "seatrial-image-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // In the temporary directory; nothing depends on its removal.
	file := filepath.Join(dir, "layer.tar")
	files := []File{{Name: strings.TrimPrefix(entry[0], "/"), Mode: 0o755, Path: program}}
	if err := WriteFile(file, files); err != nil {
		return fail(err)
	}
	layer, err := Plain(file)
	if err != nil {
		return fail(err)
	}
	image, err := Image(v1.Config{Entrypoint: entry}, false, layer)
	if err != nil {
		return fail(err)
	}
	named, err := name.NewTag(tag)
	if err != nil {
		return fail(err)
	}
	if err := tarball.Write(named, image, w); err != nil {
		return fail(err)
	}
	return nil
}

// Named is an image and its full name.
type Named struct {
	Name  string
	Image v1.Image
}

// WriteLayout writes the images, layers shared, as a tar of an OCI image layout that containerd imports, by way of the
// directory dir, which must not exist yet.
func WriteLayout(w io.Writer, dir string, images []Named) error {
	out, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("start image layout: %w", err)
	}
	for _, img := range images {
		annotations := map[string]string{
			"io.containerd.image.name":          img.Name,
			"org.opencontainers.image.ref.name": img.Name[strings.LastIndex(img.Name, ":")+1:],
		}
		if err := out.AppendImage(img.Image, layout.WithAnnotations(annotations)); err != nil {
			return fmt.Errorf("add %s to image layout: %w", img.Name, err)
		}
	}
	var files []File
	err = filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		files = append(files, File{Name: filepath.ToSlash(rel), Path: p})
		return err
	})
	if err != nil {
		return fmt.Errorf("list image layout: %w", err)
	}
	return Write(w, files)
}

// LoadArchive reads the one image of a docker-archive and compresses its layers anew, into dir.
func LoadArchive(path, dir string) (Named, error) {
	open := func() (io.ReadCloser, error) { return os.Open(path) }
	manifest, err := tarball.LoadManifest(open)
	if err == nil && (len(manifest) != 1 || len(manifest[0].RepoTags) != 1) {
		err = errors.New("want one image that has one name")
	}
	if err != nil {
		return Named{}, fmt.Errorf("read image archive %s: %w", path, err)
	}
	full, err := FullName(manifest[0].RepoTags[0])
	if err != nil {
		return Named{}, err
	}
	img, err := tarball.Image(open, nil)
	if err != nil {
		return Named{}, fmt.Errorf("read %s from image archive %s: %w", full, path, err)
	}
	small, err := recompress(img, dir)
	if err != nil {
		return Named{}, fmt.Errorf("compress %s from image archive %s: %w", full, path, err)
	}
	return Named{full, small}, nil
}

func recompress(img v1.Image, dir string) (v1.Image, error) {
	old, err := img.Layers()
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	parts := make([]v1.Layer, 0, len(old))
	for _, l := range old {
		small, err := Compress(dir, func(w io.Writer) error {
			r, err := l.Uncompressed()
			if err != nil {
				return err
			}
			defer func() { _ = r.Close() }() // Read only: nothing can be lost.
			_, err = io.Copy(w, r)
			return err
		})
		if err != nil {
			return nil, err
		}
		parts = append(parts, small)
	}
	return Image(config.Config, true, parts...)
}

// FullName returns an image's name as containerd keeps it: with registry, repository and tag.
func FullName(short string) (string, error) {
	tag, err := name.NewTag(short)
	if err != nil {
		return "", fmt.Errorf("read image name %q: %w", short, err)
	}
	// The library knows the default registry by its older name.
	return strings.TrimPrefix(tag.Name(), "index."), nil
}
