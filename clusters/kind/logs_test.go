package kind

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/clusters"
)

// TestExportLogs holds the names of kind's layout, and that one file that cannot be had leaves the others.
func TestExportLogs(t *testing.T) {
	e := fakeEngine(t, made("c-control-plane", "c", "control-plane", "r1", clusters.StateRunning),
		made("c-worker", "c", "worker", "r1", clusters.StateExited))
	c := &Cluster{provider: &Provider{engine: e}, name: "c", nodes: []*node{
		aNode(e, "c-control-plane"), aNode(e, "c-worker"),
	}}
	dir := t.TempDir()
	must(t, c.ExportLogs(t.Context(), dir))
	want := map[string]string{
		"docker-info.txt": "1", "kind-version.txt": "kind v0.", "c-worker/inspect.json": `"Name":"/c-worker"`,
		"c-worker/serial.log": "console of c-worker", "c-control-plane/inspect.json": `"Name":"/c-control-plane"`,
		"c-control-plane/serial.log": "console of c-control-plane",
	}
	for name, text := range want {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.Contains(string(got), text) {
			t.Errorf("%s is %q (%v), want %q", name, got, err, text)
		}
	}
	c.nodes = append(slices.Clone(c.nodes[:1]), aNode(e, "gone"), c.nodes[1])
	dir = t.TempDir()
	if err := c.ExportLogs(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "No such container: gone") {
		t.Errorf("with a node that is gone: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "c-worker/serial.log")); err != nil {
		t.Errorf("after a node that is gone: %v", err)
	}
}
