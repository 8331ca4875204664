package nodeimage

import (
	"fmt"
	"io/fs"

	"github.com/seatrial/seatrial/tools/offline/store"
)

// recipe is the version of what is made of the inputs. Raise it with every change of what assemble.go, content.go,
// inner.go, kindfiles.go or the layers package put into the image.
const recipe = "1"

// sum returns the digest of all inputs of the node image. It reads nothing big.
func (b *builder) sum() (string, error) {
	var a store.Address
	a.AddString("arch", b.compiler.Arch)
	a.AddString("release", fmt.Sprintf("%+v", b.rel))
	a.AddString("root", nodeRoot().Sum(b.compiler.Arch))
	for _, c := range components(b.rel) {
		m, err := c.Load(pinFiles, ownFiles)
		if err != nil {
			return "", err
		}
		if len(c.Packages) > 0 {
			a.AddString("component:"+c.Name, b.compiler.Sum(m))
			continue
		}
		for name, data := range m.Files {
			a.Add("component:"+c.Name+":"+name, data)
		}
	}
	if db := b.opts.Database; db.Digest != "" {
		a.AddString("preload:"+db.Digest, "")
	}
	a.AddString("recipe", recipe)
	err := fs.WalkDir(nodeFiles, ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := nodeFiles.ReadFile(p)
		a.Add("file:"+p, data)
		return err
	})
	return a.Sum(), err
}
