package probe

import (
	"regexp"
	"strings"
)

// The paths of pods and containers in /proc/PID/cgroup, for cgroup v1 and v2, also below another root such as kind's
// "kubelet". The kubelet's cgroupfs driver makes ".../kubepods/burstable/pod<uid>/<container>", its systemd driver
// ".../kubepods-burstable-pod<uid with _>.slice/cri-containerd-<container>.scope" (k8s.io/kubernetes pkg/kubelet/cm). A
// UID is a UUID, or 32 hexadecimal digits for a static pod.
var (
	podPath = regexp.MustCompile(`(?m)kubepods(?:[^/\n]*-pod|[^\n]*?/pod)` +
		`([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?(?:/|$)`)
	containerPath = regexp.MustCompile(`(?m)kubepods[^\n]*?/(?:[^/\n]*[-:])?([0-9a-f]{64})(?:\.scope)?(?:/|$)`)
)

// ParsePodUID returns the UID of a process's pod from the content of its /proc/PID/cgroup, "" for a process of no pod.
func ParsePodUID(cgroup string) string {
	if m := podPath.FindStringSubmatch(cgroup); m != nil {
		return strings.ReplaceAll(m[1], "_", "-")
	}
	return ""
}

// ParseContainerID returns the runtime's id of a process's container, 64 hexadecimal digits, from the content of its
// /proc/PID/cgroup, "" for a process of none. Of nested groups, which a container may make, the outermost counts.
func ParseContainerID(cgroup string) string {
	if m := containerPath.FindStringSubmatch(cgroup); m != nil {
		return m[1]
	}
	return ""
}
