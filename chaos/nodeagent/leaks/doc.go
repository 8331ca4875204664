// Package leaks lists what there is on a node of the things that a fault can leave behind, whoever left them, for two
// looks to be compared: history.Left. It runs on the node (seatrial-agent residue); of the API's objects package
// undo/apileaks does the same.
//
// The rule: a class of things is looked at when a fault can leave one of it. Of a class, what the cluster makes and
// takes away by itself while nothing is wrong is left out, and everything else is listed, with its owner when it bears
// a mark of ours.
//
//   - nftables: every table by its name, but those that iptables makes when it is first asked for one.
//   - iptables, both families: the policies of chains, and rules that name no chain of kube-proxy, of the network
//     plugin, or of the container engine.
//   - Routes, both families: those that lead nowhere (blackhole, unreachable, prohibit, throw). Others come and go with
//     pods and nodes. Routing rules: all.
//   - Qdiscs: those that are no kernel's default.
//   - Mounts of the node: but those of the kubelet, the container runtime and systemd, and of the kernel's own file
//     systems. What the kubelet leaves mounted is for the checks of mounts.
//   - Loop devices: those over a file below /var/lib/seatrial of this node, but for the disks that nodes share: they
//     are attached and detached as their pods move.
//   - Processes: those that are stopped, or in a frozen cgroup.
//   - Units: ours, but those that are installed by a file, which are looked at as files; those that have failed; timers
//     that somebody started by hand; the kubelet and the container runtime when they are not active.
//   - Files: what is held by a fault, what is ours in the directories of the system, drop-ins of systemd, and the
//     manifests of static pods by their content.
package leaks
