package kind

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/loopdev"
)

func unlabelled(int) (loopdev.Status, error) { return loopdev.Status{}, nil }

func TestReleaseLoops(t *testing.T) {
	dir := t.TempDir()
	for name, backing := range map[string]string{
		"loop0": "/lib/seatrial/pv/a.img (deleted)",     // Ours, on a node that is gone.
		"loop1": "/var/lib/seatrial/pv/b.img (deleted)", // Ours, deleted on a node that lives.
		"loop2": "/var/lib/seatrial/pv/c.img",           // Ours, on a node that lives.
		"loop3": "/home/jo/disk.img (deleted)",          // Somebody else's.
		"loop4": "/var/snap/core.snap",
	} {
		must(t, os.MkdirAll(filepath.Join(dir, name, "loop"), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, name, "loop", "backing_file"), []byte(backing+"\n"), 0o600))
	}
	must(t, os.MkdirAll(filepath.Join(dir, "loop5"), 0o700)) // Free.
	var detached []int
	l := loopDevices{sys: dir, status: unlabelled, detach: func(number int) error {
		detached = append(detached, number)
		return os.RemoveAll(filepath.Join(dir, fmt.Sprintf("loop%d", number), "loop"))
	}}
	must(t, l.release(t.Context(), slog.New(slog.DiscardHandler), gone{}))
	slices.Sort(detached)
	if diff := cmp.Diff([]int{0, 1}, detached); diff != "" {
		t.Errorf("released (-want +got):\n%s", diff)
	}
}

func TestReleaseLoopsFails(t *testing.T) {
	p, k := aProvider(t, seaNodes()...)
	must(t, os.MkdirAll(filepath.Join(p.loops.sys, "loop0", "loop"), 0o700))
	backing := filepath.Join(p.loops.sys, "loop0", "loop", "backing_file")
	must(t, os.WriteFile(backing, []byte("/lib/seatrial/pv/a.img (deleted)"), 0o600))
	p.loops.detach = func(int) error { return io.ErrNoProgress }
	if err := p.Delete(t.Context(), "sea"); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("delete = %v, want the device's error", err)
	}
	if got := load(k.dir); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
}

func TestOpenOfNothing(t *testing.T) {
	p, _ := aProvider(t)
	_, err := p.Open(t.Context(), "sea")
	if !errors.Is(err, clusters.ErrNotFound) || !strings.Contains(err.Error(), `"sea"`) {
		t.Errorf("open = %v", err)
	}
}
