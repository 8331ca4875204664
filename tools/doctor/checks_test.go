package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/clusters/offline"
)

// illness makes one thing wrong on a healthy host.
type illness struct {
	change func(*patient)
	engine func(context.Context) (offline.Engine, error) // A good one when nil.
	want   Status
	found  string // What the finding must hold.
}

// examine runs the doctor on every illness and looks at the checks whose name begins with what.
func examine(t *testing.T, what string, illnesses map[string]illness) {
	t.Helper()
	for name, illness := range illnesses {
		t.Run(what+" "+name, func(t *testing.T) {
			sick := healthy(t)
			if illness.change != nil {
				illness.change(&sick)
			}
			options := Options{System: sick, Engine: illness.engine, RunDir: "."}
			if options.Engine == nil {
				options.Engine = goodEngine
			}
			report, err := Run(t.Context(), options)
			if err != nil {
				t.Fatal(err)
			}
			seen := 0
			for _, check := range report.Checks {
				if !strings.HasPrefix(check.What, what) {
					continue
				}
				seen++
				if check.Status != illness.want || !strings.Contains(check.Found, illness.found) {
					t.Errorf("%+v, want %s and %q found", check, illness.want, illness.found)
				}
				if (check.Status == OK) != (check.Fix == "") {
					t.Errorf("%+v: a fix belongs to what is not ok, and only to that", check)
				}
			}
			if seen != 1 {
				t.Errorf("%d checks named %q, want 1", seen, what)
			}
		})
	}
}

func set(path, text string) func(*patient) { return func(p *patient) { p.files[path] = text } }
func gone(path string) func(*patient)      { return func(p *patient) { delete(p.files, path) } }

// without takes an option out of the kernel's configuration.
func without(t *testing.T, option string) func(*patient) {
	t.Helper()
	return set("/proc/config.gz", gzipped(t, strings.ReplaceAll(goodConfig, option+"=", "# "+option+"=")))
}

func both(first, second func(*patient)) func(*patient) {
	return func(p *patient) { first(p); second(p) }
}

func versioned(name, version string) func(context.Context) (offline.Engine, error) {
	return func(context.Context) (offline.Engine, error) {
		return offline.Engine{Name: name, Path: "/bin/" + name, Version: version}, nil
	}
}

func TestHostChecks(t *testing.T) {
	const release = "/proc/sys/kernel/osrelease"
	short := set("/proc/self/status", "CapBnd:\t000001fffeffffff\n")
	examine(t, "operating system", map[string]illness{
		"old":    {change: set(release, "5.9.16"), want: Fail, found: "5.9.16"},
		"ten":    {change: set(release, "10.0-rc1"), want: OK},
		"odd":    {change: set(release, "next"), want: Warn},
		"absent": {change: gone(release), want: Fail, found: "no Linux"},
	})
	examine(t, "user", map[string]illness{
		"not root": {change: func(p *patient) { p.uid = 7 }, want: Warn, found: "uid 7"},
	})
	examine(t, "processors", map[string]illness{
		"one": {change: set("/proc/cpuinfo", "processor\t: 0\n"), want: Warn, found: "1"},
	})
	examine(t, "capabilities", map[string]illness{
		"lacking, engine works": {change: short, want: OK, found: "CAP_SYS_RESOURCE"},
		"lacking, no engine":    {change: short, engine: noEngine, want: Warn, found: "CAP_SYS_RESOURCE"},
		"unknown":               {change: set("/proc/self/status", "Name:\tx\n"), want: Warn, found: "no CapBnd"},
	})
}

func TestEngineChecks(t *testing.T) {
	examine(t, "container engine", map[string]illness{
		"none": {engine: noEngine, want: Fail, found: "cannot connect"},
		"other trouble": {engine: func(context.Context) (offline.Engine, error) {
			return offline.Engine{}, errors.New("read the host's state: no")
		}, want: Fail, found: "state"},
	})
	examine(t, "docker version", map[string]illness{
		"old": {engine: versioned("docker", "19.03.15"), want: Fail, found: "19.03.15"},
		"odd": {engine: versioned("docker", "dev"), want: Warn, found: "dev"},
	})
	examine(t, "podman version", map[string]illness{"any": {engine: versioned("podman", "4.3.1"), want: OK}})
	examine(t, "rootless", map[string]illness{
		"yes": {engine: func(context.Context) (offline.Engine, error) {
			return offline.Engine{Name: "podman", Version: "5", Rootless: true}, nil
		}, want: Warn, found: "yes"},
	})
	examine(t, "localhost/seatrial/node", map[string]illness{
		"absent":    {change: func(p *patient) { p.commands = nil }, want: Warn, found: "none in docker"},
		"no engine": {engine: noEngine, want: Warn, found: "no engine"},
	})
}

func TestKernelChecks(t *testing.T) {
	unloaded := set("/proc/filesystems", "\text4\n")
	examine(t, "overlay", map[string]illness{
		"not built": {change: both(unloaded, without(t, "CONFIG_OVERLAY_FS")), want: Fail, found: "without it"},
		"to load":   {change: unloaded, want: OK, found: "module"},
		"no config": {change: both(unloaded, gone("/proc/config.gz")), want: Warn, found: "no kernel configuration"},
	})
	examine(t, "xfs", map[string]illness{
		"not built": {change: without(t, "CONFIG_XFS_FS"), want: Warn, found: "without it"},
	})
	examine(t, "loop", map[string]illness{
		"no device": {change: gone("/dev/loop-control"), want: Fail, found: "no /dev/loop-control"},
	})
	examine(t, "nftables", map[string]illness{
		"not built": {change: without(t, "CONFIG_NF_TABLES_INET"), want: Fail, found: "CONFIG_NF_TABLES_INET"},
		"no config": {change: gone("/proc/config.gz"), want: Warn, found: "to tell"},
		"broken":    {change: set("/proc/config.gz", "not gzip"), want: Warn, found: "to tell"},
		"in boot": {change: both(gone("/proc/config.gz"), set("/boot/config-6.18.1", goodConfig)), want: OK,
			found: "CONFIG_NFT_CT"},
	})
	examine(t, "veth", map[string]illness{
		"not built": {change: without(t, "CONFIG_VETH"), want: Fail, found: "CONFIG_VETH"},
	})
	examine(t, "netem", map[string]illness{
		"not built": {change: without(t, "CONFIG_NET_SCH_NETEM"), want: Warn, found: "CONFIG_NET_SCH_NETEM"},
	})
	examine(t, "mount events", map[string]illness{
		"refused": {change: func(p *patient) { p.events = errors.New("EINVAL") }, want: Warn, found: "EINVAL"},
	})
	unified := gone("/sys/fs/cgroup/cgroup.controllers")
	examine(t, "cgroups", map[string]illness{
		"version 1": {change: both(unified, set("/sys/fs/cgroup/memory", "")), want: Warn, found: "version 1"},
		"none":      {change: unified, want: Fail},
	})
}

func TestResourceChecks(t *testing.T) {
	free := func(path string, bytes uint64) func(*patient) { return func(p *patient) { p.free[path] = bytes } }
	examine(t, "free for images", map[string]illness{
		"full":  {change: free("/var/lib/docker", gib), want: Fail, found: "1.0 GiB"},
		"tight": {change: free("/var/lib/docker", 8*gib), want: Warn, found: "8.0 GiB"},
	})
	examine(t, "free for runs", map[string]illness{
		"tight":     {change: free(".", 2*gib), want: Warn},
		"no answer": {change: func(p *patient) { p.free = nil }, want: Warn, found: "no answer"},
	})
	examine(t, "available memory", map[string]illness{
		"little":  {change: set("/proc/meminfo", "MemAvailable: 1048576 kB\n"), want: Fail, found: "1.0 GiB"},
		"some":    {change: set("/proc/meminfo", "MemAvailable: 4194304 kB\n"), want: Warn},
		"unsaid":  {change: set("/proc/meminfo", "MemFree: 1 kB\n"), want: Warn, found: "no MemAvail"},
		"strange": {change: set("/proc/meminfo", "MemAvailable: much\n"), want: Warn, found: "no MemAvail"},
	})
	examine(t, "fs.inotify.max_user_watches", map[string]illness{
		"few": {change: set("/proc/sys/fs/inotify/max_user_watches", "8192"), want: Warn, found: "8192"},
	})
	examine(t, "fs.inotify.max_user_instances", map[string]illness{
		"unknown": {change: gone("/proc/sys/fs/inotify/max_user_instances"), want: Warn, found: "nothing"},
	})
	examine(t, "go", map[string]illness{
		"old": {change: func(p *patient) { p.commands["go env GOVERSION"] = "go1.21" }, want: Warn, found: "go1.21"},
	})
	examine(t, "gcc", map[string]illness{
		"absent": {change: func(p *patient) { delete(p.commands, "gcc --version") }, want: Warn, found: "nothing"},
	})
}
