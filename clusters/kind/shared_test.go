package kind

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/loopdev"
)

func shares(c container, source string) container {
	c.Mounts = append(c.Mounts, mount{Source: source, Destination: clusters.SharedDir})
	return c
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// The directory is made with the cluster, empty, and goes with it, and another cluster's stays.
func TestSharedDirLivesWithItsCluster(t *testing.T) {
	p, k := aProvider(t)
	k.create = func(k *fakeKind) error {
		if entries, err := os.ReadDir(p.shared.dir("sea")); err != nil || len(entries) > 0 {
			t.Errorf("before the nodes are made the directory has %v (%v)", entries, err)
		}
		k.add(seaNodes()...)
		return nil
	}
	must(t, os.MkdirAll(filepath.Join(p.shared.dir("sea"), "of an earlier one"), 0o700))
	must(t, p.shared.make("other"))
	_, err := p.Create(t.Context(), aSpec())
	must(t, err)
	must(t, p.Delete(t.Context(), "sea"))
	if exists(p.shared.dir("sea")) || !exists(p.shared.dir("other")) {
		t.Error("want the directory of the deleted cluster to be gone, and the other's to be there")
	}
	must(t, p.Delete(t.Context(), "other"))
	if exists(p.shared.root) {
		t.Error("the directory of all directories is left")
	}
}

// A deletion that was broken off after the containers were gone is found, and finished by another.
func TestBrokenOffDeletionIsFound(t *testing.T) {
	p, _ := aProvider(t, seaNodes()...)
	must(t, p.shared.make("gone"))
	must(t, p.shared.make("sea"))
	want := []clusters.Owned{
		{Name: "gone", Ours: true},
		{Name: "sea", RunID: "r1", Ours: true, Nodes: []string{"sea-worker", "sea-control-plane"}},
	}
	if diff := cmp.Diff(want, left(t, p)); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	must(t, p.Delete(t.Context(), "gone"))
	if diff := cmp.Diff(want[1:], left(t, p)); diff != "" {
		t.Errorf("list after delete (-want +got):\n%s", diff)
	}
}

// A cluster that was made with another kubeconfig has its directory elsewhere; its nodes tell where.
func TestSharedDirOfAnotherKubeconfig(t *testing.T) {
	elsewhere := t.TempDir()
	ours := filepath.Join(elsewhere, sharedName, "sea")
	strange := filepath.Join(elsewhere, "home")
	must(t, os.MkdirAll(ours, 0o700))
	must(t, os.Mkdir(strange, 0o700))
	nodes := seaNodes()
	p, _ := aProvider(t, shares(nodes[0], ours), shares(nodes[1], strange))
	must(t, p.Delete(t.Context(), "sea"))
	if exists(ours) || !exists(strange) {
		t.Error("want the directory of our making to be gone, and the strange one to be there")
	}
}

// A harness in a container does not see that directory: a container that mounts what is above it removes it. Nothing is
// mounted otherwise.
func TestSharedDirOnTheEnginesHost(t *testing.T) {
	host, err := os.Hostname()
	must(t, err)
	us := made(host, "", "", "", "running")
	for id, want := range map[string]string{
		host + "0123": "run --rm --network=none --mount=type=bind,src=/engines/home,dst=/mnt --entrypoint=/bin/sh " +
			`node:1 -c rm -rf "/mnt/$1/$2" && rmdir --ignore-fail-on-non-empty "/mnt/$1" sh shared sea`,
		"of another machine": "",
	} {
		us.ID = id
		nodes := seaNodes()
		nodes[0].Image, nodes[1].Image = "node:1", "node:1"
		p, _ := aProvider(t, shares(nodes[0], "/engines/home/shared/sea"), shares(nodes[1], "/engines/home"), us)
		must(t, p.Delete(t.Context(), "sea"))
		var got []string
		for _, call := range calls(t, p.engine) {
			if strings.HasPrefix(call, "run ") {
				got = append(got, call)
			}
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("harness in %q: %q, want %q", id, got, want)
		}
	}
}

func TestReleaseLoopsOfACluster(t *testing.T) {
	sys, dir := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "volumes", "a.img")
	must(t, os.MkdirAll(filepath.Dir(file), 0o700))
	must(t, os.WriteFile(file, []byte("x"), 0o600))
	shared, err := loopdev.IdentityOf(file)
	must(t, err)
	other := shared
	other.BackingInode++
	devices := []loopdev.Status{
		{Identity: shared}, {Identity: shared, Label: "disk/elsewhere"}, // Over a file that is there.
		{Identity: other, Label: "disk/sea-worker2"}, // Its file was deleted.
		{Identity: other, Label: "disk/sea-2-worker"}, {Identity: other, Label: "disk/deep-sea-worker"},
		{Identity: other},
	}
	for number := range devices {
		name := fmt.Sprintf("loop%d", number)
		must(t, os.MkdirAll(filepath.Join(sys, name, "loop"), 0o700))
		must(t, os.WriteFile(filepath.Join(sys, name, "loop", "backing_file"), []byte("/volumes/a.img\n"), 0o600))
	}
	must(t, os.MkdirAll(filepath.Join(sys, "loop6", "loop"), 0o700))
	must(t, os.WriteFile(filepath.Join(sys, "loop6", "loop", "backing_file"), []byte("/volumes/b.img\n"), 0o600))
	var detached []int
	l := loopDevices{
		sys: sys,
		status: func(number int) (loopdev.Status, error) {
			if number >= len(devices) {
				return loopdev.Status{}, unix.ENXIO // It is freed at this moment.
			}
			return devices[number], nil
		},
		detach: func(number int) error {
			detached = append(detached, number)
			return os.RemoveAll(filepath.Join(sys, fmt.Sprintf("loop%d", number), "loop"))
		},
	}
	of, err := goneWith("sea", []string{filepath.Join(dir, "absent"), dir})
	must(t, err)
	must(t, l.release(t.Context(), slog.New(slog.DiscardHandler), of))
	slices.Sort(detached)
	if diff := cmp.Diff([]int{0, 1, 2}, detached); diff != "" {
		t.Errorf("released (-want +got):\n%s", diff)
	}
}
