package doctor

import (
	"cmp"
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
		return check.is(Fail, "no Linux kernel (/proc/sys/kernel/osrelease cannot be read)",
			"run seatrial on a Linux machine")
	}
	return check.atLeast("Linux "+release, release, 5, 10, "apt-get install --only-upgrade linux-image-amd64")
}

func (x examination) user() Check {
	check := Check{What: "user", Need: "root"}
	if id := x.UserID(); id != 0 {
		return check.is(Warn, fmt.Sprintf("uid %d: no engine can be installed, no loop device released", id),
			`sudo -E env PATH="$PATH" seatrial doctor`)
	}
	return check.is(OK, "root", "")
}

func (x examination) processors() Check {
	const fix = "give the machine 2 processors or more; with fewer, bounds may be missed"
	check := Check{What: "processors", Need: "2 or more"}
	text, err := x.ReadFile("/proc/cpuinfo")
	if err != nil {
		return check.is(Warn, "nothing: "+err.Error(), fix)
	}
	n := strings.Count("\n"+string(text), "\nprocessor")
	return check.is(grade(uint64(n), 0, 2), strconv.Itoa(n), fix)
}

// capabilities compares the bounding set with the kernel's capabilities. Lacking some does not matter if an engine ran
// a privileged container.
func (x examination) capabilities() Check {
	check := Check{What: "capabilities", Need: "all in the bounding set, or an engine that does without"}
	lacks, err := ociwrap.Lacking(x.ReadFile, "self")
	found := "all but " + strings.Join(lacks.Names(), ", ")
	switch {
	case err != nil:
		return check.is(Warn, "nothing: "+err.Error(), "grep CapBnd /proc/self/status")
	case lacks == 0:
		return check.is(OK, "all", "")
	case x.engineErr == nil:
		return check.is(OK, found+", and the engine does without", "")
	}
	return check.is(Warn, found, offline.EnsureCommand)
}

// disk checks the file systems that fill: that of the engine, and that of the run directories.
func (x examination) disk(runDir string) []Check {
	var checks []Check
	if x.engineErr == nil && x.engine.DataRoot != "" {
		checks = append(checks, x.free("free for images ("+x.engine.DataRoot+")", x.engine.DataRoot, 8*gib, 20*gib,
			x.engine.Name+" system prune"))
	}
	return append(checks, x.free("free for runs ("+runDir+")", runDir, gib, 5*gib,
		"du -sh "+runDir+"/*/*, and delete old run directories"))
}

// free warns below good bytes and fails below least.
func (x examination) free(what, path string, least, good uint64, fix string) Check {
	check := Check{What: what, Need: fmt.Sprintf("%s, better %s", size(least), size(good))}
	free, err := x.DiskFree(path)
	if err != nil {
		return check.is(Warn, "no answer: "+err.Error(), "df -h "+path+", on the host where it is")
	}
	return check.is(grade(free, least, good), size(free), fix)
}

func (x examination) memory() []Check {
	const (
		least, good = 3 * gib, 6 * gib
		fix         = "stop other programs, or give the machine more memory"
	)
	check := Check{What: "available memory", Need: size(least) + ", better " + size(good)}
	text, err := x.ReadFile("/proc/meminfo")
	if err != nil {
		return []Check{check.is(Warn, "no answer: "+err.Error(), fix)}
	}
	for line := range strings.Lines(string(text)) {
		var kib uint64
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); n == 1 {
			return []Check{check.is(grade(kib<<10, least, good), size(kib<<10), fix)}
		}
	}
	return []Check{check.is(Warn, "no MemAvailable in /proc/meminfo", fix)}
}

// inotify only warns: how many watches a cluster needs depends on what runs beside it, and pods that get none log it.
func (x examination) inotify() []Check {
	var checks []Check
	for _, floor := range system.InotifyFloors() {
		name := strings.ReplaceAll(strings.TrimPrefix(floor.Path, "/proc/sys/"), "/", ".")
		check := Check{What: name, Need: strconv.Itoa(floor.Need)}
		found, status := x.line(floor.Path), OK
		if value, err := strconv.Atoi(found); err != nil || value < floor.Need {
			status = Warn
		}
		checks = append(checks, check.is(status, cmp.Or(found, "nothing"),
			fmt.Sprintf("sysctl -w %s=%d", name, floor.Need)))
	}
	return checks
}

// nodeImage looks for a node image that was built here.
func (x examination) nodeImage(ctx context.Context) Check {
	const image = offline.NodeImageRepository
	check := Check{What: image, Need: "present, or a trial pulls or builds it first"}
	if x.engineErr != nil {
		return check.is(Warn, "no engine to look in", offline.EnsureCommand)
	}
	list, err := x.Run(ctx, x.engine.Path, "images", "--format", "{{.Repository}}:{{.Tag}}", image)
	if found := strings.Fields(string(list)); err == nil && len(found) > 0 {
		return check.is(OK, strings.Join(found, ", "), "")
	}
	return check.is(Warn, "none in "+x.engine.Name, offline.EnsureCommand)
}

// versions checks the programs for building images that cannot be pulled.
func (x examination) versions(ctx context.Context) []Check {
	compiler := Check{What: "go", Need: "1.26 or later, where images must be built"}
	text, err := x.Run(ctx, "go", "env", "GOVERSION")
	if err != nil {
		compiler = compiler.is(Warn, "nothing", "install Go and have it in PATH")
	} else {
		found := strings.TrimSpace(string(text))
		compiler = compiler.atLeast(found, strings.TrimPrefix(found, "go"), 1, 26, "install a newer Go")
		if compiler.Status == Fail {
			compiler.Status = Warn
		}
	}
	checks := []Check{compiler}
	for _, tool := range []struct{ name, need string }{
		{"gcc", "any, to build runc"}, {"git", "any, to note the commit of a run"}, {"make", "any, in the source tree"},
	} {
		check := Check{What: tool.name, Need: tool.need}
		if text, err := x.Run(ctx, tool.name, "--version"); err != nil {
			check = check.is(Warn, "nothing", "apt-get install "+tool.name)
		} else {
			first, _, _ := strings.Cut(string(text), "\n")
			check = check.is(OK, first, "")
		}
		checks = append(checks, check)
	}
	return checks
}

// line returns a file's only line, "" if it cannot be read.
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
