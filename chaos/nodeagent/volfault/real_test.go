package volfault_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/nodeagent/volfault"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters/loopdev"
)

var owner = undo.Owner{Run: "r1", Step: 2}

// place is a volume on a real kernel, mounted as a local one is: the root, and a directory of it where a pod has it.
type place struct {
	node     *volfault.Node
	pv       string
	root     string
	pod      string
	commands []string
}

// realPlace returns a volume in a mount namespace that ends with the test.
func realPlace(t *testing.T, fileSystem string) *place {
	t.Helper()
	if os.Getenv("SEATRIAL_E2E") != "1" {
		t.Skip("NOT RUN: loop devices and mounts need root; set SEATRIAL_E2E=1")
	}
	runtime.LockOSThread() // Never unlocked: the thread, and with it the namespace, ends with the test's goroutine.
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		t.Fatalf("make a mount namespace: %v", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatalf("make mounts private: %v", err)
	}
	dir := t.TempDir()
	p := &place{pv: "pv-" + fileSystem}
	p.root, p.pod = filepath.Join(dir, "mnt", p.pv), filepath.Join(dir, "pods", "u1", "volumes", p.pv)
	p.node = &volfault.Node{
		Notes: filepath.Join(dir, "held"), BootNotes: filepath.Join(dir, "brief"), Run: p.command,
	}
	image := filepath.Join(dir, "image")
	file, err := os.Create(image)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(file.Truncate(320<<20), file.Close()); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "mkfs."+fileSystem, "-q", image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs: %v: %s", err, out)
	}
	dev, err := loopdev.Attach(image, loopdev.Options{AutoClear: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{p.root, p.pod} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(unix.Mount(dev.Name(), p.root, fileSystem, 0, ""), dev.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, path := range []string{p.pod, p.root} {
			_ = unix.Unmount(path, unix.MNT_DETACH)
		}
	})
	if err := os.Mkdir(filepath.Join(p.root, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(filepath.Join(p.root, "data"), p.pod, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(p.pod, "old"), []byte("old"))
	p.sync(t)
	return p
}

func (p *place) sync(t *testing.T) {
	t.Helper()
	dir, err := os.Open(p.root)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unix.Syncfs(int(dir.Fd())), dir.Close()); err != nil {
		t.Fatal(err)
	}
}

// command is systemctl on a node whose kubelet runs.
func (p *place) command(_ context.Context, argv []string, _ string) (string, error) {
	p.commands = append(p.commands, strings.Join(argv, " "))
	if argv[1] == "show" {
		return "active\n", nil
	}
	return "", nil
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (p *place) look(t *testing.T) volfault.Report {
	t.Helper()
	r, err := volfault.Look(p.pv, owner)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tries returns what the tries came to: of the read, and of the write.
func tries(r volfault.Report) (out [2]string) {
	for i, try := range r.Tries {
		out[i] = try.Error
	}
	return out
}

func (p *place) mend(t *testing.T) string {
	t.Helper()
	reports, err := p.node.Mend(t.Context(), owner)
	if err != nil || len(reports) != 1 {
		t.Fatalf("mend: %+v, %v", reports, err)
	}
	if got := tries(p.look(t)); got != [2]string{} {
		t.Errorf("after it was mended: %q", got)
	}
	if got := read(t, filepath.Join(p.pod, "old")); got != "old" {
		t.Errorf("what was synced is %q", got)
	}
	return reports[0].Undone
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return volfault.Missing
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func each(t *testing.T, test func(t *testing.T, p *place)) {
	for _, fileSystem := range []string{"ext4", "xfs"} {
		t.Run(fileSystem, func(t *testing.T) { test(t, realPlace(t, fileSystem)) })
	}
}

func TestRealPowerLoss(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		write(t, filepath.Join(p.pod, "new"), []byte("new"))
		got, err := p.node.Inflict(t.Context(), volfault.Power, owner, "", p.pv)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || tries(got[0]) != [2]string{"EIO", "EIO"} {
			t.Errorf("reports %+v", got)
		}
		if got := tries(p.look(t)); got != [2]string{"EIO", "EIO"} {
			t.Errorf("seen by its victim: %q", got)
		}
		// What the node's next boot does.
		for _, path := range []string{p.pod, p.root} {
			if err := unix.Unmount(path, 0); err != nil {
				t.Fatal(err)
			}
		}
		if r := p.look(t); r.Mounted {
			t.Errorf("while it is not mounted: %+v", r)
		}
		again(t, p)
		r := p.look(t)
		if r.Synced != volfault.Whole || r.Unsynced == volfault.Whole || tries(r) != [2]string{} {
			t.Errorf("after the next mount: %+v", r)
		}
		t.Logf("unsynced file: %s; another, written before: %q", r.Unsynced, read(t, filepath.Join(p.root, "data/new")))
		if done := p.mend(t); done != "" {
			t.Errorf("there was something to undo: %q", done)
		}
		if r := p.look(t); r.Synced != volfault.Missing {
			t.Errorf("a file of ours is %s", r.Synced)
		}
	})
}

// again mounts what is behind the place's root anew.
func again(t *testing.T, p *place) {
	t.Helper()
	dev, err := loopdev.Attach(filepath.Join(p.root, "../../image"), loopdev.Options{AutoClear: true})
	if err != nil {
		t.Fatal(err)
	}
	fileSystem := strings.TrimPrefix(p.pv, "pv-")
	if err := errors.Join(unix.Mount(dev.Name(), p.root, fileSystem, 0, ""), dev.Close()); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(filepath.Join(p.root, "data"), p.pod, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
}

func TestRealDeviceGone(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		before, err := volfault.Find(p.pv)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.node.Inflict(t.Context(), volfault.Gone, owner, "", p.pv); err != nil {
			t.Fatal(err)
		}
		if got := tries(p.look(t)); got != [2]string{"EIO", "EIO"} {
			t.Errorf("seen by its victim: %q", got)
		}
		if done := p.mend(t); done != "mounted anew" {
			t.Errorf("undone: %q", done)
		}
		want := []string{
			"systemctl show kubelet --property=ActiveState --value",
			"systemctl stop kubelet", "systemctl start kubelet",
		}
		if !slices.Equal(p.commands, want) {
			t.Errorf("commands %q", p.commands)
		}
		after, err := volfault.Find(p.pv)
		if err != nil || !slices.Equal(before.Mounts, after.Mounts) {
			t.Errorf("mounts %v, before %v, %v", after.Mounts, before.Mounts, err)
		}
		if again, err := p.node.Mend(t.Context(), owner); err != nil || len(again) != 0 {
			t.Errorf("undone again: %+v, %v", again, err)
		}
	})
}

func TestRealFull(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		if _, err := p.node.Inflict(t.Context(), volfault.Full, owner, "", p.pv); err != nil {
			t.Fatal(err)
		}
		r := p.look(t)
		if r.Available > 16 || tries(r) != [2]string{"", "ENOSPC"} {
			t.Errorf("seen by its victim: %+v", r)
		}
		if done := p.mend(t); done != "emptied" {
			t.Errorf("undone: %q", done)
		}
		if r = p.look(t); r.Available < 16 {
			t.Error("still full")
		}
	})
}

func TestRealReadOnly(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		if _, err := p.node.Inflict(t.Context(), volfault.ReadOnly, owner, "", p.pv); err != nil {
			t.Fatal(err)
		}
		r := p.look(t)
		if !r.ReadOnly || tries(r) != [2]string{"", "EROFS"} {
			t.Errorf("seen by its victim: %+v", r)
		}
		if done := p.mend(t); done != "made writable" {
			t.Errorf("undone: %q", done)
		}
	})
}

func TestRealDamage(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		content := bytes.Repeat([]byte("seatrial"), 8*16384/8)
		write(t, filepath.Join(p.pod, "table.ibd"), content)
		got, err := p.node.Inflict(t.Context(), volfault.Flip, owner, "table.ibd", p.pv)
		if err != nil || got[0].Damage == nil {
			t.Fatalf("%+v, %v", got, err)
		}
		d := got[0].Damage
		now := []byte(read(t, filepath.Join(p.pod, "table.ibd")))
		differ := 0
		for i := range now {
			if now[i] != content[i] {
				differ++
			}
		}
		seen, err := volfault.ReadFile(p.pv, "table.ibd", d.Page)
		if err != nil || seen.Page != d.After || seen.Size != int64(len(content)) {
			t.Errorf("seen by its victim: %+v, %v", seen, err)
		}
		if differ != int(d.Length) || d.Before == d.After || now[d.Offset] == content[d.Offset] {
			t.Errorf("%d bytes differ: %+v", differ, d)
		}
		if got, err = p.node.Inflict(t.Context(), volfault.Truncate, owner, "table.ibd", p.pv); err != nil {
			t.Fatal(err)
		}
		if now := read(t, filepath.Join(p.pod, "table.ibd")); len(now) != len(content)/2 {
			t.Errorf("%d bytes are left: %+v", len(now), got[0].Damage)
		}
		if seen, err := volfault.ReadFile(p.pv, "table.ibd", 7); err != nil || seen.Page != "" ||
			seen.Size != got[0].Damage.Offset {
			t.Errorf("seen by its victim: %+v, %v", seen, err)
		}
		for _, bad := range []string{"../image", "/etc/passwd", "nothing", ""} {
			if _, err := p.node.Inflict(t.Context(), volfault.Flip, owner, bad, p.pv); err == nil {
				t.Errorf("file %q: no error", bad)
			}
		}
		if left, err := p.node.Mend(t.Context(), owner); err != nil || len(left) != 0 {
			t.Errorf("there is something to undo: %+v, %v", left, err)
		}
	})
}

func TestAVolumeThatIsNotThere(t *testing.T) {
	r, err := volfault.Look("pv-of-nobody", owner)
	if err != nil || r.Mounted {
		t.Errorf("look: %+v, %v", r, err)
	}
	n := &volfault.Node{Notes: t.TempDir(), BootNotes: t.TempDir()}
	if _, err := n.Inflict(
		t.Context(),
		volfault.Gone,
		owner,
		"",
		"pv-of-nobody",
	); !errors.Is(
		err,
		volfault.ErrNotMounted,
	) {
		t.Errorf("inflict: %v", err)
	}
	if left, err := n.Mend(t.Context(), owner); err != nil || len(left) != 0 {
		t.Errorf("mend: %+v, %v", left, err)
	}
}

// TestAVolumeThatIsFullStaysSoWhereItIsMountedNext mends volumes that were unmounted since they were damaged.
func TestAVolumeThatIsFullStaysSoWhereItIsMountedNext(t *testing.T) {
	for kind, says := range map[volfault.Kind]string{
		volfault.Full: `".seatrial-full-seatrial-r1-2" in its root still fills it`,
		volfault.Gone: "", volfault.ReadOnly: "",
	} {
		n := &volfault.Node{Notes: t.TempDir(), BootNotes: t.TempDir()}
		dir := filepath.Join(n.Notes, owner.Name())
		text := fmt.Sprintf(`{"kind":%q,"volume":{"pv":"pv-of-nobody"}}`, kind)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "volume-pv-of-nobody"), []byte(text))
		_, err := n.Mend(t.Context(), owner)
		if (err != nil) != (says != "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v", kind, err)
		}
		if _, gone := os.Stat(dir); (gone == nil) != (says != "") {
			t.Errorf("%s: its note: %v", kind, gone)
		}
	}
}
