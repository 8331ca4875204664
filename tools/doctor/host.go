package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/tools/offline/engine/ociwrap"
	"github.com/seatrial/seatrial/tools/offline/system"
)

const gib = 1 << 30

func (x examination) host() []Check {
	return []Check{x.kernelRelease(), x.user(), x.processors(), x.capabilities()}
}

func (x examination) kernelRelease() Check {
	check := Check{What: "operating system", Need: "Linux 5.10 or later"}
	release := x.line("/proc/sys/kernel/osrelease")
	if release == "" {
		check.Status, check.Found = Fail, "no Linux kernel (/proc/sys/kernel/osrelease cannot be read)"
		check.Fix = "run seatrial on a Linux machine"
		return check
	}
	check.Found = "Linux " + release
	return atLeast(check, release, 5, 10, "apt-get install --only-upgrade linux-image-amd64")
}

func (x examination) user() Check {
	check := Check{What: "user", Need: "root"}
	if id := x.UserID(); id != 0 {
		check.Status, check.Found = Warn, fmt.Sprintf("uid %d: no engine can be installed, no loop device released", id)
		check.Fix = `sudo -E env PATH="$PATH" seatrial doctor`
		return check
	}
	check.Status, check.Found = OK, "root"
	return check
}

func (x examination) processors() Check {
	check := Check{What: "processors", Need: "2 or more", Status: OK}
	text, err := x.ReadFile("/proc/cpuinfo")
	n := strings.Count("\n"+string(text), "\nprocessor")
	check.Found = strconv.Itoa(n)
	if err != nil || n < 2 {
		check.Status = Warn
		check.Fix = "give the machine 2 processors or more; with fewer, bounds may be missed"
	}
	if err != nil {
		check.Found = "nothing: " + err.Error()
	}
	return check
}

// capabilities compares the bounding set with what the kernel knows. A lack does not matter once an engine was shown to
// run privileged containers in spite of it.
func (x examination) capabilities() Check {
	check := Check{What: "capabilities", Need: "all in the bounding set, or an engine that does without"}
	last, err := strconv.Atoi(x.line("/proc/sys/kernel/cap_last_cap"))
	if err != nil {
		check.Status, check.Found = Warn, "no /proc/sys/kernel/cap_last_cap"
		check.Fix = "grep CapBnd /proc/self/status"
		return check
	}
	status, err := x.ReadFile("/proc/self/status")
	var bounding ociwrap.Set
	if err == nil {
		bounding, err = ociwrap.ParseBounding(status)
	}
	if err != nil {
		check.Status, check.Found = Warn, err.Error()
		check.Fix = "grep CapBnd /proc/self/status"
		return check
	}
	lacks := ociwrap.Known(last) &^ bounding
	switch {
	case lacks == 0:
		check.Status, check.Found = OK, "all"
	case x.engineErr == nil:
		check.Status = OK
		check.Found = "all but " + strings.Join(lacks.Names(), ", ") + ", and the engine does without"
	default:
		check.Status, check.Found = Warn, "all but "+strings.Join(lacks.Names(), ", ")
		check.Fix = offline.EnsureCommand
	}
	return check
}

// disk looks at the file systems that fill: the engine's, and the one of the run directories.
func (x examination) disk(runDir string) []Check {
	var checks []Check
	if x.engineErr == nil && x.engine.DataRoot != "" {
		checks = append(checks, x.free("free for images ("+x.engine.DataRoot+")", x.engine.DataRoot, 8*gib, 20*gib,
			x.engine.Name+" system prune"))
	}
	return append(checks, x.free("free for runs ("+runDir+")", runDir, gib, 5*gib, "seatrial clean"))
}

// free warns below good and fails below least, both in bytes.
func (x examination) free(what, path string, least, good uint64, fix string) Check {
	check := Check{What: what, Need: fmt.Sprintf("%s, better %s", size(least), size(good)), Fix: fix}
	free, err := x.DiskFree(path)
	if err != nil {
		check.Status, check.Found = Warn, "no answer: "+err.Error()
		return check
	}
	check.Found = size(free)
	check.Status = grade(free, least, good)
	if check.Status == OK {
		check.Fix = ""
	}
	return check
}

func (x examination) memory() []Check {
	const least, good = 3 * gib, 6 * gib
	check := Check{What: "available memory", Need: size(least) + ", better " + size(good)}
	check.Fix = "stop other programs, or give the machine more memory"
	text, err := x.ReadFile("/proc/meminfo")
	if err != nil {
		check.Status, check.Found = Warn, "no answer: "+err.Error()
		return []Check{check}
	}
	for line := range strings.Lines(string(text)) {
		value, ok := strings.CutPrefix(line, "MemAvailable:")
		if !ok {
			continue
		}
		kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			break
		}
		check.Found, check.Status = size(kib<<10), grade(kib<<10, least, good)
		if check.Status == OK {
			check.Fix = ""
		}
		return []Check{check}
	}
	check.Status, check.Found = Warn, "no MemAvailable in /proc/meminfo"
	return []Check{check}
}

// inotify warns only: how many watches a cluster takes depends on what runs beside it, and pods that find none say so.
func (x examination) inotify() []Check {
	var checks []Check
	for _, floor := range system.InotifyFloors() {
		name := strings.ReplaceAll(strings.TrimPrefix(floor.Path, "/proc/sys/"), "/", ".")
		check := Check{What: name, Need: strconv.Itoa(floor.Need), Found: x.line(floor.Path), Status: OK}
		value, err := strconv.Atoi(check.Found)
		if err != nil || value < floor.Need {
			check.Status, check.Fix = Warn, fmt.Sprintf("sysctl -w %s=%d", name, floor.Need)
		}
		if check.Found == "" {
			check.Found = "nothing"
		}
		checks = append(checks, check)
	}
	return checks
}

func (x examination) images(ctx context.Context, images []Image) []Check {
	var checks []Check
	for _, image := range images {
		check := Check{What: image.Ref, Need: "present, or a trial pulls or builds it first", Fix: image.Fix}
		if check.Fix == "" {
			check.Fix = "make trial"
		}
		if x.engineErr != nil {
			check.Status, check.Found = Warn, "no engine to look in"
			checks = append(checks, check)
			continue
		}
		list, err := x.Run(ctx, x.engine.Path, "images", "--format", "{{.Repository}}:{{.Tag}}", image.Ref)
		if found := strings.Fields(string(list)); err == nil && len(found) > 0 {
			check.Status, check.Found, check.Fix = OK, strings.Join(found, ", "), ""
		} else {
			check.Status, check.Found = Warn, "none in "+x.engine.Name
		}
		checks = append(checks, check)
	}
	return checks
}

// versions looks at the programs that the images are built with where they cannot be pulled.
func (x examination) versions(ctx context.Context) []Check {
	compiler := Check{What: "go", Need: "1.26 or later, to build"}
	text, err := x.Run(ctx, "go", "env", "GOVERSION")
	if err != nil {
		compiler.Status, compiler.Found, compiler.Fix = Warn, "nothing", "install Go and have it in PATH"
	} else {
		compiler.Found = strings.TrimSpace(string(text))
		compiler = atLeast(compiler, strings.TrimPrefix(compiler.Found, "go"), 1, 26, "install a newer Go")
		if compiler.Status == Fail {
			compiler.Status = Warn
		}
	}
	checks := []Check{compiler}
	for _, tool := range []struct{ name, need string }{
		{"gcc", "any, to build runc"}, {"git", "any, to note the commit of a run"}, {"make", "any, for the Makefile"},
	} {
		check := Check{What: tool.name, Need: tool.need, Status: OK}
		text, err := x.Run(ctx, tool.name, "--version")
		check.Found, _, _ = strings.Cut(string(text), "\n")
		if err != nil {
			check.Status, check.Found, check.Fix = Warn, "nothing", "apt-get install "+tool.name
		}
		checks = append(checks, check)
	}
	return checks
}

// line returns a file's only line, empty when it cannot be read.
func (x examination) line(path string) string {
	text, err := x.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func grade(found, least, good uint64) Status {
	switch {
	case found < least:
		return Fail
	case found < good:
		return Warn
	}
	return OK
}

func size(bytes uint64) string {
	return fmt.Sprintf("%.1f GiB", float64(bytes)/gib)
}
