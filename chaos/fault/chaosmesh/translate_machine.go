package chaosmesh

import (
	"strings"

	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"

	"github.com/seatrial/seatrial/chaos/plan"
)

// processFault returns the fault that a signal to a process is. The processes of the control plane have names of their
// own, see ofControlPlane.
func processFault(process string, signal int) (name string, ok bool) {
	short := strings.TrimPrefix(process, "kube-")
	switch {
	case signal == sigkill && (process == "kubelet" || process == "kube-proxy"):
		return process + "-kill", true
	case signal == sigkill && process == "containerd":
		return "runtime-kill", true
	case signal == sigkill && ofControlPlane(process):
		return strings.TrimPrefix(short, "controller-") + "-kill", true
	case signal == sigstop && process == "kubelet":
		return "kubelet-freeze", true
	case signal == sigstop && ofControlPlane(process):
		return strings.TrimPrefix(short, "controller-") + "-freeze", true
	}
	return "", false
}

func ofControlPlane(process string) bool {
	switch process {
	case "kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd":
		return true
	}
	return false
}

// machineLoss returns the steps that lose a share of what nodes send to all other nodes.
func (t *translator) machineLoss(r *rules, m Manifest) []plan.Step {
	s := m.Object.(*v1alpha1.PhysicalMachineChaos).Spec
	before := len(r.errs)
	n := s.NetworkLoss
	for _, f := range []inert{
		{"ip-address", n.IPAddress != ""}, {"hostname", n.Hostname != ""}, {"source-port", n.SourcePort != ""},
		{"egress-port", n.EgressPort != ""}, {"ip-protocol", n.IPProtocol != "" && n.IPProtocol != "all"},
		{"correlation", strings.Trim(n.Correlation, "0.") != ""},
	} {
		if f.set {
			r.add("spec.network-loss."+f.path, "leave it out",
				"the share is that of all packets that leave the machine for another node, each by itself")
		}
	}
	f := plan.Fault{
		Name: "packet-loss", Hold: hold(s.Duration), Params: plan.Params{
			"direction": "out", "percent": r.share("spec.network-loss.percent", n.Percent),
		},
	}
	nodes, note := t.nodes(r, s.PhysicalMachineSelector)
	var steps []plan.Step
	for _, n := range nodes {
		if n == controlPlane {
			r.add("spec.selector", "choose a worker", "the control plane cannot be its victim")
		}
		if len(r.errs) == before {
			one := f
			one.Ordinal = n
			steps = append(steps, t.step(r, m, addNote(note, "of all devices"), one)...)
		}
	}
	return steps
}

// process returns the steps of a signal to a process of nodes.
func (t *translator) process(r *rules, m Manifest) []plan.Step {
	s := m.Object.(*v1alpha1.PhysicalMachineChaos).Spec
	name, ok := processFault(s.Process.Process, s.Process.Signal)
	if !ok {
		r.add("spec.process", "use kubelet, kube-proxy, containerd or a component of the control plane with "+
			"signal 9, or kubelet or a component with signal 19",
			"no fault sends signal %d to %q and shows what comes of it", s.Process.Signal, printable(s.Process.Process))
		return nil
	}
	nodes, note := t.nodes(r, s.PhysicalMachineSelector)
	f := plan.Fault{Name: name, Hold: plan.Duration(moment)}
	if s.Process.Signal == sigstop {
		f.Hold = hold(s.Duration)
	}
	var steps []plan.Step
	for _, n := range nodes {
		one := f
		switch {
		case ofControlPlane(s.Process.Process) != (n == controlPlane):
			r.add("spec.process.process", "name a machine that runs it: workers run kubelet, kube-proxy and containerd",
				"%q does not run there, or is not hurt there", printable(s.Process.Process))
			return nil
		case n == controlPlane:
			one.Ordinal = t.work.Start // The victim is the control plane, whichever pod it was chosen by.
		default:
			one.Ordinal = n
		}
		steps = append(steps, t.step(r, m, note, one)...)
	}
	return steps
}

// machinePartition returns the steps that cut nodes off from the control plane, or from other nodes.
func (t *translator) machinePartition(r *rules, m Manifest) []plan.Step {
	s := m.Object.(*v1alpha1.PhysicalMachineChaos).Spec
	before := len(r.errs)
	p := s.NetworkPartition
	if p.IPAddress != "" {
		r.add("spec.network-partition.ip-address", "use hostname with the name of a machine, or control-plane",
			"addresses of nodes are not known before there is a cluster")
		return nil
	}
	nodes, note := t.nodes(r, s.PhysicalMachineSelector)
	var steps []plan.Step
	for _, host := range strings.Split(p.Hostname, ",") {
		host = strings.TrimSpace(host)
		peer, ok := t.machine(host)
		if !ok {
			r.add("spec.network-partition.hostname", "use control-plane, or the name of a machine",
				"no machine %q is known", printable(host))
		}
		for _, n := range nodes {
			if n == controlPlane || n == peer {
				r.add("spec.selector", "choose another machine",
					"the control plane, or a machine itself, cannot be cut off from %q", printable(host))
			}
			f := plan.Fault{
				Name: "node-partition", Ordinal: n, Hold: hold(s.Duration), Params: direction(p.Direction),
			}
			if peer != controlPlane {
				f.Name, f.Params["peer"] = "node-isolate", peer
			}
			if len(r.errs) == before {
				steps = append(steps, t.step(r, m, addNote(note, "of all devices"), f)...)
			}
		}
	}
	return steps
}
