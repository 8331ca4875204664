package sidecars

import (
	"context"
	"embed"
	"fmt"
	"path"
	"path/filepath"
	"time"

	"github.com/seatrial/seatrial/tools/offline/gobuild"
	"github.com/seatrial/seatrial/tools/offline/gopin"
)

//go:embed pins
var pinFiles embed.FS

// sidecar is a program of kubernetes-csi that is compiled from its Go module.
type sidecar struct {
	name, path, version string
	program             string // Below cmd/.
	// cold is about how long it takes on two idle cores with empty caches.
	cold time.Duration
}

func attacher() sidecar {
	return sidecar{
		name: "external-attacher", path: "github.com/kubernetes-csi/external-attacher/v4", version: "v4.13.0",
		program: "csi-attacher", cold: 4 * time.Minute,
	}
}

func provisioner() sidecar {
	return sidecar{
		name: "external-provisioner", path: "github.com/kubernetes-csi/external-provisioner/v6", version: "v6.3.0",
		program: "csi-provisioner", cold: 3 * time.Minute,
	}
}

func resizer() sidecar {
	return sidecar{
		name: "external-resizer", path: "github.com/kubernetes-csi/external-resizer/v2", version: "v2.3.0",
		program: "csi-resizer", cold: 3 * time.Minute,
	}
}

func all() []sidecar { return []sidecar{attacher(), provisioner(), resizer()} }

func (s sidecar) title() string      { return s.name + " " + s.version }
func (s sidecar) pin() string        { return s.name + "-" + s.version }
func (s sidecar) packages() []string { return []string{s.path + "/cmd/" + s.program} }

// module is what the compiler needs to know.
func (s sidecar) module() (gobuild.Module, error) {
	files, err := gopin.Files(pinFiles, path.Join("pins", s.pin()))
	if err != nil {
		return gobuild.Module{}, fmt.Errorf("read pins of %s: %w", s.title(), err)
	}
	return gobuild.Module{
		Name: s.name, Files: files, Packages: s.packages(), Variables: map[string]string{"main.version": s.version},
	}, nil
}

// Pin writes the pinned modules of the sidecars below pinsDir, as gopin.Write does it: it is called when a version in
// this package is changed.
func Pin(ctx context.Context, pinsDir string) error {
	for _, s := range all() {
		m := gopin.Module{Name: s.name, Path: s.path, Version: s.version, Packages: s.packages()}
		if err := gopin.Write(ctx, m, filepath.Join(pinsDir, s.pin())); err != nil {
			return err
		}
	}
	return nil
}
