package controlplane

import "github.com/seatrial/seatrial/chaos/fault"

// Components returns the faults of the four programs of the control plane: each can be killed, frozen and stopped. The
// victim is every process of the program, on every node of the control plane, whichever node the plan names.
//
//   - kill sends SIGKILL; the kubelet starts the program again.
//   - freeze sends SIGSTOP, with a mark on the node that says which process: connections stay open and nothing is
//     answered, which takes a client longer to find out than a refusal. Heal sends SIGCONT to the process of the mark,
//     if it is still the same.
//   - stop swaps the manifest of the static pod, at once, for one of a pause pod of the same name, and keeps it with
//     the owner's mark; the kubelet ends the program. Heal puts the manifest back, byte for byte.
//
// Kill, freeze and stop show their effect on the processes. Freeze and stop show besides that nothing answers at the
// health endpoint, on IPv4 and on IPv6 where it did before, and that the program is missed: a request to the API server
// is not answered within 3 s, or the leader's lease is not renewed.
//
// All of them show at the end that the program, or a later process of it, says it is healthy, that the API server
// answers, and that the leases that depend on it are renewed twice after that.
func Components() []fault.Definition {
	var all []fault.Definition
	for _, c := range []struct {
		prefix, title      string
		of                 component
		kill, freeze, stop string // How each is known upstream.
	}{
		{
			"apiserver", "the kube-apiserver", theAPIServer(),
			"k/k#65966", // Controllers that cannot renew their leases end themselves.
			"k/k#59848", // What was read of a server that lags behind is taken for the truth.
			"k/k#117745",
		},
		{
			"etcd", "etcd", theEtcd(),
			"etcd-io/etcd tests/robustness/failpoint: KillFailpoint",
			"k/k#5589",  // Machines of etcd were suspended, and the whole control plane hung.
			"k/k#28350", // Scheduler and controllers ended with it, and nobody started them again.
		},
		{
			"manager", "the kube-controller-manager", theManager(),
			"kubernetes/kubernetes test/e2e/apps/daemon_restart.go",
			"k/k#107678", // One that did not go on to lead when the API server answered again.
			"k/k#115297", // A volume was detached by the one that was started again.
		},
		{
			"scheduler", "the kube-scheduler", theScheduler(),
			"kubernetes/kubernetes test/e2e/apps/daemon_restart.go",
			"k/k#101877", // A binding was given up half-way, and the pod could not be bound again.
			"kubernetes/kubernetes test/e2e/storage/static_pods.go",
		},
	} {
		all = append(all,
			freezing(c.of, fault.Definition{
				Name:     c.prefix + "-freeze",
				Summary:  "Freezes " + c.title + " with SIGSTOP for the hold, whatever the victim.",
				Upstream: c.freeze,
			}),
			killing(c.of, fault.Definition{
				Name:     c.prefix + "-kill",
				Summary:  "Kills " + c.title + " with SIGKILL, whatever the victim.",
				Upstream: c.kill,
			}),
			stopping(c.of, fault.Definition{
				Name:     c.prefix + "-stop",
				Summary:  "Takes " + c.title + " away for the hold by its manifest, whatever the victim.",
				Upstream: c.stop,
			}))
	}
	return all
}
