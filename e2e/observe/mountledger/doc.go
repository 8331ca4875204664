// Package mountledger records, on a node, every mount that appears in or vanishes from the node's mount namespace,
// every process of given names that starts or ends, and every volume that a container has mounted in a mount namespace
// of its own.
//
// Its promise: what it missed of the node's mounts, or saw and could not identify, is a fact in the ledger. It runs on
// the nodes, so it imports the standard library, golang.org/x/sys/unix, moby/sys/mountinfo and the facts only.
//
// It does not see what a container mounted and unmounted between two reads of its namespace, file systems used through
// a descriptor that was never attached anywhere, and raw use of a block device.
package mountledger
