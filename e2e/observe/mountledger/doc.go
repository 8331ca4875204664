// Package mountledger writes down, on a node, every mount that appears in or vanishes from the node's mount
// namespace, and every process of given names that starts or ends.
//
// Its promise: whatever it missed, or saw and could not identify, is in the ledger as a fact of its own. It runs on
// the nodes, so it imports the standard library, golang.org/x/sys/unix, moby/sys/mountinfo and the facts only.
//
// What it cannot see: mounts in other mount namespaces than the node's (a container's own view of a volume), file
// systems used through a descriptor that was never attached anywhere, and raw use of a block device.
package mountledger
