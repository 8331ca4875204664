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
	a := store.Inputs{
		"arch": b.compiler.Arch, "release": fmt.Sprintf("%+v", b.rel), "root": nodeRoot().Sum(b.compiler.Arch),
		"recipe": recipe,
	}
	for _, c := range components(b.rel) {
		m, err := c.Load(pinFiles, ownFiles)
		if err != nil {
			return "", err
		}
		if len(c.Packages) > 0 {
			a["component:"+c.Name] = b.compiler.Sum(m)
			continue
		}
		for name, data := range m.Files {
			a["component:"+c.Name+":"+name] = string(data)
		}
	}
	if db := b.opts.Database; db.Digest != "" {
		a["preload:"+db.Digest] = ""
	}
	err := fs.WalkDir(nodeFiles, ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := nodeFiles.ReadFile(p)
		a["file:"+p] = string(data)
		return err
	})
	return a.Sum(), err
}
