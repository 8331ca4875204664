package kind

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestThawBelow thaws what is frozen inside the containers of a cluster, in cgroups of both versions, and nothing else.
func TestThawBelow(t *testing.T) {
	root := t.TempDir()
	files := map[string]struct{ has, want string }{
		"freezer/docker/id1/freezer.state":                {"FROZEN\n", "FROZEN\n"}, // Paused by the engine.
		"freezer/docker/id1/kubelet/pod/freezer.state":    {"FROZEN\n", "THAWED"},
		"freezer/docker/id1/kubelet/freezer.state":        {"THAWED\n", "THAWED\n"},
		"freezer/docker/id2/kubelet/freezer.state":        {"FREEZING\n", "FREEZING\n"},
		"freezer/docker/other/kubelet/freezer.state":      {"FROZEN\n", "FROZEN\n"},
		"system.slice/docker-id2.scope/cgroup.freeze":     {"1\n", "1\n"},
		"system.slice/docker-id2.scope/pod/cgroup.freeze": {"1\n", "0"},
	}
	for path, content := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content.has), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	thawed, err := thawBelow(root, []string{"id1", "id2"})
	slices.Sort(thawed)
	if want := []string{filepath.Join(root, "freezer/docker/id1/kubelet/pod"),
		filepath.Join(root, "system.slice/docker-id2.scope/pod")}; err != nil || !slices.Equal(thawed, want) {
		t.Errorf("thawed %v, %v, want %v", thawed, err, want)
	}
	for path, content := range files {
		if got, err := os.ReadFile(filepath.Join(root, path)); err != nil || string(got) != content.want {
			t.Errorf("%s is %q, %v, want %q", path, got, err, content.want)
		}
	}
	if _, err := thawBelow(filepath.Join(root, "none"), []string{"id1"}); err != nil {
		t.Errorf("a machine without cgroups: %v", err)
	}
}
