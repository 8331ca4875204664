// Package layers writes and reads the layers of container images, and assembles images from them, without a container
// engine. The same content gives the same bytes: names are sorted and times are those of 1970.
package layers

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
)

// fileLayer is a layer whose blob is a file on this host.
type fileLayer struct {
	path           string
	digest, diffID v1.Hash
	size           int64
	media          types.MediaType
}

// Digest is the digest of the blob.
func (l fileLayer) Digest() (v1.Hash, error) { return l.digest, nil }

// DiffID is the digest of the uncompressed tar.
func (l fileLayer) DiffID() (v1.Hash, error) { return l.diffID, nil }

// Size is the size of the blob.
func (l fileLayer) Size() (int64, error) { return l.size, nil }

// MediaType tells how the blob is compressed.
func (l fileLayer) MediaType() (types.MediaType, error) { return l.media, nil }

// Compressed opens the blob.
func (l fileLayer) Compressed() (io.ReadCloser, error) { return os.Open(l.path) }

// Uncompressed opens the tar in the blob.
func (l fileLayer) Uncompressed() (io.ReadCloser, error) {
	if l.media != types.OCILayerZStd {
		return os.Open(l.path)
	}
	f, err := os.Open(l.path)
	if err != nil {
		return nil, err
	}
	z, err := zstd.NewReader(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{z, f}, nil
}

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
	return fileLayer{path: path, digest: sum, diffID: sum, size: size, media: types.DockerUncompressedLayer}, nil
}

// Compress makes a zstd layer, in a new file in dir, of the tar that write writes.
func Compress(dir string, write func(io.Writer) error) (v1.Layer, error) {
	f, err := os.CreateTemp(dir, "layer-*.tar.zst")
	if err != nil {
		return nil, fmt.Errorf("create layer: %w", err)
	}
	defer func() { _ = f.Close() }() // Closed below when all went well; the second time is no news.
	blob, content := sha256.New(), sha256.New()
	z, err := zstd.NewWriter(io.MultiWriter(f, blob), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return nil, fmt.Errorf("compress layer: %w", err)
	}
	err = write(io.MultiWriter(z, content))
	if err = errors.Join(err, z.Close()); err != nil {
		return nil, fmt.Errorf("compress layer: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("compress layer: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("compress layer: %w", err)
	}
	return fileLayer{
		path: filepath.Join(dir, filepath.Base(f.Name())), digest: hashOf(blob), diffID: hashOf(content),
		size: info.Size(), media: types.OCILayerZStd,
	}, nil
}

func hashOf(h hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}
}
