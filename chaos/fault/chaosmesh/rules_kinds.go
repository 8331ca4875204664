package chaosmesh

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"
)

// inert is a field that does nothing with an action.
type inert = struct {
	path string
	set  bool
}

func (r *rules) pod(obj, given *v1alpha1.PodChaos) {
	s := obj.Spec
	if !r.oneOf("spec.action", string(s.Action), "container-kill", "pod-failure", "pod-kill") {
		return
	}
	r.selector("spec", s.PodSelector, given.Spec.PodSelector)
	r.length(s.Duration, s.Action != v1alpha1.PodFailureAction)
	if s.GracePeriod < 0 || s.GracePeriod > int64(time.Hour/time.Second) {
		r.add("spec.gracePeriod", "use 0 to 3600 seconds", "%d is out of range", s.GracePeriod)
	}
	r.unset(string(s.Action),
		inert{"spec.gracePeriod", s.GracePeriod != 0 && s.Action != v1alpha1.PodKillAction},
		inert{"spec.containerNames", len(s.ContainerNames) > 0 && s.Action != v1alpha1.ContainerKillAction})
	r.containers(s.ContainerNames)
}

// containers holds that no container is named twice, and none without a name.
func (r *rules) containers(names []string) {
	for i, name := range names {
		if name == "" || slices.Contains(names[:i], name) {
			r.add("spec.containerNames", "name each container once", "%q is there twice, or is empty", printable(name))
		}
	}
}

func (r *rules) network(obj, given *v1alpha1.NetworkChaos) {
	s := obj.Spec
	if !r.oneOf("spec.action", string(s.Action), "bandwidth", "corrupt", "delay", "duplicate", "loss", "netem",
		"partition") {
		return
	}
	r.selector("spec", s.PodSelector, given.Spec.PodSelector)
	r.length(s.Duration, false)
	r.oneOf("spec.direction", string(s.Direction), "both", "from", "to")
	r.oneOf("spec.partitionBehavior", string(s.PartitionBehavior), "drop", "reject")
	if s.Target != nil {
		r.selector("spec.target", *s.Target, *given.Spec.Target)
	} else if s.TargetDevice != "" {
		r.add("spec.targetDevice", "leave it out, or set target", "there is no target whose device it could be")
	}
	targets := s.Target != nil || len(s.ExternalTargets) > 0
	if given.Spec.Direction != "" && !targets {
		r.add("spec.direction", "set spec.target, or leave direction out",
			"%q says nothing without a target: Chaos Mesh takes it and cuts everything, or nothing", s.Direction)
	}
	if len(s.ExternalTargets) > 0 && s.Direction != v1alpha1.To && s.Action != v1alpha1.PartitionAction {
		r.add("spec.direction", `use "to"`, "%q does nothing with external targets", s.Direction)
	}
	for _, target := range s.ExternalTargets {
		if strings.TrimSpace(target) == "" || strings.ContainsAny(target, " \t\n;|&$`") {
			r.add("spec.externalTargets", "use addresses, ranges of them, or domains", "%q is none", printable(target))
		}
	}
	r.traffic(s, given.Spec)
}

// traffic holds that exactly the parameters of the action are set.
func (r *rules) traffic(s, given v1alpha1.NetworkChaosSpec) {
	netem := s.Action == v1alpha1.NetemAction
	partition := s.Action == v1alpha1.PartitionAction
	some := false
	for _, p := range []struct {
		name   string
		set    bool
		action v1alpha1.NetworkChaosAction
	}{
		{"delay", s.Delay != nil, v1alpha1.DelayAction},
		{"loss", s.Loss != nil, v1alpha1.LossAction},
		{"duplicate", s.Duplicate != nil, v1alpha1.DuplicateAction},
		{"corrupt", s.Corrupt != nil, v1alpha1.CorruptAction},
		{"rate", s.Rate != nil, v1alpha1.NetemAction},
		{"bandwidth", s.Bandwidth != nil, v1alpha1.BandwidthAction},
	} {
		belongs := s.Action == p.action || netem && p.name != "bandwidth"
		some = some || p.set && belongs
		switch {
		case p.set && !belongs:
			r.add("spec."+p.name, "leave it out", "does nothing with action %q", s.Action)
		case !p.set && s.Action == p.action && !netem:
			r.add("spec."+p.name, "set it", "is missing for action %q", s.Action)
		}
	}
	if netem && !some {
		r.add("spec.action", "set delay, loss, duplicate, corrupt or rate", "%q does nothing without one", s.Action)
	}
	if given.PartitionBehavior != "" && !partition {
		r.add("spec.partitionBehavior", "leave it out", "does nothing with action %q", s.Action)
	}
	if partition && (given.Device != "" || given.TargetDevice != "") {
		r.add("spec.device", "leave it out", "a partition is of all devices")
	}
	if s.Loss != nil {
		r.percent("spec.loss.loss", s.Loss.Loss, 0.01)
		r.percent("spec.loss.correlation", s.Loss.Correlation, 0)
	}
	if s.Delay != nil {
		if d, err := time.ParseDuration(s.Delay.Latency); err == nil && (d <= 0 || d > time.Minute) {
			r.add("spec.delay.latency", "use more than 0s and at most 1m", "%s is out of range", d)
		}
		if d, err := time.ParseDuration(s.Delay.Jitter); err == nil && d < 0 {
			r.add("spec.delay.jitter", "use 0s or more", "%s is out of range", d)
		}
	}
}

// ioMethods are the operations of a file system that Chaos Mesh knows (v1alpha1.IoMethod).
func ioMethods() []string {
	return []string{
		"lookup", "forget", "getattr", "setattr", "readlink", "mknod", "mkdir", "unlink", "rmdir", "symlink", "rename",
		"link", "open", "read", "write", "flush", "release", "fsync", "opendir", "readdir", "releasedir", "fsyncdir",
		"statfs", "setxattr", "getxattr", "listxattr", "removexattr", "access", "create", "getlk", "setlk", "bmap",
	}
}

func (r *rules) io(obj, given *v1alpha1.IOChaos) {
	s := obj.Spec
	if !r.oneOf("spec.action", string(s.Action), "attrOverride", "fault", "latency", "mistake") {
		return
	}
	r.selector("spec", s.PodSelector, given.Spec.PodSelector)
	r.length(s.Duration, false)
	r.containers(s.ContainerNames)
	if !path.IsAbs(s.VolumePath) || path.Clean(s.VolumePath) != s.VolumePath || s.VolumePath == "/" {
		r.add("spec.volumePath", "use the path that a volume of the pod is mounted at", "%q is none",
			printable(s.VolumePath))
	} else if s.Path != "" && !strings.HasPrefix(s.Path, s.VolumePath+"/") {
		r.add("spec.path", "use a path below spec.volumePath", "%q is not within %q", printable(s.Path), s.VolumePath)
	}
	if s.Percent < 0 || s.Percent > 100 {
		r.add("spec.percent", "use 1 to 100", "%d is out of range", s.Percent)
	}
	for _, method := range s.Methods {
		r.oneOf("spec.methods", string(method), ioMethods()...)
	}
	r.unset(string(s.Action),
		inert{"spec.delay", s.Delay != "" && s.Action != v1alpha1.IoLatency},
		inert{"spec.errno", s.Errno != 0 && s.Action != v1alpha1.IoFaults},
		inert{"spec.attr", s.Attr != nil && s.Action != v1alpha1.IoAttrOverride},
		inert{"spec.mistake", s.Mistake != nil && s.Action != v1alpha1.IoMistake})
	if s.Action == v1alpha1.IoLatency {
		d, err := time.ParseDuration(s.Delay)
		if err != nil || d <= 0 || d > time.Minute {
			r.add("spec.delay", "use more than 0s and at most 1m", "%q is out of range", printable(s.Delay))
		}
	}
	if s.Action == v1alpha1.IoFaults && s.Errno > 133 {
		r.add("spec.errno", "use a number of errno(3), 1 to 133", "%d is none", s.Errno)
	}
}

func (r *rules) time(obj, given *v1alpha1.TimeChaos) {
	s := obj.Spec
	r.selector("spec", s.PodSelector, given.Spec.PodSelector)
	r.length(s.Duration, false)
	r.containers(s.ContainerNames)
	if d, err := time.ParseDuration(s.TimeOffset); err == nil && d == 0 {
		r.add("spec.timeOffset", "use another", "an offset of nothing does nothing")
	}
	for _, clock := range s.ClockIds {
		r.oneOf("spec.clockIds", clock, "CLOCK_BOOTTIME", "CLOCK_BOOTTIME_ALARM", "CLOCK_MONOTONIC",
			"CLOCK_MONOTONIC_COARSE", "CLOCK_MONOTONIC_RAW", "CLOCK_PROCESS_CPUTIME_ID", "CLOCK_REALTIME",
			"CLOCK_REALTIME_ALARM", "CLOCK_REALTIME_COARSE", "CLOCK_THREAD_CPUTIME_ID")
	}
}

func (r *rules) stress(obj, given *v1alpha1.StressChaos) {
	s := obj.Spec
	r.selector("spec", s.PodSelector, given.Spec.PodSelector)
	r.length(s.Duration, false)
	r.containers(s.ContainerNames)
	if s.StressngStressors != "" {
		r.add("spec.stressngStressors", "use spec.stressors", "a command line of another program is not checked here")
	}
}

func (r *rules) machine(obj *v1alpha1.PhysicalMachineChaos) {
	s := obj.Spec
	if !r.oneOf("spec.mode", string(s.Mode), modes()...) {
		return
	}
	r.value("spec", s.Mode, s.Value)
	switch s.Action {
	case v1alpha1.PMProcessAction:
		r.process(s)
	case v1alpha1.PMNetworkPartitionAction:
		r.length(s.Duration, false)
		p := s.NetworkPartition
		r.unset("network-partition of a node, which is of all protocols",
			inert{"spec.network-partition.ip-protocol", p.IPProtocol != "" && p.IPProtocol != "all"},
			inert{"spec.network-partition.accept-tcp-flags", p.AcceptTCPFlags != ""})
	case v1alpha1.PMClockAction:
		r.add("spec.action", "leave it out; on machines with a kernel each, use chaosd by hand",
			"the nodes of a kind cluster share one kernel and so one clock: it cannot be wrong for one of them")
	case v1alpha1.PMNetworkLossAction:
		r.length(s.Duration, false)
		r.percent("spec.network-loss.percent", s.NetworkLoss.Percent, 0.01)
	default:
		r.add("spec.action", `use "process", "network-partition" or "network-loss"`,
			"%q needs chaosd on the machine, which nodes of a trial do not run", s.Action)
	}
}

// process holds what a signal to a process says.
func (r *rules) process(s v1alpha1.PhysicalMachineChaosSpec) {
	p := s.Process
	r.length(s.Duration, p.Signal != sigstop)
	if p.RecoverCmd != "" {
		r.add("spec.process.recoverCmd", "leave it out: faults heal themselves",
			"a command for a shell is not run on any node")
	}
}

// The signals that end a process at once, stop it, and let it go on.
const (
	sigkill = 9
	sigstop = 19
)
