package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/clusters"
)

func (x examination) kernel() []Check {
	config := clusters.KernelConfig(x.ReadFile)
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

// fileSystem checks what the kernel can mount now, and then what it could load.
func (x examination) fileSystem(config map[string]string, name, option string, worst Status) Check {
	check, load := Check{What: name, Need: "the file system " + name}, "modprobe "+name
	text, err := x.ReadFile("/proc/filesystems")
	switch {
	case err == nil && slices.Contains(strings.Fields(string(text)), name):
		return check.is(OK, "it in /proc/filesystems", "")
	case err != nil:
		return check.is(Warn, "no answer: "+err.Error(), load)
	case config == nil:
		return check.is(Warn, "it not loaded, and no kernel configuration to tell whether it can be", load)
	case config["CONFIG_"+option] == "":
		return check.is(worst, "a kernel without it", "boot a kernel that has CONFIG_"+option)
	}
	return check.is(OK, "a module, loaded when it is used", "")
}

// loop checks for the control device, which makes any number of loop devices.
func (x examination) loop() Check {
	check := Check{What: "loop", Need: "/dev/loop-control, for volumes"}
	_, err := x.Stat("/dev/loop-control")
	if misc, _ := x.ReadFile("/proc/misc"); err != nil && strings.Contains(string(misc), " loop-control\n") {
		return check.is(OK, "it in /proc/misc: this container does not have the device, nodes do", "")
	}
	if err != nil {
		return check.is(Fail, "no /dev/loop-control", "modprobe loop")
	}
	return check.is(OK, "/dev/loop-control", "")
}

// option checks build options. Without a kernel configuration it only warns.
func (x examination) option(config map[string]string, what string, options []string, worst Status,
	need string) Check {
	check := Check{What: what, Need: need}
	if config == nil {
		return check.is(Warn, "no kernel configuration to tell (/proc/config.gz, /boot/config-*)", "modprobe configs")
	}
	var missing, modules []string
	for _, option := range options {
		switch config["CONFIG_"+option] {
		case "y":
		case "m":
			modules = append(modules, "CONFIG_"+option)
		default:
			missing = append(missing, "CONFIG_"+option)
		}
	}
	switch {
	case len(missing) > 0:
		lacks := strings.Join(missing, ", ")
		return check.is(worst, "a kernel without "+lacks, "boot a kernel that has "+lacks)
	case len(modules) > 0:
		return check.is(OK, "module "+strings.Join(modules, ", "), "")
	}
	return check.is(OK, "built in", "")
}

// mountEvents tries them: a version number does not say what was built in or is permitted.
func (x examination) mountEvents() Check {
	check := Check{What: "mount events", Need: "fanotify FAN_REPORT_MNT (Linux 6.15), else mountinfo is polled"}
	if err := x.MountEvents(); err != nil {
		return check.is(Warn, fmt.Sprintf("none (%v) on Linux %s", err, x.line("/proc/sys/kernel/osrelease")),
			"run as root on Linux 6.15 or later; with polling, mounts held for less than a poll are missed")
	}
	return check.is(OK, "fanotify mount events", "")
}

// cgroups checks the version at the path where kind's nodes read it.
func (x examination) cgroups() Check {
	check := Check{What: "cgroups", Need: "version 2, or a kubelet told to accept version 1"}
	if _, err := x.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return check.is(OK, "version 2", "")
	}
	if _, err := x.Stat("/sys/fs/cgroup/memory"); err == nil {
		return check.is(Warn, "version 1: seatrial sets failCgroupV1: false for the kubelet",
			"boot with systemd.unified_cgroup_hierarchy=1")
	}
	return check.is(Fail, "no cgroup controllers below /sys/fs/cgroup", "mount -t cgroup2 none /sys/fs/cgroup")
}
