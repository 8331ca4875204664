package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/tools/offline/system"
)

// System is the host. system.System is the real one.
type System interface {
	ReadFile(path string) ([]byte, error)
	Stat(path string) (fs.FileInfo, error)
	Run(ctx context.Context, argv ...string) ([]byte, error)
	UserID() int
	DiskFree(path string) (uint64, error)
	// MountEvents opens and closes a fanotify group of mount events; nil means that the kernel has them.
	MountEvents() error
}

// Options are for the real host, where empty.
type Options struct {
	System System
	Engine func(context.Context) (offline.Engine, error) // Finds the container engine.
	RunDir string                                        // The parent of run directories.
}

// Run does all checks, causes before effects, whether or not some fail. The error is that ctx ended.
func Run(ctx context.Context, options Options) (Report, error) {
	if options.System == nil {
		options.System = system.System{}
	}
	if options.Engine == nil {
		options.Engine = offline.Tool{}.FindEngine
	}
	found, err := options.Engine(ctx)
	x := examination{System: options.System, engine: found, engineErr: err}
	var report Report
	for _, group := range []struct {
		name   string
		checks []Check
	}{
		{"host", x.host()},
		{"engine", x.engines()},
		{"kernel features", x.kernel()},
		{"disk", x.disk(options.RunDir)},
		{"memory", x.memory()},
		{"inotify limits", x.inotify()},
		{"images", []Check{x.nodeImage(ctx)}},
		{"versions", x.versions(ctx)},
	} {
		for _, check := range group.checks {
			check.Group = group.name
			report.Checks = append(report.Checks, check)
		}
	}
	report.OK = report.count(Fail) == 0
	if ended := context.Cause(ctx); ended != nil {
		return Report{}, fmt.Errorf("examine the host: %w", ended)
	}
	return report, nil
}

// examination holds the host, and the engine or why there is none.
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

// engineVersion checks that docker has what kind starts nodes with (--cgroupns, 20.10).
func (x examination) engineVersion() Check {
	check := Check{What: x.engine.Name + " version"}
	if x.engine.Name != "docker" {
		return check.is(OK, x.engine.Version, "")
	}
	check.Need = "20.10 or later"
	return check.atLeast(x.engine.Version, x.engine.Version, 20, 10, "apt-get install --only-upgrade docker.io")
}
