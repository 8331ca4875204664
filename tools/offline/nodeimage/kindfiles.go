package nodeimage

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seatrial/seatrial/tools/offline/gobuild"
	"github.com/seatrial/seatrial/tools/offline/layers"
)

// nodeFiles are the files of the node that are ours.
//
//go:embed files
var nodeFiles embed.FS

// kindSource returns the directory of the pinned kind module in the module cache, whose sums the go command checks.
func (b *builder) kindSource(ctx context.Context) (string, error) {
	m, err := kindComponent().Load(pinFiles, nil)
	if err != nil {
		return "", err
	}
	work, err := os.MkdirTemp("", "seatrial-kind-")
	if err != nil {
		return "", fmt.Errorf("find kind's files: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }() // In the temporary directory; nothing depends on its removal.
	for name, data := range m.Files {
		if err := os.WriteFile(filepath.Join(work, name), data, 0o644); err != nil {
			return "", fmt.Errorf("find kind's files: %w", err)
		}
	}
	module, err := gobuild.Download(ctx, b.run, work, kindModule)
	if err != nil {
		return "", fmt.Errorf("find kind's files: %w", err)
	}
	if module.Version != kindVersion || module.Dir == "" {
		return "", fmt.Errorf("find kind's files: module %s is %q, want %s", kindModule, module.Version, kindVersion)
	}
	return module.Dir, nil
}

// kindLayer lists the files of the node that kind's own base image has, changed where this image differs, and what its
// build does besides copying: services enabled and masked, the manifests, the version.
func kindLayer(kindDir string, v release, names imageNames, criSpec []byte) ([]layers.File, error) {
	files, err := kindBase(filepath.Join(kindDir, "images", "base", "files"), names["pause"])
	if err != nil {
		return nil, err
	}
	own := make(map[string][]byte)
	for _, name := range []string{"manifests/default-cni.yaml", "manifests/default-storage.yaml", "node/crictl"} {
		if own[name], err = nodeFiles.ReadFile("files/" + name); err != nil {
			return nil, err
		}
	}
	cni := bytes.ReplaceAll(own["manifests/default-cni.yaml"], []byte("PODNET_IMAGE"), []byte(names["podnet"]))
	const system = "etc/systemd/system/"
	files = append(files,
		layers.File{Name: "etc/containerd/cri-base.json", Data: criSpec},
		layers.File{Name: "etc/kubernetes/manifests", Dir: true},
		layers.File{Name: "etc/systemd/journald.conf.d/kind.conf", Data: []byte("[Journal]\nReadKMsg=no\n")},
		layers.File{Name: system + "systemd-binfmt.service", Link: "/dev/null"},
		layers.File{Name: "kind/manifests/default-cni.yaml", Data: cni},
		layers.File{Name: "kind/manifests/default-storage.yaml", Data: own["manifests/default-storage.yaml"]},
		layers.File{Name: "kind/version", Data: []byte(v.Kubernetes)},
		layers.File{Name: "usr/local/bin/crictl", Mode: 0o755, Data: own["node/crictl"]},
		layers.File{Name: "usr/sbin/init", Link: "/usr/lib/systemd/systemd"},
	)
	for _, unit := range []string{"containerd.service", "kubelet.service", "undo-mount-hacks.service"} {
		files = append(files, layers.File{
			Name: system + "multi-user.target.wants/" + unit, Link: "/etc/systemd/system/" + unit,
		})
	}
	return files, nil
}

// kindBase reads kind's image files. Programs are executable, everything else is not; the directory of licences is
// left out, since it only says where to look for those of the programs in kind's own image.
func kindBase(dir, pause string) ([]layers.File, error) {
	var files []layers.File
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		f := layers.File{Name: filepath.ToSlash(rel), Mode: 0o644}
		if strings.HasPrefix(f.Name, "LICENSES/") {
			return nil
		}
		if strings.HasPrefix(f.Name, "usr/local/bin/") || strings.HasPrefix(f.Name, "kind/bin/") {
			f.Mode = 0o755
		}
		if f.Data, err = os.ReadFile(p); err != nil {
			return err
		}
		if f.Name == "etc/containerd/config.toml" {
			if f.Data, err = containerdConfig(f.Data, pause); err != nil {
				return err
			}
		}
		files = append(files, f)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read kind's image files: %w", err)
	}
	return files, nil
}

// seldomStats has containerd ask for what each container uses once a minute. By default it asks every second (2.3,
// stats_collect_period), which is two fifths of what an idle cluster costs on cgroup v1; only the CRI's statistics show
// it, and the kubelet does not take them from there.
const seldomStats = `
[plugins."io.containerd.cri.v1.runtime"]
  stats_collect_period = "1m"
`

// containerdConfig changes kind's containerd configuration in three places: the pod sandbox is the image that is in
// the node, the OOM score is left alone where raising its priority is not allowed, as on hosts without
// CAP_SYS_RESOURCE, and statistics are collected seldom.
func containerdConfig(config []byte, pause string) ([]byte, error) {
	lines := strings.Split(string(config), "\n")
	changed := map[string]int{}
	for i, line := range lines {
		key, _, ok := strings.Cut(strings.TrimSpace(line), " = ")
		if !ok {
			continue
		}
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		switch key {
		case "sandbox_image":
			lines[i] = fmt.Sprintf("%ssandbox_image = %q", indent, pause)
		case "restrict_oom_score_adj":
			lines[i] = indent + "restrict_oom_score_adj = true"
		default:
			continue
		}
		changed[key]++
	}
	for _, key := range []string{"sandbox_image", "restrict_oom_score_adj"} {
		if changed[key] != 1 {
			return nil, fmt.Errorf("change %s in kind's containerd configuration: found %d times, want 1",
				key, changed[key])
		}
	}
	return []byte(strings.Join(lines, "\n") + seldomStats), nil
}

// criBase makes the runtime specification that containers of pods start from out of containerd's default: without
// limits, and with kind's hook that hides the host's product names.
func criBase(spec []byte) ([]byte, error) {
	var doc map[string]any
	if err := json.Unmarshal(spec, &doc); err != nil {
		return nil, fmt.Errorf("read default runtime specification: %w", err)
	}
	process, ok := doc["process"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("read default runtime specification: no process in it")
	}
	delete(process, "rlimits")
	hooks, _ := doc["hooks"].(map[string]any)
	if hooks == nil {
		hooks = make(map[string]any)
	}
	create, _ := hooks["createContainer"].([]any)
	hooks["createContainer"] = append(create, map[string]any{"path": "/kind/bin/mount-product-files.sh"})
	doc["hooks"] = hooks
	return json.MarshalIndent(doc, "", "  ")
}

// dropFromRoot tells which files of the Debian root the node does without: device files, which the engine makes, what
// kind's base image removes so that systemd starts only what a node needs, and the host's package sources.
func dropFromRoot(name string) bool {
	dir, base := filepath.Split(name)
	dir = strings.TrimSuffix(dir, "/")
	const lib, etc = "usr/lib/systemd/system/", "etc/systemd/system/"
	switch {
	case strings.HasPrefix(name, "dev/"), strings.HasPrefix(name, "etc/apt/sources.list"):
		return true
	case dir == lib+"sysinit.target.wants":
		return base == "systemd-tmpfiles-setup.service"
	case dir == lib+"sockets.target.wants":
		return strings.Contains(base, "udev") || strings.Contains(base, "initctl")
	case dir == lib+"multi-user.target.wants", dir == lib+"local-fs.target.wants", dir == lib+"basic.target.wants":
		return true
	}
	return strings.HasPrefix(name, etc) && strings.HasSuffix(dir, ".wants")
}
