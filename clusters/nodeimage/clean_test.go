package nodeimage

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/clusters/nodeimage/proc"
)

// fakeImages is an engine with a list of images.
type fakeImages struct{ images []string }

// Run lists or removes images; one whose name ends in "used" cannot be removed.
func (f *fakeImages) Run(_ context.Context, c proc.Command) error {
	switch c.Args[1] {
	case "images":
		_, err := c.Stdout.Write([]byte(strings.Join(f.images, "\n") + "\n"))
		return err
	case "rmi":
		if strings.HasSuffix(c.Args[2], "used") {
			return errors.New("image is being used")
		}
		f.images = slices.DeleteFunc(f.images, func(i string) bool { return i == c.Args[2] })
		return nil
	}
	return errors.New("unexpected command")
}

func TestRemoveBuilt(t *testing.T) {
	const ours = "localhost/seatrial/node:"
	f := &fakeImages{images: []string{"other:1", ours + "a", ours + "keep", "<none>:<none>", ours + "used", ours + "b"}}
	b := &builder{opts: Options{Engine: Engine{Path: "engine"}}, run: f}
	removed, err := b.removeBuilt(t.Context(), []string{ours + "keep"})
	if err == nil || !strings.Contains(err.Error(), ours+"used") {
		t.Errorf("error = %v, want it to name the image in use", err)
	}
	if !slices.Equal(removed, []string{ours + "a", ours + "b"}) {
		t.Errorf("removed %q", removed)
	}
	if want := []string{"other:1", ours + "keep", "<none>:<none>", ours + "used"}; !slices.Equal(f.images, want) {
		t.Errorf("left %q, want %q", f.images, want)
	}
}
