package nodeimage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/clusters/nodeimage/proc"
)

// RemoveBuilt removes the built node images from the engine, but for those to keep, and returns the names of those it
// removed. One that a container still uses is left, with an error that says so. The cache stays, so that Ensure brings
// an image back within a minute.
func RemoveBuilt(ctx context.Context, engine Engine, keep ...string) ([]string, error) {
	o, err := Options{Engine: engine}.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &builder{opts: o, run: proc.Exec{}}
	return b.removeBuilt(ctx, keep)
}

func (b *builder) removeBuilt(ctx context.Context, keep []string) ([]string, error) {
	var list bytes.Buffer
	if err := b.engine(ctx, &list, "images", "--format", "{{.Repository}}:{{.Tag}}"); err != nil {
		return nil, fmt.Errorf("list node images: %w", err)
	}
	var removed []string
	var errs []error
	for line := range strings.Lines(list.String()) {
		ref := strings.TrimSpace(line)
		if !strings.HasPrefix(ref, Repository+":") || slices.Contains(keep, ref) {
			continue
		}
		if err := b.engine(ctx, nil, "rmi", ref); err != nil {
			errs = append(errs, fmt.Errorf("remove node image %s: %w", ref, err))
			continue
		}
		removed = append(removed, ref)
	}
	return removed, errors.Join(errs...)
}
