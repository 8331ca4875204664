package nodeimage

import (
	"fmt"
	"io"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/seatrial/seatrial/tools/offline/layers"
)

// searchPath is where programs are looked for inside the images.
const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// networkTools are what kube-proxy and the pod network run besides themselves; the plugins of iptables are named by
// no program.
func networkTools() []string {
	return []string{
		"usr/sbin/nft", "usr/sbin/conntrack", "usr/sbin/modprobe", "usr/bin/kmod", "usr/bin/ip", "usr/sbin/ip",
		"usr/sbin/xtables-nft-multi", "usr/lib/ARCH/xtables/*",
	}
}

// innerImage is an image in the node that holds one program.
type innerImage struct {
	program string // Also the last element of the image's repository.
	from    string // The component that has the program.
	path    string // Where it is in the image.
	tools   bool   // Whether it runs network tools.
}

func innerImages() []innerImage {
	const bin = "usr/local/bin/"
	return []innerImage{
		{"kube-apiserver", "kubernetes", bin + "kube-apiserver", false},
		{"kube-controller-manager", "kubernetes", bin + "kube-controller-manager", false},
		{"kube-scheduler", "kubernetes", bin + "kube-scheduler", false},
		{"kube-proxy", "kubernetes", bin + "kube-proxy", true},
		{"etcd", "etcd", bin + "etcd", false},
		{"coredns", "coredns", "coredns", false},
		{"pause", "pause", "pause", false},
		{"podnet", "podnet", bin + "podnet", true},
	}
}

// assembleInner makes the images of the node's own programs. What they share is one layer.
func assembleInner(dir string, built map[string]string, root *layers.Root, names imageNames) ([]layers.Named, error) {
	compress := func(files []layers.File) (v1.Layer, error) {
		return layers.Compress(dir, func(w io.Writer) error { return layers.Write(w, files) })
	}
	base, err := compress(baseFiles())
	if err != nil {
		return nil, err
	}
	toolFiles, err := toolFiles(root)
	if err != nil {
		return nil, err
	}
	tools, err := compress(toolFiles)
	if err != nil {
		return nil, err
	}
	var all []layers.Named
	for _, i := range innerImages() {
		program, err := compress([]layers.File{
			{Name: i.path, Mode: 0o755, Path: filepath.Join(built[i.from], i.program)},
		})
		if err != nil {
			return nil, fmt.Errorf("make image of %s: %w", i.program, err)
		}
		parts := []v1.Layer{base, program}
		if i.tools {
			parts = []v1.Layer{base, tools, program}
		}
		img, err := layers.Image(v1.Config{
			Env: []string{searchPath}, Entrypoint: []string{"/" + i.path}, WorkingDir: "/",
		}, true, parts...)
		if err != nil {
			return nil, fmt.Errorf("make image of %s: %w", i.program, err)
		}
		all = append(all, layers.Named{Name: names[i.program], Image: img})
	}
	return all, nil
}

// baseFiles are what any program may expect of a root file system.
func baseFiles() []layers.File {
	return []layers.File{
		{Name: "etc/passwd", Data: []byte("root:x:0:0::/root:/sbin/nologin\nnobody:x:65534:65534::/:/sbin/nologin\n")},
		{Name: "etc/group", Data: []byte("root:x:0:\nnogroup:x:65534:\n")},
		{Name: "etc/nsswitch.conf", Data: []byte("hosts: files dns\n")},
		{Name: "root", Dir: true, Mode: 0o700},
		{Name: "run", Dir: true},
		{Name: "tmp", Dir: true, Mode: 0o1777},
		{Name: "var/tmp", Dir: true, Mode: 0o1777},
	}
}

// toolFiles are the network tools with what they need, from the node's own root. iptables is the one that speaks to
// nftables, which the node needs anyway, by all its names.
func toolFiles(root *layers.Root) ([]layers.File, error) {
	files, err := root.Closure(withArch(networkTools())...)
	if err != nil {
		return nil, err
	}
	have := make(map[string]bool, len(files))
	for _, f := range files {
		have[f.Name] = true
	}
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, suffix := range []string{"", "-save", "-restore"} {
			if name := "usr/sbin/" + family + suffix; !have[name] {
				files = append(files, layers.File{Name: name, Link: "xtables-nft-multi"})
			}
		}
	}
	return files, nil
}
