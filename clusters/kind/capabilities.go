package kind

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/linux"
)

// Capabilities returns what every kind cluster on this machine can do. It tries queueing disciplines in a new network
// namespace; where that is not permitted it reads the kernel's configuration. The unknown counts as possible.
func Capabilities() clusters.Capabilities {
	return host{getenv: os.Getenv, readFile: os.ReadFile, try: tryQdisc}.capabilities()
}

// Capabilities returns what the cluster can do.
func (c *Cluster) Capabilities() clusters.Capabilities { return Capabilities() }

// host is this machine.
type host struct {
	getenv   func(string) string
	readFile func(string) ([]byte, error)
	try      func(kind string) error
}

// OnAnyMachine returns what every kind cluster can do, whatever the machine, and the capabilities that depend on the
// machine's kernel, with its option.
func OnAnyMachine() (c clusters.Capabilities, kernel map[string]string) {
	return clusters.Capabilities{
		Can: []string{
			clusters.CanAPI, clusters.CanNFTables, clusters.CanPower, clusters.CanReboot, clusters.CanSharedDir,
			clusters.CanStaticPods, clusters.CanSystemd, clusters.CanUpgrade, clusters.OneKernel,
		},
		Cannot: map[string]string{
			clusters.CanClock: "all nodes of a kind cluster share the kernel of its host, and so its wall clock",
			clusters.CanReset: "the nodes of a kind cluster are containers, and a reset is one of their host",
		},
	}, map[string]string{clusters.CanNetem: "CONFIG_NET_SCH_NETEM", clusters.CanTBF: "CONFIG_NET_SCH_TBF"}
}

func (h host) capabilities() clusters.Capabilities {
	c, kernel := OnAnyMachine()
	for need, option := range kernel {
		if why := h.lacksQdisc(need, option); why != "" {
			c.Cannot[need] = why
		} else {
			c.Can = append(c.Can, need)
		}
	}
	return c
}

// lacksQdisc returns why the kernel has no queueing discipline of a kind, "" if it has or that is unknown.
func (h host) lacksQdisc(kind, option string) string {
	for _, name := range []string{"DOCKER_HOST", "CONTAINER_HOST"} {
		if at := h.getenv(name); at != "" && !strings.HasPrefix(at, "unix:") {
			return "" // The nodes have another kernel than this one.
		}
	}
	release := h.line("/proc/sys/kernel/osrelease")
	err := h.try(kind)
	switch {
	case err == nil:
		return ""
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Sprintf("Linux %s, which the nodes share, has no queueing discipline %s: one was tried", release,
			kind)
	}
	config := clusters.KernelConfig(h.readFile)
	if _, has := config[option]; has || config == nil {
		return ""
	}
	return fmt.Sprintf("Linux %s, which the nodes share, was built without %s", release, option)
}

func (h host) line(file string) string {
	text, err := h.readFile(file)
	if err != nil {
		return "of an unknown release"
	}
	return strings.TrimSpace(string(text))
}

// tryQdisc adds a queueing discipline to the loopback device of a new network namespace, which ends with its thread's
// visit.
func tryQdisc(kind string) error {
	enter := func() error { return linux.Unshare(linux.NewNetworkNS) }
	return inNetns(enter, func() error { return addQdisc(kind) })
}
