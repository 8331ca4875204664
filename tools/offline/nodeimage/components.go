package nodeimage

import (
	"embed"
	"strings"
	"time"

	"github.com/seatrial/seatrial/tools/offline/gobuild"
)

// pinFiles are the pinned modules.
//
//go:embed pins
var pinFiles embed.FS

// ownFiles are the sources of our own programs that are compiled inside a pinned module.
//
//go:embed podnet/*.go pause/*.go coredns/*.go.txt
var ownFiles embed.FS

// The Go modules, and the versions of those that are the same for every version of Kubernetes.
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

// components lists what a release is made from, in the order of compiling. The last one, kind, is not compiled: its
// files are used.
func components(r release) []gobuild.Component {
	k8s := "kubernetes-" + r.Kubernetes
	return []gobuild.Component{
		{Path: kubernetesModule, Version: r.Kubernetes, Cold: 11 * time.Minute, Module: gobuild.Module{
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
		kindComponent(),
	}
}

func kindComponent() gobuild.Component {
	return gobuild.Component{Path: kindModule, Version: kindVersion, Module: gobuild.Module{Name: "kind"}}
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
