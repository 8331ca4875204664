// Package layers writes and reads the layers of container images, and assembles images from them, without a container
// engine. The same content gives the same bytes: names are sorted and times are those of 1970.
package layers

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/go-containerregistry/pkg/compression"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
)

// plain is a layer whose blob is a tar file on this host.
type plain struct {
	path   string
	digest v1.Hash
	size   int64
}

func (l plain) Digest() (v1.Hash, error) { return l.digest, nil }

func (l plain) DiffID() (v1.Hash, error) { return l.digest, nil }

func (l plain) Size() (int64, error) { return l.size, nil }

// MediaType tells that the blob is not compressed.
func (plain) MediaType() (types.MediaType, error) { return types.DockerUncompressedLayer, nil }

func (l plain) Compressed() (io.ReadCloser, error) { return os.Open(l.path) }

func (l plain) Uncompressed() (io.ReadCloser, error) { return os.Open(l.path) }

// Plain makes a layer of a tar file as it is, for an engine on this host: compressing would be work for nothing.
func Plain(path string) (v1.Layer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open layer: %w", err)
	}
	defer func() { _ = f.Close() }() // Read only: nothing can be lost.
	sum, size, err := v1.SHA256(f)
	if err != nil {
		return nil, fmt.Errorf("hash layer %s: %w", path, err)
	}
	return plain{path, sum, size}, nil
}

// Compress makes a zstd layer, in a new file in dir, of the tar that write writes.
func Compress(dir string, write func(io.Writer) error) (v1.Layer, error) {
	f, err := os.CreateTemp(dir, "layer-*.tar.zst")
	if err != nil {
		return nil, fmt.Errorf("create layer: %w", err)
	}
	z, err := zstd.NewWriter(f, zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err == nil {
		err = errors.Join(write(z), z.Close())
	}
	var l v1.Layer
	if err = errors.Join(err, f.Close()); err == nil {
		l, err = tarball.LayerFromFile(f.Name(), tarball.WithCompression(compression.ZStd),
			tarball.WithMediaType(types.OCILayerZStd))
	}
	if err != nil {
		return nil, fmt.Errorf("compress layer: %w", err)
	}
	return l, nil
}
