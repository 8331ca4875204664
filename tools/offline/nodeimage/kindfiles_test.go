package nodeimage

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/tools/offline/layers"
)

// sampleImages is what kubeadm of v1.37.0 lists, from another registry.
const sampleImages = `registry.invalid/kube-apiserver:v1.37.0
registry.invalid/kube-controller-manager:v1.37.0
registry.invalid/kube-scheduler:v1.37.0
registry.invalid/kube-proxy:v1.37.0
registry.invalid/coredns/coredns:v1.14.6
registry.invalid/pause:3.10.2
registry.invalid/etcd:3.7.0-0
`

func TestParseImages(t *testing.T) {
	r, err := releaseOf("v1.37.0")
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseImages(sampleImages, r, "localhost/podnet:1")
	if err != nil {
		t.Fatal(err)
	}
	want := imageNames{
		"kube-apiserver":          "registry.invalid/kube-apiserver:v1.37.0",
		"kube-controller-manager": "registry.invalid/kube-controller-manager:v1.37.0",
		"kube-scheduler":          "registry.invalid/kube-scheduler:v1.37.0",
		"kube-proxy":              "registry.invalid/kube-proxy:v1.37.0",
		"coredns":                 "registry.invalid/coredns/coredns:v1.14.6",
		"etcd":                    "registry.invalid/etcd:3.7.0-0",
		"pause":                   "registry.invalid/pause:3.10.2",
		"podnet":                  "localhost/podnet:1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	for name, list := range map[string]string{
		"wants etcd 3.9.0-0": strings.Replace(sampleImages, "3.7.0-0", "3.9.0-0", 1),
		"no pause":           strings.Replace(sampleImages, "registry.invalid/pause:3.10.2\n", "", 1),
		"is not one that":    sampleImages + "registry.invalid/new-thing:v1\n",
	} {
		if _, err := parseImages(list, r, ""); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v does not say %q", err, name)
		}
	}
	for _, i := range innerImages() {
		delete(got, i.program)
	}
	if len(got) > 0 {
		t.Errorf("no image is made for %v", got)
	}
}

func kindFiles(t *testing.T) map[string]layers.File {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", kindModule).Output()
	if err != nil {
		t.Fatal(err)
	}
	r, err := releaseOf(offline.DefaultKubernetesVersion)
	if err != nil {
		t.Fatal(err)
	}
	names := imageNames{"pause": "registry.invalid/pause:3.10.2", "podnet": "localhost/podnet:1"}
	files, err := kindLayer(strings.TrimSpace(string(out)), r, names, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]layers.File)
	for _, f := range files {
		if _, ok := all[f.Name]; ok {
			t.Errorf("%s is there twice", f.Name)
		}
		all[f.Name] = f
	}
	return all
}

func TestKindLayer(t *testing.T) {
	files := kindFiles(t)
	for _, name := range []string{
		"usr/local/bin/entrypoint", "kind/bin/mount-product-files.sh", "usr/local/bin/crictl",
	} {
		if f := files[name]; f.Mode != 0o755 || len(f.Data) == 0 {
			t.Errorf("%s has mode %o and %d bytes, want a program", name, f.Mode, len(f.Data))
		}
	}
	if f := files["etc/systemd/system/kubelet.service"]; f.Mode != 0o644 {
		t.Errorf("kubelet.service has mode %o, want 644", f.Mode)
	}
	if got := string(files["kind/version"].Data); got != offline.DefaultKubernetesVersion {
		t.Errorf("version = %q", got)
	}
	for name, want := range map[string]string{
		"etc/systemd/system/multi-user.target.wants/kubelet.service":    "/etc/systemd/system/kubelet.service",
		"etc/systemd/system/multi-user.target.wants/containerd.service": "/etc/systemd/system/containerd.service",
		"etc/systemd/system/systemd-binfmt.service":                     "/dev/null",
		"usr/sbin/init": "/usr/lib/systemd/systemd",
	} {
		if got := files[name].Link; got != want {
			t.Errorf("%s leads to %q, want %q", name, got, want)
		}
	}
	config := string(files["etc/containerd/config.toml"].Data)
	for _, want := range []string{
		`sandbox_image = "registry.invalid/pause:3.10.2"`, "restrict_oom_score_adj = true",
		`stats_collect_period = "1m"`,
	} {
		if strings.Count(config, want) != 1 {
			t.Errorf("containerd's configuration has %q %d times, want once", want, strings.Count(config, want))
		}
	}
	cni := string(files["kind/manifests/default-cni.yaml"].Data)
	if !strings.Contains(cni, "image: localhost/podnet:1\n") || strings.Contains(cni, "PODNET_IMAGE") {
		t.Error("the pod network's manifest does not name its image")
	}
	if !strings.Contains(cni, "would you kindly patch this file") {
		t.Error("the pod network's manifest does not ask kind for the control plane's address")
	}
	if strings.Contains(string(files["kind/manifests/default-storage.yaml"].Data), "is-default-class") {
		t.Error("the inert storage class must not be the default")
	}
}

func TestContainerdConfigRefusesSurprises(t *testing.T) {
	for _, config := range []string{"", "sandbox_image = \"a\"\n", "sandbox_image = 1\nsandbox_image = 2\n"} {
		if _, err := containerdConfig([]byte(config), "p"); err == nil {
			t.Errorf("configuration %q gives no error", config)
		}
	}
}

func TestCRIBase(t *testing.T) {
	got, err := criBase([]byte(`{"process":{"cwd":"/","rlimits":[{"type":"RLIMIT_NOFILE"}]},"root":{"path":"r"}}`))
	if err != nil {
		t.Fatal(err)
	}
	var doc, want any
	if err := json.Unmarshal(got, &doc); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(`{"process":{"cwd":"/"},"root":{"path":"r"},
		"hooks":{"createContainer":[{"path":"/kind/bin/mount-product-files.sh"}]}}`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, doc); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, bad := range []string{"", "{}", "[]"} {
		if _, err := criBase([]byte(bad)); err == nil {
			t.Errorf("specification %q gives no error", bad)
		}
	}
}

func TestDropFromRoot(t *testing.T) {
	const lib, etc = "usr/lib/systemd/system", "etc/systemd/system"
	for name, want := range map[string]bool{
		"dev/null": true, "dev": false, "etc/apt/sources.list": true, "etc/apt/sources.list.d/x.list": true,
		"usr/bin/bash": false, filepath.Join(lib, "multi-user.target.wants"): false,
		filepath.Join(lib, "multi-user.target.wants/dbus.service"):                  true,
		filepath.Join(lib, "sysinit.target.wants/systemd-tmpfiles-setup.service"):   true,
		filepath.Join(lib, "sysinit.target.wants/systemd-sysctl.service"):           false,
		filepath.Join(lib, "sockets.target.wants/systemd-udevd-control.socket"):     true,
		filepath.Join(lib, "sockets.target.wants/dbus.socket"):                      false,
		filepath.Join(etc, "timers.target.wants/apt-daily.timer"):                   true,
		filepath.Join(etc, "kubelet.service"):                                       false,
		filepath.Join(lib, "graphical.target.wants/systemd-update-utmp-x.service"):  false,
		filepath.Join(lib, "local-fs.target.wants/systemd-remount-fs.service.fake"): true,
	} {
		if got := dropFromRoot(name); got != want {
			t.Errorf("dropFromRoot(%q) = %v, want %v", name, got, want)
		}
	}
}
