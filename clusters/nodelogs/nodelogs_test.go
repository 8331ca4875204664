package nodelogs

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/clusters/fake"
)

func archive(t *testing.T, files map[string]string) string {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for name, text := range files {
		h := &tar.Header{Name: name, Mode: 0o600, Size: int64(len(text)), Typeflag: tar.TypeReg}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

func TestCollect(t *testing.T) {
	node := fake.NewCluster("c", 1).Node("worker")
	node.On([]string{"sh", "-c", Script, "logs", "91"}, fake.Reply{
		Stdout: archive(t, map[string]string{"./journal.log": "journal", "pods/n_p_u/c/0.log": "pod"}),
	})
	dir := filepath.Join(t.TempDir(), "worker")
	if err := Collect(t.Context(), node, 90*time.Second+time.Millisecond, dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"journal.log": "journal", "pods/n_p_u/c/0.log": "pod"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s is %q (%v), want %q", name, got, err, want)
		}
	}
}

func TestCollectFails(t *testing.T) {
	for want, reply := range map[string]fake.Reply{
		"exit code 2: tar: no":    {ExitCode: 2, Stderr: "tar: no"},
		"read tar file":           {Stdout: strings.Repeat("x", 100_000)},
		"path escapes":            {Stdout: archive(t, map[string]string{"../out": "x"})},
		"unexpected EOF":          {Stdout: archive(t, map[string]string{"a": "0123456789"})[:515]},
		`logs of node "c-worker"`: {ExitCode: 1},
	} {
		node := fake.NewCluster("c", 1).Node("worker")
		node.On([]string{"sh", "..."}, reply)
		err := Collect(t.Context(), node, time.Minute, t.TempDir())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "mktemp") {
			t.Errorf("Collect: %v, want %q", err, want)
		}
	}
}
