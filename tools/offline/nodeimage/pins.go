package nodeimage

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/tools/offline/gobuild"
)

// Pin writes the pinned modules of a Kubernetes version below pinsDir, as gobuild.WritePin does it. Pins that are there
// already are left alone.
func Pin(ctx context.Context, version, pinsDir string) error {
	r, err := releaseOf(version)
	if err != nil {
		return err
	}
	all := append(components(r), filesOnly()...)
	for _, c := range all {
		if c.Pin != "" && c.Path == "" {
			continue // It is compiled in another component's pinned module.
		}
		m, err := pinModule(c, guests(all, c))
		if err != nil {
			return err
		}
		if err := gobuild.WritePin(ctx, m, filepath.Join(pinsDir, c.pin())); err != nil {
			return err
		}
	}
	return nil
}

// guests are the components that are compiled in the pinned module of c, c among them.
func guests(all []Component, c Component) []Component {
	return slices.DeleteFunc(slices.Clone(all), func(g Component) bool { return g.pin() != c.pin() })
}

// pinModule says what is pinned for a component: with our own sources, so that nothing they need is dropped.
func pinModule(c Component, guests []Component) (gobuild.Pin, error) {
	m := gobuild.Pin{
		Name: c.Name, Path: c.Path, Version: c.Version, Packages: c.Packages, Sources: make(map[string][]byte),
	}
	for _, guest := range guests {
		for _, pkg := range guest.Packages {
			if own, ok := strings.CutPrefix(pkg, "./"); ok {
				if err := addOwn(m.Sources, own); err != nil {
					return gobuild.Pin{}, err
				}
			}
		}
	}
	return m, nil
}
