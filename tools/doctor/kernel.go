package doctor

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

func (x examination) kernel() []Check {
	config := x.kernelConfig()
	return []Check{
		x.fileSystem(config, "overlay", "OVERLAY_FS", Fail),
		x.fileSystem(config, "ext4", "EXT4_FS", Fail),
		x.fileSystem(config, "xfs", "XFS_FS", Warn),
		x.loop(),
		x.option(config, "nftables", []string{"NF_TABLES", "NF_TABLES_INET", "NFT_CT"}, Fail,
			"tables of both families with conntrack, for partitions"),
		x.option(config, "veth and bridge", []string{"VETH", "BRIDGE"}, Fail, "both, for the nodes' network"),
		x.option(config, "netem", []string{"NET_SCH_NETEM"}, Warn, "it for delay and loss faults, refused without"),
		x.mountEvents(),
		x.cgroups(),
	}
}

// kernelConfig returns the kernel's build options that are set ("VETH" to "y" or "m"), or nil when they are not told.
func (x examination) kernelConfig() map[string]string {
	text, err := x.ReadFile("/proc/config.gz")
	if err == nil {
		var packed *gzip.Reader
		if packed, err = gzip.NewReader(bytes.NewReader(text)); err == nil {
			text, err = io.ReadAll(packed)
		}
	}
	if err != nil {
		text, err = x.ReadFile("/boot/config-" + x.line("/proc/sys/kernel/osrelease"))
	}
	if err != nil {
		return nil
	}
	config := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && strings.HasPrefix(name, "CONFIG_") {
			config[strings.TrimPrefix(name, "CONFIG_")] = value
		}
	}
	return config
}

// fileSystem looks at what the kernel can mount now, and then at what it could load.
func (x examination) fileSystem(config map[string]string, name, option string, worst Status) Check {
	check := Check{What: name, Need: "the file system " + name, Fix: "modprobe " + name}
	text, err := x.ReadFile("/proc/filesystems")
	if err == nil && slices.Contains(strings.Fields(string(text)), name) {
		check.Status, check.Found, check.Fix = OK, "it in /proc/filesystems", ""
		return check
	}
	switch {
	case err != nil:
		check.Status, check.Found = Warn, "no answer: "+err.Error()
	case config == nil:
		check.Status, check.Found = Warn, "it not loaded, and no kernel configuration to tell whether it can be"
	case config[option] == "":
		check.Status, check.Found = worst, "a kernel without it"
		check.Fix = "boot a kernel that has CONFIG_" + option
	default:
		check.Status, check.Found, check.Fix = OK, "a module, loaded when it is used", ""
	}
	return check
}

// loop looks for the control device: with it, the kernel makes as many loop devices as are asked for.
func (x examination) loop() Check {
	check := Check{What: "loop", Need: "/dev/loop-control, for volumes"}
	if _, err := x.Stat("/dev/loop-control"); err != nil {
		check.Status, check.Found, check.Fix = Fail, "no /dev/loop-control", "modprobe loop"
		return check
	}
	check.Status, check.Found = OK, "/dev/loop-control"
	return check
}

// option looks at build options and loaded modules. Without a kernel configuration it can only warn.
func (x examination) option(config map[string]string, what string, options []string, worst Status,
	need string) Check {
	check := Check{What: what, Need: need}
	if config == nil {
		check.Status, check.Found = Warn, "no kernel configuration to tell (/proc/config.gz, /boot/config-*)"
		check.Fix = "modprobe configs"
		return check
	}
	var missing, modules []string
	for _, option := range options {
		switch config[option] {
		case "y":
		case "m":
			modules = append(modules, "CONFIG_"+option)
		default:
			missing = append(missing, "CONFIG_"+option)
		}
	}
	switch {
	case len(missing) > 0:
		check.Status, check.Found = worst, "a kernel without "+strings.Join(missing, ", ")
		check.Fix = "boot a kernel that has " + strings.Join(missing, ", ")
	case len(modules) > 0:
		check.Status, check.Found = OK, "module "+strings.Join(modules, ", ")
	default:
		check.Status, check.Found = OK, "built in"
	}
	return check
}

// mountEvents asks the kernel itself, since a version number says nothing of what was built in or is permitted.
func (x examination) mountEvents() Check {
	check := Check{What: "mount events", Need: "fanotify FAN_REPORT_MNT (Linux 6.15), else mountinfo is polled"}
	if err := x.MountEvents(); err != nil {
		check.Status = Warn
		check.Found = fmt.Sprintf("none (%v) on Linux %s", err, x.line("/proc/sys/kernel/osrelease"))
		check.Fix = "run as root on Linux 6.15 or later; with polling, mounts held for less than a poll are missed"
		return check
	}
	check.Status, check.Found = OK, "fanotify mount events"
	return check
}

// cgroups tells the version at the place where kind's nodes look for it.
func (x examination) cgroups() Check {
	check := Check{What: "cgroups", Need: "version 2, or a kubelet told to accept version 1"}
	if _, err := x.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		check.Status, check.Found = OK, "version 2"
		return check
	}
	if _, err := x.Stat("/sys/fs/cgroup/memory"); err == nil {
		check.Status, check.Found = Warn, "version 1: seatrial sets failCgroupV1: false for the kubelet"
		check.Fix = "boot with systemd.unified_cgroup_hierarchy=1"
		return check
	}
	check.Status, check.Found = Fail, "no cgroup controllers below /sys/fs/cgroup"
	check.Fix = "mount -t cgroup2 none /sys/fs/cgroup"
	return check
}

// atLeast sets the status by the first two numbers of a version, leaving what it cannot read a warning.
func atLeast(check Check, version string, major, minor int, fix string) Check {
	first, rest, _ := strings.Cut(version, ".")
	second := rest
	if end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		second = rest[:end]
	}
	gotMajor, err := strconv.Atoi(first)
	gotMinor, minorErr := strconv.Atoi(second)
	switch {
	case err != nil || minorErr != nil:
		check.Status, check.Fix = Warn, fix
	case gotMajor < major || gotMajor == major && gotMinor < minor:
		check.Status, check.Fix = Fail, fix
	default:
		check.Status = OK
	}
	return check
}
