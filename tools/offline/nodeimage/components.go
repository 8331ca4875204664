package nodeimage

import (
	"embed"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/seatrial/seatrial/tools/offline/gobuild"
)

// pinFiles are the pinned modules. A directory with a go.mod cannot be embedded, so every file carries ".txt".
//
//go:embed pins
var pinFiles embed.FS

// ownFiles are the sources of our own programs that are compiled inside a pinned module.
//
//go:embed podnet/*.go pause/*.go coredns/*.go.txt
var ownFiles embed.FS

// Component is one line of the list of what the image is compiled from: what the compiler needs to know, without files.
type Component struct {
	gobuild.Module
	// Path and Version are the Go module that the component is; Pin is the pinned module it is compiled in, which is
	// the component's own unless it shares another's.
	Path, Version, Pin string
	// Cold is about how long it takes on two cores with empty caches.
	Cold time.Duration
}

// The modules that have one version whatever Kubernetes is.
const (
	containerdModule = "github.com/containerd/containerd/v2"
	runcModule       = "github.com/opencontainers/runc"
	pluginsModule    = "github.com/containernetworking/plugins"
	kubernetesModule = "k8s.io/kubernetes"
	etcdModule       = "go.etcd.io/etcd/server/v3"
	corednsModule    = "github.com/coredns/coredns"
	kindModule       = "sigs.k8s.io/kind"

	containerdVersion = "v2.3.4"
	runcVersion       = "v1.4.3"
	pluginsVersion    = "v1.9.1"
	kindVersion       = "v0.33.0"
)

// components is the list of what is compiled for a release, in the order of compiling: one line each.
func components(r release) []Component {
	k8s := pinName("kubernetes", r.Kubernetes)
	return []Component{
		{Path: kubernetesModule, Version: r.Kubernetes, Pin: k8s, Cold: 11 * time.Minute, Module: gobuild.Module{
			Name: "kubernetes", Variables: kubernetesVersion(r.Kubernetes),
			Packages: under("k8s.io/kubernetes/cmd/", "kube-apiserver", "kube-controller-manager", "kube-proxy",
				"kube-scheduler", "kubeadm", "kubectl", "kubelet"),
		}},
		{Pin: k8s, Cold: 15 * time.Second, Module: gobuild.Module{Name: "podnet", Packages: []string{"./podnet"}}},
		{Pin: k8s, Cold: 5 * time.Second, Module: gobuild.Module{Name: "pause", Packages: []string{"./pause"}}},
		{Path: containerdModule, Version: containerdVersion, Cold: 90 * time.Second, Module: gobuild.Module{
			Name: "containerd", Tags: []string{"no_aufs", "no_btrfs", "no_devmapper", "no_zfs"},
			Packages:  under(containerdModule+"/cmd/", "containerd", "containerd-shim-runc-v2", "ctr"),
			Variables: map[string]string{containerdModule + "/version.Version": containerdVersion},
		}},
		{Path: runcModule, Version: runcVersion, Cold: 20 * time.Second, Module: gobuild.Module{
			Name: "runc", Packages: []string{runcModule}, Cgo: true, Tags: []string{"netgo", "osusergo", "seccomp"},
		}},
		{Path: pluginsModule, Version: pluginsVersion, Cold: 15 * time.Second, Module: gobuild.Module{
			Name:      "cni-plugins",
			Packages:  under(pluginsModule+"/plugins/", "ipam/host-local", "main/loopback", "main/ptp", "meta/portmap"),
			Variables: map[string]string{pluginsModule + "/pkg/utils/buildversion.BuildVersion": pluginsVersion},
		}},
		{Path: etcdModule, Version: r.Etcd, Cold: 75 * time.Second, Module: gobuild.Module{
			Name: "etcd", Packages: []string{etcdModule}, Binary: "etcd",
		}},
		{Path: corednsModule, Version: r.CoreDNS, Cold: 90 * time.Second, Module: gobuild.Module{
			Name: "coredns", Packages: []string{"./coredns"},
		}},
	}
}

// filesOnly are the modules of which files are taken and nothing is compiled.
func filesOnly() []Component {
	return []Component{{Path: kindModule, Version: kindVersion, Module: gobuild.Module{Name: "kind"}}}
}

func under(prefix string, names ...string) []string {
	paths := make([]string, 0, len(names))
	for _, name := range names {
		paths = append(paths, prefix+name)
	}
	return paths
}

// kubernetesVersion sets the version that every Kubernetes program reports; kubeadm refuses to work without it.
func kubernetesVersion(version string) map[string]string {
	number := strings.Split(strings.TrimPrefix(version, "v"), ".")
	vars := make(map[string]string)
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		vars[pkg+".gitVersion"] = version
		vars[pkg+".gitMajor"] = number[0]
		vars[pkg+".gitMinor"] = number[1]
		vars[pkg+".gitTreeState"] = "archive"
	}
	return vars
}

// pinName is the directory of a pinned module below pins.
func pinName(name, version string) string { return name + "-" + version }

// pin returns the name of the pinned module that the component is compiled in.
func (c Component) pin() string {
	if c.Pin != "" {
		return c.Pin
	}
	return pinName(c.Name, c.Version)
}

// module returns what the compiler needs to know of the component.
func (c Component) module() (gobuild.Module, error) {
	files, err := pinned(c.pin())
	if err != nil {
		return gobuild.Module{}, fmt.Errorf("read pins of component %s: %w", c.Name, err)
	}
	for _, pkg := range c.Packages {
		dir, own := strings.CutPrefix(pkg, "./")
		if !own {
			continue
		}
		if err := addOwn(files, dir); err != nil {
			return gobuild.Module{}, fmt.Errorf("read sources of component %s: %w", c.Name, err)
		}
	}
	c.Files = files
	return c.Module, nil
}

// pinned returns the files of a pinned module under their real names.
func pinned(name string) (map[string][]byte, error) {
	return gobuild.PinFiles(pinFiles, path.Join("pins", name))
}

// addOwn adds our own sources in that directory, without the tests.
func addOwn(files map[string][]byte, dir string) error {
	entries, err := ownFiles.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		data, err := ownFiles.ReadFile(path.Join(dir, entry.Name()))
		if err != nil {
			return err
		}
		files[path.Join(dir, strings.TrimSuffix(entry.Name(), ".txt"))] = data
	}
	return nil
}
