package chaosmesh

import (
	"cmp"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
)

// The functions below read the spec of each action: they turn its values into parameters of our fault and refuse those
// that Chaos Mesh's schema, or Seatrial, does not allow.

func (m manifest) podKill([]int) []plan.Fault {
	s := m.Object.(*v1alpha1.PodChaos).Spec
	if s.GracePeriod < 0 || s.GracePeriod > int64(time.Hour/time.Second) {
		m.add("spec.gracePeriod", "use 0 to 3600 seconds", "%d is out of range", s.GracePeriod)
	}
	if s.GracePeriod == 0 {
		return []plan.Fault{{}}
	}
	grace := plan.Duration(time.Duration(s.GracePeriod) * time.Second)
	return []plan.Fault{{Name: "pod-delete", Params: plan.Params{"grace": grace}}}
}

func (m manifest) containerKill([]int) []plan.Fault {
	var faults []plan.Fault
	for _, name := range m.Object.(*v1alpha1.PodChaos).Spec.ContainerNames {
		faults = append(faults, plan.Fault{Params: plan.Params{"container": name}})
	}
	return faults
}

func (m manifest) packetLoss([]int) []plan.Fault {
	return []plan.Fault{m.loss("spec.loss.loss", m.Object.(*v1alpha1.NetworkChaos).Spec.Loss.Loss)}
}

// loss returns the fault that drops a share of a node's outgoing packets; the kernel takes a whole percentage.
func (m manifest) loss(path, text string) plan.Fault {
	share, err := strconv.ParseFloat(text, 64)
	switch {
	case share == 100:
		m.add(path, "use action partition", "the loss of every packet is a partition")
	case err != nil || !(share >= 1 && share <= 100) || share != math.Trunc(share):
		m.add(path, "use 1 to 99, without a fraction", "%q is out of range", text)
	}
	return plan.Fault{Params: plan.Params{"direction": "out", "percent": int(share)}}
}

// direction converts Chaos Mesh's direction, seen from the first side, into ours, seen from the victim.
func (m manifest) direction(path, theirs string) plan.Params {
	m.errs.OneOf(m.path(path), "direction", theirs, "both", "from", "to")
	if ours := map[string]string{"to": "out", "from": "in"}[theirs]; ours != "" {
		return plan.Params{"direction": ours}
	}
	return plan.Params{}
}

// podPartition cuts pods off from others. Chaos Mesh's defaults are direction "to" and action "drop".
func (m manifest) podPartition(victims []int) []plan.Fault {
	s := m.Object.(*v1alpha1.NetworkChaos).Spec
	behavior := cmp.Or(s.PartitionBehavior, v1alpha1.DropPartitionBehavior)
	m.errs.OneOf(m.path("spec.partitionBehavior"), "behavior", string(behavior), "drop", "reject")
	peers, _ := m.pods("spec.target", *s.Target)
	var faults []plan.Fault
	for _, peer := range peers {
		if slices.Contains(victims, peer) {
			m.add("spec.target.selector", "leave it out on one of them", "%s is on both sides", m.pod(peer))
		}
		params := m.direction("spec.direction", cmp.Or(string(s.Direction), string(v1alpha1.To)))
		params["peer"] = peer
		if behavior == v1alpha1.RejectPartitionBehavior {
			params["reject"] = true
		}
		faults = append(faults, plan.Fault{Params: params})
	}
	return faults
}

// ioMethods are the file system operations of Chaos Mesh (v1alpha1.IoMethod).
func ioMethods() []string {
	return []string{
		"lookup", "forget", "getattr", "setattr", "readlink", "mknod", "mkdir", "unlink", "rmdir", "symlink", "rename",
		"link", "open", "read", "write", "flush", "release", "fsync", "opendir", "readdir", "releasedir", "fsyncdir",
		"statfs", "setxattr", "getxattr", "listxattr", "removexattr", "access", "create", "getlk", "setlk", "bmap",
	}
}

func (m manifest) io([]int) []plan.Fault {
	o := m.Object.(*v1alpha1.IOChaos)
	s := o.Spec
	if !path.IsAbs(s.VolumePath) || path.Clean(s.VolumePath) != s.VolumePath || s.VolumePath == "/" {
		m.add("spec.volumePath", "use the path that a volume of the pod is mounted at", "%q is none", s.VolumePath)
	} else if s.Path != "" && !strings.HasPrefix(s.Path, s.VolumePath+"/") {
		m.add("spec.path", "use a path below spec.volumePath", "%q is not within %q", s.Path, s.VolumePath)
	}
	if s.Percent < 0 || s.Percent > 100 {
		m.add("spec.percent", "use 1 to 100", "%d is out of range", s.Percent)
	} else if newFiles(o, fault.Env{}).attempts() > maxCalls {
		m.add("spec.percent", "use 15 or more", "%d percent of calls are too few: to see one takes more calls than "+
			"there is time for", s.Percent)
	}
	// The probe uses these methods, which leave the volume unchanged.
	seen := len(s.Methods) == 0 || slices.Contains(s.Methods, "getattr") || slices.Contains(s.Methods, "lookup")
	for _, method := range s.Methods {
		seen = m.errs.OneOf(m.path("spec.methods"), "method", string(method), ioMethods()...) && seen
	}
	if !seen {
		m.add("spec.methods", "add getattr or lookup", "a probe does not write to the volume")
	}
	if d, err := time.ParseDuration(s.Delay); s.Delay != "" && (err != nil || d <= 0 || d > time.Minute) {
		m.add("spec.delay", "use more than 0s and at most 1m", "%q is out of range", s.Delay)
	}
	if s.Errno > 133 {
		m.add("spec.errno", "use a number of errno(3), 1 to 133", "%d is none", s.Errno)
	}
	return []plan.Fault{{}}
}

// workers refuses control-plane nodes as victims.
func (m manifest) workers(victims []int) {
	if slices.Contains(victims, controlPlane) {
		m.add("spec.selector", "choose a worker", "the control plane cannot be its victim")
	}
}

func (m manifest) machineLoss(victims []int) []plan.Fault {
	m.workers(victims)
	percent := m.Object.(*v1alpha1.PhysicalMachineChaos).Spec.NetworkLoss.Percent
	return []plan.Fault{m.loss("spec.network-loss.percent", percent)}
}

// The signals that kill and stop a process.
const (
	sigkill = 9
	sigstop = 19
)

// process returns a signal to a process of a worker or to a component of the control plane.
func (m manifest) process(victims []int) []plan.Fault {
	s := m.Object.(*v1alpha1.PhysicalMachineChaos).Spec.Process
	worker := map[string]string{"containerd": "runtime", "kube-proxy": "kube-proxy", "kubelet": "kubelet"}
	component := map[string]string{"etcd": "etcd", "kube-apiserver": "apiserver",
		"kube-controller-manager": "manager", "kube-scheduler": "scheduler"}
	name := worker[s.Process] + component[s.Process]
	does := map[int]string{sigkill: "-kill", sigstop: "-freeze"}[s.Signal]
	if name == "" || does == "" {
		m.add("spec.process", "use kubelet, kube-proxy, containerd or a component of the control plane with signal 9, "+
			"or kubelet or a component with signal 19", "no fault sends signal %d to %q", s.Signal, s.Process)
		return nil
	}
	if slices.ContainsFunc(victims, func(n int) bool { return (component[s.Process] != "") != (n == controlPlane) }) {
		m.add("spec.process.process", "name a machine that runs it: workers run kubelet, kube-proxy and containerd",
			"%q does not run there, or is not hurt there", s.Process)
	}
	return []plan.Fault{{Name: name + does}}
}

// machinePartition cuts nodes off from the control plane, or from other nodes.
func (m manifest) machinePartition(victims []int) []plan.Fault {
	m.workers(victims)
	s := m.Object.(*v1alpha1.PhysicalMachineChaos).Spec.NetworkPartition
	var faults []plan.Fault
	for host := range strings.SplitSeq(s.Hostname, ",") {
		host = strings.TrimSpace(host)
		peer, ok := m.machine(host)
		if !ok {
			m.add("spec.network-partition.hostname", "use control-plane, or the name of a machine",
				"no machine %q is known", host)
		}
		if slices.Contains(victims, peer) {
			m.add("spec.selector", "choose another machine", "machine %q cannot be cut off from itself", host)
		}
		f := plan.Fault{Params: m.direction("spec.network-partition.direction", cmp.Or(s.Direction, "both"))}
		if peer != controlPlane {
			f.Name, f.Params["peer"] = "node-isolate", peer
		}
		faults = append(faults, f)
	}
	return faults
}

func pause(d time.Duration, of, note string) plan.Step {
	return plan.Step{Do: plan.ActionPause, Lasting: plan.Duration(d), Bound: plan.Duration(d + time.Minute),
		Note: from(of, note)}
}
