package mountledger

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/history"
)

// TestRealBlockIdentity publishes a loop device in every way that a volume of volumeMode Block is, and as a file
// system: all of them are mounts of one image, and have its key.
func TestRealBlockIdentity(t *testing.T) {
	if !inNamespace(t, "-test.run=^TestRealBlockIdentity$") {
		return
	}
	for _, method := range []Method{MethodFanotify, MethodPollPri} {
		t.Run(string(method), func(t *testing.T) { testBlockIdentity(t, method) })
	}
}

func makeFiles(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// bind makes a bind mount until the test ends.
func bind(t *testing.T, source, target string) {
	t.Helper()
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustUnmount(t, target) })
}

func testBlockIdentity(t *testing.T, method Method) {
	base := t.TempDir()
	image := filepath.Join(base, "image")
	makeImage(t, image)
	var file unix.Stat_t
	if err := unix.Stat(image, &file); err != nil {
		t.Fatal(err)
	}
	want := "file:" + deviceName(unix.Major(file.Dev), unix.Minor(file.Dev)) + ":" + strconv.FormatUint(file.Ino, 10)
	loop := attachLoop(t, image)
	n, err := strconv.Atoi(strings.TrimPrefix(loop, "/dev/loop"))
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(base, "own") // A device file of a driver's own, on tmpfs.
	mustMount(t, "none", own, "tmpfs", 0, "")
	defer mustUnmount(t, own)
	node := filepath.Join(own, "device")
	if err := unix.Mknod(node, unix.S_IFBLK|0o600, int(unix.Mkdev(loopMajor, uint32(n)))); err != nil {
		t.Fatal(err)
	}
	published, ownPublished := filepath.Join(base, "published"), filepath.Join(base, "own published")
	before := filepath.Join(base, "before")
	makeFiles(t, published, ownPublished, before)
	bind(t, loop, before)
	sink, stop := startLedger(t, Config{Method: method})
	defer stop()
	key := func(action history.MountAction, path string) string {
		m := sink.find(t, "the mount at "+path, mountAt(action, path)).Mount
		if m.Unknown || m.Identity.BackingFile != image {
			t.Errorf("%s: %+v, want backing file %q", path, m, image)
		}
		return m.Identity.Key()
	}
	check := func(action history.MountAction, path string) {
		t.Helper()
		if got := key(action, path); got != want {
			t.Errorf("%s: key %q, want %q", path, got, want)
		}
	}
	check(history.MountPresent, before)
	bind(t, loop, published)
	check(history.MountAttach, published)
	bind(t, node, ownPublished)
	check(history.MountAttach, ownPublished)

	over := attachLoop(t, published) // As the kubelet does it, to hold the device.
	held, fs := filepath.Join(base, "held"), filepath.Join(base, "fs")
	makeFiles(t, held)
	bind(t, over, held)
	check(history.MountAttach, held)
	mustMount(t, over, fs, "ext4", 0, "")
	defer mustUnmount(t, fs)
	check(history.MountAttach, fs)

	plain, bound := filepath.Join(own, "plain"), filepath.Join(base, "bound")
	makeFiles(t, plain, bound)
	bind(t, plain, bound) // A file that is no device is of its file system.
	m := sink.find(t, "the plain file", mountAt(history.MountAttach, bound)).Mount
	if m.Unknown || m.Identity.BackingInode != 0 || !strings.HasPrefix(m.Identity.Device, "0:") {
		t.Errorf("a plain file: %+v", m)
	}
}

// TestIdentifyMountOfAnother says that the device at a path is not taken for that of a mount that is there no more.
func TestIdentifyMountOfAnother(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		fsType, path string
		wantErr      bool
	}{
		{"devtmpfs", "/dev/null", true},
		{"tmpfs", "/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/publish/pv/uid", true},
		{"tmpfs", "/dev/null", false},
		{"ext4", "/nowhere", false},
		{"nfs", "/dev/null", false},
	} {
		m := history.Mount{Root: "/x", Path: tt.path, FSType: tt.fsType, Identity: history.Identity{Device: "0:5"}}
		id, err := identifyMount(m, ^uint64(0), unix.STATX_MNT_ID)
		if (err != nil) != tt.wantErr || id != m.Identity {
			t.Errorf("%s at %s: %+v (%v), want an error: %t", tt.fsType, tt.path, id, err, tt.wantErr)
		}
	}
}
