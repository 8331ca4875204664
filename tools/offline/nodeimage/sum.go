package nodeimage

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/tools/offline/store"
)

// recipe is the version of what the assembly makes of its inputs. Change it with every change of what assemble.go,
// content.go, inner.go, kindfiles.go or the layers package put into the image.
const recipe = "1"

// Repository is the name of built node images. They are never in a registry, and the name says so.
const Repository = offline.NodeImageRepository

// sum is the digest of everything the node image is made from. Nothing big is read for it.
func (b *builder) sum() (string, error) {
	var a store.Address
	a.AddString("arch", b.compiler.Arch)
	a.AddString("release", fmt.Sprintf("%+v", b.rel))
	a.AddString("root", nodeRoot().Sum(b.compiler.Arch))
	for _, c := range components(b.rel) {
		m, err := c.module()
		if err != nil {
			return "", err
		}
		a.AddString("component:"+c.Name, b.compiler.Sum(m))
	}
	for _, c := range filesOnly() {
		files, err := pinned(c.pin())
		if err != nil {
			return "", err
		}
		for name, data := range files {
			a.Add("component:"+c.Name+":"+name, data)
		}
	}
	for _, p := range b.opts.Preload {
		a.AddString("preload:"+p.Digest, "")
	}
	a.AddString("recipe", recipe)
	if err := addTree(&a, nodeFiles); err != nil {
		return "", err
	}
	return a.Sum(), nil
}

// addTree adds all files of a tree but tests.
func addTree(a *store.Address, tree fs.FS) error {
	return fs.WalkDir(tree, ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasSuffix(p, "_test.go") {
			return err
		}
		data, err := fs.ReadFile(tree, p)
		a.Add("file:"+p, data)
		return err
	})
}

// refOf is the name of the built image with that sum.
func (b *builder) refOf(sum string) string {
	return Repository + ":" + b.rel.Kubernetes + "-" + sum[:12]
}
