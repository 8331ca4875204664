package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/tools/offline/system"
)

// System is what the doctor looks at. system.System is the real one.
type System interface {
	ReadFile(path string) ([]byte, error)
	Stat(path string) (fs.FileInfo, error)
	Run(ctx context.Context, argv ...string) ([]byte, error)
	UserID() int
	DiskFree(path string) (uint64, error)
	// MountEvents asks the kernel for a fanotify group of mount events, and gives it back; nil when it has them.
	MountEvents() error
}

// Image is an image the trial wants in the engine.
type Image struct {
	Ref string // With a tag, or without one for any.
	Fix string // The command that brings it; empty when a trial brings it by itself.
}

// Options says what to look for. The zero value is good: the real host, no images.
type Options struct {
	System System
	// Engine finds the container engine; the real one when nil.
	Engine func(context.Context) (offline.Engine, error)
	Images []Image
	// RunDir is where run directories will be; "." when empty.
	RunDir string
}

// Run looks at everything, in an order that puts causes before what they cause. It does not end at a failure. An error
// is a check that could not be finished because ctx ended.
func Run(ctx context.Context, options Options) (Report, error) {
	if options.System == nil {
		options.System = system.System{}
	}
	if options.Engine == nil {
		options.Engine = offline.Tool{}.FindEngine
	}
	if options.RunDir == "" {
		options.RunDir = "."
	}
	found, err := options.Engine(ctx)
	if ended := context.Cause(ctx); ended != nil {
		return Report{}, fmt.Errorf("examine the host: %w", ended)
	}
	sick := examination{System: options.System, engine: found, engineErr: err}
	var report Report
	for _, group := range []struct {
		name   string
		checks []Check
	}{
		{"host", sick.host()},
		{"engine", sick.engines()},
		{"kernel features", sick.kernel()},
		{"disk", sick.disk(options.RunDir)},
		{"memory", sick.memory()},
		{"inotify limits", sick.inotify()},
		{"images", sick.images(ctx, options.Images)},
		{"versions", sick.versions(ctx)},
	} {
		for _, check := range group.checks {
			check.Group = group.name
			report.Checks = append(report.Checks, check)
		}
	}
	if ended := context.Cause(ctx); ended != nil {
		return Report{}, fmt.Errorf("examine the host: %w", ended)
	}
	return report, nil
}

// examination is one visit: the host, and the engine that was found or why there is none.
type examination struct {
	System
	engine    offline.Engine
	engineErr error
}

func (x examination) engines() []Check {
	check := Check{What: "container engine", Need: offline.EngineNeed}
	var missing *offline.NotFoundError
	switch {
	case errors.As(x.engineErr, &missing):
		return []Check{check.is(Fail, missing.Found, missing.Fix)}
	case x.engineErr != nil:
		return []Check{check.is(Fail, x.engineErr.Error(), offline.EnsureCommand)}
	}
	rootless := Check{What: "rootless", Need: "no"}.is(OK, "no", "")
	if x.engine.Rootless {
		rootless = rootless.is(Warn, "yes: loop devices and mounts on the host are out of reach",
			"sudo docker info, and run seatrial as root")
	}
	return []Check{
		check.is(OK, x.engine.String()+", a privileged container ran", ""), rootless, x.engineVersion(),
	}
}

// engineVersion knows from which version on docker has what kind's nodes are started with (--cgroupns, 20.10).
func (x examination) engineVersion() Check {
	check := Check{What: x.engine.Name + " version"}
	if x.engine.Name != "docker" {
		return check.is(OK, x.engine.Version, "")
	}
	check.Need = "20.10 or later"
	return check.atLeast(x.engine.Version, x.engine.Version, 20, 10, "apt-get install --only-upgrade docker.io")
}
