package probe

import "strings"

// ParsePodUID returns the UID of the pod that a process belongs to from the content of its /proc/PID/cgroup, and ""
// for a process of no pod. It knows cgroup v1 and v2, the kubelet's cgroupfs driver (".../kubepods/burstable/pod<uid>/
// <container>") and its systemd driver (".../kubepods-burstable-pod<uid with _>.slice/cri-containerd-<id>.scope"),
// also below another root such as kind's "kubelet". The source of both forms is k8s.io/kubernetes pkg/kubelet/cm.
func ParsePodUID(cgroup string) string {
	for line := range strings.Lines(cgroup) {
		// The line is "hierarchy:controllers:path"; the path may itself hold colons.
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) < 3 {
			continue
		}
		if uid := podUIDOfPath(parts[2]); uid != "" {
			return uid
		}
	}
	return ""
}

func podUIDOfPath(path string) string {
	below := false // Whether a parent's name says that the kubelet's pods live below it.
	for part := range strings.SplitSeq(path, "/") {
		name, slice := strings.CutSuffix(part, ".slice")
		if below && strings.HasPrefix(name, "pod") {
			if uid := validUID(strings.TrimPrefix(name, "pod")); uid != "" {
				return uid
			}
		}
		if strings.Contains(name, "kubepods") {
			below = true
			if i := strings.LastIndex(name, "-pod"); slice && i >= 0 {
				if uid := validUID(strings.ReplaceAll(name[i+len("-pod"):], "_", "-")); uid != "" {
					return uid
				}
			}
		}
	}
	return ""
}

// validUID returns s when it has the form of a pod's UID: a UUID, or 32 hexadecimal digits for a static pod.
func validUID(s string) string {
	if len(s) != 32 && len(s) != 36 {
		return ""
	}
	for i := range len(s) {
		c := s[i]
		dash := len(s) == 36 && (i == 8 || i == 13 || i == 18 || i == 23)
		hex := c >= '0' && c <= '9' || c >= 'a' && c <= 'f'
		if dash && c != '-' || !dash && !hex {
			return ""
		}
	}
	return s
}

// ParseContainerID returns the runtime's id of the container that a process belongs to from the content of its
// /proc/PID/cgroup: the 64 hexadecimal digits in the name of the control group, in "<id>" of the cgroupfs
// driver and "cri-containerd-<id>.scope" of the systemd driver alike. It returns "" for any other name. Of nested
// groups, as a container may make for itself, the outermost that has such a name counts.
func ParseContainerID(cgroup string) string {
	const digits = 64
	for line := range strings.Lines(cgroup) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) < 3 {
			continue
		}
		_, below, found := strings.Cut(parts[2], "kubepods")
		if !found {
			continue
		}
		for part := range strings.SplitSeq(below, "/") {
			name := strings.TrimSuffix(part, ".scope")
			if i := strings.LastIndexAny(name, "-:"); i >= 0 {
				name = name[i+1:]
			}
			if len(name) == digits && strings.Trim(name, "0123456789abcdef") == "" {
				return name
			}
		}
	}
	return ""
}
