// Package nodefile puts files on nodes. Its promise: what is at the path is the very content that was given, or what
// was there before.
package nodefile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/seatrial/seatrial/clusters"
)

// Place puts content at path on the node, with the mode that chmod understands, unless it is there: it goes to a new
// file beside, which a loss of power does not empty, is compared by its hash as the node computes it, and takes the
// place of the old file at once. The directory must be there. The bool tells whether the content was copied.
func Place(ctx context.Context, node clusters.Node, path string, content []byte, mode string) (bool, error) {
	sum := sha256.Sum256(content)
	want := hex.EncodeToString(sum[:])
	if got, err := hashOf(ctx, node, path); err == nil && got == want {
		_, err := clusters.Run(ctx, node, "chmod", mode, path)
		return false, err
	}
	fresh := path + ".new"
	_, err := node.Exec(ctx, clusters.Command{
		Argv:  []string{"dd", "of=" + fresh, "bs=1M", "iflag=fullblock", "conv=fsync", "status=none"},
		Stdin: bytes.NewReader(content), Stdout: io.Discard,
	})
	if err != nil {
		return false, err
	}
	got, err := hashOf(ctx, node, fresh)
	if err != nil {
		return false, err
	}
	if got != want {
		return false, fmt.Errorf("copy to %q on node %q: sha256 is %s there, want %s", fresh, node.Name(), got, want)
	}
	for _, argv := range [][]string{{"chmod", mode, fresh}, {"mv", "-f", fresh, path}} {
		if _, err := clusters.Run(ctx, node, argv...); err != nil {
			return false, err
		}
	}
	return true, nil
}

func hashOf(ctx context.Context, node clusters.Node, path string) (string, error) {
	out, err := clusters.Run(ctx, node, "sha256sum", path)
	if err != nil {
		return "", err
	}
	sum, _, ok := strings.Cut(out, " ")
	if !ok || len(sum) != hex.EncodedLen(sha256.Size) {
		return "", fmt.Errorf("hash %q on node %q: answer is %q", path, node.Name(), out)
	}
	return sum, nil
}
